import { createLimiter, tokenBucket } from 'spillgate';
import { redisStore } from 'spillgate/redis';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { startRedis, type RedisServer } from '../servers.ts';

const DEADLINE_MS = 40;
const STALL_MS = 150;

let server: RedisServer;

beforeAll(async () => {
  server = await startRedis();
});

afterAll(async () => {
  await server.stop();
});

test.each([
  { whose: 'of a check', deadlineMs: DEADLINE_MS, timeoutMs: 1000 },
  { whose: 'of a call', deadlineMs: 1000, timeoutMs: DEADLINE_MS },
])(
  'a process that stood still reads the answers that arrived meanwhile before it acts on a deadline $whose',
  async ({ deadlineMs, timeoutMs }) => {
    const store = redisStore({ url: server.url, timeoutMs, prefix: `stall-${deadlineMs}:` });
    await store.ready();
    const limiter = createLimiter({ store, deadlineMs, failurePolicy: 'failClosed' });
    const api = tokenBucket({ name: 'api', average: 10, burst: 10, period: '1h' });
    await limiter.check(api.for('warm-up'));

    const checks = Array.from({ length: 10 }, () => limiter.check(api.for('ann')));
    await sent();
    standStill(STALL_MS);
    const decisions = await Promise.all(checks);

    expect(decisions.filter(({ allowed }) => allowed)).toHaveLength(10);
    expect(decisions.filter(({ degraded }) => degraded)).toEqual([]);
    expect((await store.health()).status).toBe('up');
    await store.close();
  },
);

/** The decisions of a turn of the event loop leave at its end. */
async function sent(): Promise<void> {
  await new Promise(setImmediate);
}

/** What the garbage collector does, or an application with a lot to compute. */
function standStill(forMs: number): void {
  const until = performance.now() + forMs;
  while (performance.now() < until);
}
