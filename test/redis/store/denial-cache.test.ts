import { createLimiter, slidingWindowLog, tokenBucket, type Limit, type Limiter } from 'spillgate';
import { redisStore } from 'spillgate/redis';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { startRedis, type RedisServer } from '../servers.ts';

const PATIENT_MS = 20_000;
const QUOTA = 3;
const login = slidingWindowLog({ name: 'login', quota: QUOTA, window: '1h' });

let server: RedisServer;
let limiters: Limiter[];

beforeEach(async () => {
  server = await startRedis();
  limiters = [];
});

afterEach(async () => {
  await Promise.all(limiters.map((limiter) => limiter.close()));
  await server.stop();
});

function connect(options: { readonly denialCache?: boolean; readonly clock?: () => number } = {}): Limiter {
  const store = redisStore({
    url: server.url,
    timeoutMs: PATIENT_MS,
    connectTimeoutMs: PATIENT_MS,
    ...options,
  });
  const limiter = createLimiter({ store, deadlineMs: PATIENT_MS });
  limiters.push(limiter);
  return limiter;
}

/** Each decision reads the one state that it is about. */
async function decided(): Promise<number> {
  const stats = String(await server.command('INFO', 'commandstats'));
  return Number(/cmdstat_get:calls=(\d+)/.exec(stats)?.[1] ?? 0);
}

async function scriptCalls(): Promise<number> {
  const stats = String(await server.command('INFO', 'commandstats'));
  return Number(/cmdstat_evalsha:calls=(\d+)/.exec(stats)?.[1] ?? 0);
}

test('a flood of denied requests on one key does not reach Redis', async () => {
  let nowUs = 1_000_000_000_000;
  const limiter = connect({ clock: () => nowUs });
  await limiter.check(login.for('ann'), { cost: QUOTA });
  const first = await limiter.check(login.for('ann'));
  const before = await scriptCalls();

  for (let request = 0; request < 2000; request += 1) {
    nowUs += 100;
    const decision = await limiter.check(login.for('ann'));
    expect(decision.allowed).toBe(false);
    expect(decision.source).toBe('denialCache');
  }

  expect(first.source).toBe('store');
  expect(await scriptCalls()).toBe(before);
});

test('what is settled for one key makes room there at once, and lets no flood on others through', async () => {
  const nowUs = 1_000_000_000_000;
  const limiter = connect({ clock: () => nowUs });
  const requests = slidingWindowLog({ name: 'requests', quota: 1000, window: '1h' });
  const both = (key: string): readonly Limit[] => [login.for(key), requests.for(key).withCost(1)];
  const reserved = await limiter.reserve(both('ann'), { cost: QUOTA });
  await limiter.check(login.for('bob'), { cost: QUOTA });
  const denied = [login.for('bob'), login.for('ann'), both('ann')];
  for (const limits of denied) await limiter.check(limits);
  const repeated = await Promise.all(denied.map((limits) => limiter.check(limits)));

  await reserved.settle(QUOTA - 2);

  expect(repeated.map(({ source }) => source)).toEqual(denied.map(() => 'denialCache'));
  const again = await Promise.all(denied.map((limits) => limiter.check(limits)));
  expect(again.map(({ allowed, source }) => ({ allowed, source }))).toEqual([
    { allowed: false, source: 'denialCache' },
    { allowed: true, source: 'store' },
    { allowed: true, source: 'store' },
  ]);
});

test('a flood on one key costs Redis as many calls as the policy admits, and one per second', async () => {
  let nowUs = 1_000_000_000_000;
  const startUs = nowUs;
  const limiter = connect({ clock: () => nowUs });
  const api = tokenBucket({ name: 'api', average: 2, burst: 5, period: '1s' });
  await limiter.peek(api.for('other'));
  const before = await scriptCalls();
  let admitted = 0;

  // Ten seconds of a thousand requests each.
  for (let request = 0; request < 10_000; request += 1) {
    nowUs += 1000;
    if ((await limiter.check(api.for('flooded'))).allowed) admitted += 1;
  }

  const seconds = (nowUs - startUs) / 1_000_000;
  // The last token comes a millisecond after the last request.
  expect(admitted).toBe(5 + 2 * seconds - 1);
  expect((await scriptCalls()) - before).toBeLessThanOrEqual(admitted + seconds);
});

test('a crowd asks once when a token comes, and nobody is denied what Redis would admit', async () => {
  let nowUs = 1_000_000_000_000;
  const limiter = connect({ clock: () => nowUs });
  const api = tokenBucket({ name: 'api', average: 1, burst: 3, period: '1s' });
  const crowd = async (): Promise<number> => {
    const decisions = await Promise.all(Array.from({ length: 100 }, () => limiter.check(api.for('crowd'))));
    return decisions.filter(({ allowed }) => allowed).length;
  };
  const first = await crowd();
  const before = await decided();

  // One token each, then two at once.
  const admitted: number[] = [];
  for (const waitUs of [1_000_000, 1_000_000, 1_000_000, 2_000_000]) {
    nowUs += waitUs;
    admitted.push(await crowd());
  }

  expect(first).toBe(3);
  expect(admitted).toEqual([1, 1, 1, 2]);
  // Of the last crowd all but the first hear that there is another token, and ask for it.
  expect((await decided()) - before).toBe(3 + 100);
});

