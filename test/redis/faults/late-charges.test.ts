import { createLimiter, fixedWindow, type Limiter } from 'spillgate';
import { redisStore, type RedisStoreOptions } from 'spillgate/redis';
import { afterEach, describe, expect, test } from 'vitest';
import { eventually, startRedis } from '../servers.ts';
import { Proxy } from './proxy.ts';

/** Longer than a busy machine keeps a server that is well from answering. */
const DEADLINE_MS = 250;
/** Later than anybody waits. */
const LATE_MS = 3 * DEADLINE_MS;
const QUOTA = 100;

const api = fixedWindow({ name: 'api', quota: QUOTA, window: '1d' });
const cleanups: (() => unknown)[] = [];

afterEach(async () => {
  for (const cleanup of cleanups.splice(0).toReversed()) await cleanup();
});

async function startNear(): Promise<Proxy> {
  const server = await startRedis();
  cleanups.push(() => server.stop());
  return wayTo(server.port);
}

async function wayTo(port: number): Promise<Proxy> {
  const proxy = await Proxy.start({ port });
  cleanups.push(() => proxy.stop());
  return proxy;
}

function open(options: RedisStoreOptions): { limiter: Limiter; refunds: boolean[] } {
  const limiter = createLimiter({
    store: redisStore(options),
    failurePolicy: 'failClosed',
    deadlineMs: DEADLINE_MS,
  });
  cleanups.push(() => limiter.close());
  const refunds: boolean[] = [];
  limiter.on('lateCharge', ({ refunded }) => refunds.push(refunded));
  limiter.on('storeError', () => undefined);
  return { limiter, refunds };
}

/** What is left of a limit, as soon as the store can tell: a first connection takes longer than the deadline. */
async function remaining(limiter: Limiter, key: string): Promise<number> {
  let left = -1;
  await eventually('the store decides', async () => {
    const { degraded, remaining: found } = await limiter.peek(api.for(key));
    left = found;
    return !degraded;
  });
  return left;
}

describe('a check whose answer comes too late', () => {
  test.each<[string, RedisStoreOptions]>([
    ['ioredis, which gives up with its caller', { clientPackage: 'ioredis' }],
    ['redis, which gives up with its caller', { clientPackage: 'redis' }],
    ['ioredis, whose call goes on for longer', { clientPackage: 'ioredis', timeoutMs: 10 * LATE_MS }],
    ['redis, whose call goes on for longer', { clientPackage: 'redis', timeoutMs: 10 * LATE_MS }],
  ])('gets back what it was charged: %s', async (_name, options) => {
    const proxy = await startNear();
    const { limiter, refunds } = open({ url: proxy.url, ...options });
    await remaining(limiter, 'k');
    expect(await limiter.check(api.for('k'))).toMatchObject({ degraded: false, remaining: QUOTA - 1 });

    proxy.delay(LATE_MS);
    const late = await Promise.all([1, 2, 3].map(() => limiter.check(api.for('k'), { cost: 10 })));
    proxy.delay(0);
    await eventually('every charge is reported', () => refunds.length === 3);

    expect(late.every(({ degraded, allowed }) => degraded && !allowed)).toBe(true);
    // On a busy machine a refund may take too long to be confirmed.
    await eventually('it has its old value', async () => (await remaining(limiter, 'k')) === QUOTA - 1);
  });

  test('gets it back from every server, whichever of them was late', async () => {
    const [near, far] = [await startNear(), await startNear()];
    const { limiter } = open({
      shards: [
        { name: 'near', url: near.url },
        { name: 'far', url: far.url },
      ],
      timeoutMs: 10 * LATE_MS,
    });
    const keys = Array.from({ length: 8 }, (_, at) => `key-${at}`);
    for (const key of keys) await remaining(limiter, key);
    expect(await limiter.check(keys.map((key) => api.for(key)))).toMatchObject({ degraded: false });

    // The look is in time, and the charge is not.
    far.judge((chunk) => {
      if (chunk.includes('check 1 ')) far.delay(LATE_MS);
      return 'delivered';
    });
    const late = await limiter.check(keys.map((key) => api.for(key)));
    expect(late).toMatchObject({ degraded: true, allowed: false });

    await eventually('everything is given back', async () => {
      far.delay(0);
      const left = await Promise.all(keys.map((key) => remaining(limiter, key)));
      return left.every((count) => count === QUOTA - 1);
    });
  });

  test('gets back its own token only: what others spent meanwhile stays spent', async () => {
    const near = await startNear();
    const far = await wayTo(near.port);
    const distant = open({ url: far.url });
    const { limiter } = open({ url: near.url });
    const three = fixedWindow({ name: 'three', quota: 3, window: '1d' });
    await remaining(distant.limiter, 'k');
    const left = async (): Promise<number> => (await limiter.check(three.for('k'))).remaining;

    far.delay(LATE_MS);
    const late = distant.limiter.check(three.for('k'));
    await eventually('it is charged', async () => (await limiter.peek(three.for('k'))).remaining === 2);
    const behindIt = await left();
    expect(await late).toMatchObject({ degraded: true, allowed: false });
    far.delay(0);
    await eventually('it is given back', () => distant.refunds.length === 1);

    // One number is seen twice. Still no more than three are admitted.
    expect(distant.refunds).toEqual([true]);
    expect([behindIt, await left(), await left()]).toEqual([1, 1, 0]);
    expect(await limiter.check(three.for('k'))).toMatchObject({ allowed: false, degraded: false });
  });

  test('that was denied, or only a look, has nothing to get back', async () => {
    const proxy = await startNear();
    const { limiter, refunds } = open({ url: proxy.url });
    await remaining(limiter, 'k');
    expect(await limiter.check(api.for('k'), { cost: QUOTA })).toMatchObject({ degraded: false });

    proxy.delay(LATE_MS);
    await Promise.all([limiter.check(api.for('k')), limiter.peek(api.for('other'))]);
    proxy.delay(0);

    expect(await remaining(limiter, 'k')).toBe(0);
    expect(refunds).toEqual([]);
  });
});
