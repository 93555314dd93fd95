import { createLimiter, tokenBucket, type Limiter } from 'spillgate';
import { redisStore, type RedisStoreOptions } from 'spillgate/redis';
import { afterEach, describe, expect, test, vi } from 'vitest';
import { eventually, startReplicated, startRedis } from '../servers.ts';

const HOUR_MS = 3_600_000;

const api = tokenBucket({ name: 'api', average: 1000, burst: 1000, period: '1s' });
const closing: (() => Promise<void>)[] = [];

afterEach(async () => {
  vi.restoreAllMocks();
  for (const close of closing.splice(0).toReversed()) await close();
});

async function openLimiter(options: RedisStoreOptions): Promise<Limiter> {
  const store = redisStore(options);
  const limiter = createLimiter({ store, failurePolicy: 'failClosed' });
  closing.push(() => limiter.close());
  await store.ready();
  return limiter;
}

/** An operator, or a virtual machine that wakes up, sets the clock of this process. */
function stepClock(byMs: number): void {
  const { now } = Date;
  vi.spyOn(Date, 'now').mockImplementation(() => now() + byMs);
}

async function decides(limiter: Limiter): Promise<boolean> {
  return !(await limiter.check(api.for('k'))).degraded;
}

describe('a process whose clock is set back by an hour', () => {
  test('follows a master that has been replaced', async () => {
    const group = await startReplicated();
    closing.push(() => group.stop());
    const [master] = group.servers;
    const limiter = await openLimiter({
      sentinel: { urls: group.sentinels.map(({ url }) => url), name: group.masterName },
    });
    expect(await decides(limiter)).toBe(true);

    stepClock(-HOUR_MS);
    await master.kill();
    await group.promotionAfter(master);

    await eventually('the new master decides', () => decides(limiter), 10_000);
  });

  test('comes back to a server that stood still and then answered late', async () => {
    const server = await startRedis();
    closing.push(() => server.stop());
    const limiter = await openLimiter({ url: server.url });
    expect(await decides(limiter)).toBe(true);

    await server.pause();
    await eventually('the server is down', async () => {
      await decides(limiter);
      return (await limiter.health()).status === 'down';
    });
    stepClock(-HOUR_MS);
    server.resume();

    await eventually('the server decides', () => decides(limiter), 10_000);
  });
});