test('a crowd that asks for several limits, of which one is leased, hears about all of them', async () => {
  const limiter = connect();
  const tenant = tokenBucket({
    name: 'tenant',
    average: 100_000,
    burst: 100_000,
    period: '1s',
    leases: true,
  });
  const user = tokenBucket({ name: 'user', average: 5, burst: 1, period: '1s' });
  const problems: unknown[] = [];
  limiter.on('undecided', ({ error }) => problems.push(error));
  const lease = async (): Promise<boolean> => (await limiter.check(tenant.for('acme'))).source === 'lease';
  await expect.poll(lease, { interval: 1 }).toBe(true);
  let admitted = 0;
  const startMs = performance.now();

  while (admitted < 3) {
    const decisions = await Promise.all(
      Array.from({ length: 20 }, () => limiter.check([tenant.for('acme'), user.for('ann')])),
    );
    admitted += decisions.filter(({ allowed }) => allowed).length;
    await lease();
  }

  const seconds = (performance.now() - startMs) / 1000;
  expect(problems).toEqual([]);
  expect(admitted).toBeLessThanOrEqual(1 + 5 * seconds);
});

test('who waits for an answer that never comes is answered by the failure policy in time, and the next one asks', async () => {
  let nowUs = 1_000_000_000_000;
  const store = redisStore({ url: server.url, clock: () => nowUs, timeoutMs: 300 });
  const limiter = createLimiter({ store, deadlineMs: 150, failurePolicy: 'failClosed' });
  limiter.on('storeError', () => undefined);
  limiters.push(limiter);
  await store.ready();
  const api = tokenBucket({ name: 'api', average: 1, burst: 1, period: '1s' });
  await limiter.check(api.for('ann'));
  await limiter.check(api.for('ann'));
  nowUs += 1_000_000;
  await server.pause();

  const during = await Promise.all([limiter.check(api.for('ann')), limiter.check(api.for('ann'))]);

  server.resume();
  expect(during.map(({ source }) => source)).toEqual(['failurePolicy', 'failurePolicy']);
  await expect.poll(async () => (await limiter.check(api.for('ann'))).source).not.toBe('failurePolicy');
});

test('Redis is asked once a second all the same', async () => {
  let nowUs = 1_000_000_000_000;
  const limiter = connect({ clock: () => nowUs });
  await limiter.check(login.for('ann'), { cost: QUOTA });
  const sources: string[] = [];

  for (let request = 0; request < 50; request += 1) {
    nowUs += 100_000;
    sources.push((await limiter.check(login.for('ann'))).source);
  }

  expect(sources.filter((source) => source === 'store')).toHaveLength(5);
});

test('a wait that a repeated denial gives is enough', async () => {
  let nowUs = 1_000_000_000_000;
  const limiter = connect({ clock: () => nowUs });
  const api = tokenBucket({ name: 'api', average: 10, burst: 1, period: '1s' });
  await limiter.check(api.for('ann'));
  await limiter.check(api.for('ann'));
  nowUs += 70_000;
  const repeated = await limiter.check(api.for('ann'));

  nowUs += Math.ceil(repeated.retryAfterMs * 1000);
  const retried = await limiter.check(api.for('ann'));

  expect(repeated).toMatchObject({ allowed: false, source: 'denialCache' });
  expect(retried).toMatchObject({ allowed: true, source: 'store' });
});

test('forget makes room at once', async () => {
  const limiter = connect();
  await limiter.check(login.for('ann'), { cost: QUOTA });
  await limiter.check(login.for('ann'));

  await limiter.forget(login.for('ann'));

  expect((await limiter.check(login.for('ann'))).allowed).toBe(true);
});

test('another number for the key is asked for at once', async () => {
  const limiter = connect();
  const mine = slidingWindowLog({ name: 'mine', quota: QUOTA, window: '1h' });
  await limiter.check(mine.for('ann'), { cost: QUOTA });
  await limiter.check(mine.for('ann'));

  mine.override('ann', { quota: QUOTA + 1 });

  expect((await limiter.check(mine.for('ann'))).allowed).toBe(true);
});

test('without the cache Redis decides every request', async () => {
  const limiter = connect({ denialCache: false });
  await limiter.check(login.for('ann'), { cost: QUOTA });

  const sources = [await limiter.check(login.for('ann')), await limiter.check(login.for('ann'))];

  expect(sources.map(({ source }) => source)).toEqual(['store', 'store']);
});

test('several limits that denied together are denied together again', async () => {
  const limiter = connect();
  const perTenant = slidingWindowLog({ name: 'tenant', quota: 100, window: '1h' });
  const limits = [login.for('ann'), perTenant.for('acme')];
  await limiter.check(limits, { cost: QUOTA });
  const asked = await limiter.check(limits);

  const repeated = await limiter.check(limits);

  expect(repeated.source).toBe('denialCache');
  expect(repeated.verdicts.map(({ allowed, remaining }) => ({ allowed, remaining }))).toEqual(
    asked.verdicts.map(({ allowed, remaining }) => ({ allowed, remaining })),
  );
});
