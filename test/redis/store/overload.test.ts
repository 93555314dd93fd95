import { createLimiter, fixedWindow, LimiterError } from 'spillgate';
import { redisStore } from 'spillgate/redis';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { startRedis, type RedisServer } from '../servers.ts';

const PATIENT_MS = 20_000;
/** Four calls under way with 64 decisions each, and 10,000 decisions that wait. */
const MOST = 4 * 64 + 10_000;
const CAPACITY = 5000;
const TOO_MANY = 500;

let server: RedisServer;

beforeEach(async () => {
  server = await startRedis();
});

afterEach(async () => {
  await server.stop();
});

test('past 10,000 decisions that wait, a check is answered at once by the failure policy, and no other suffers', async () => {
  const store = redisStore({ url: server.url, timeoutMs: PATIENT_MS, connectTimeoutMs: PATIENT_MS });
  await store.ready();
  const limiter = createLimiter({ store, failurePolicy: 'failClosed', deadlineMs: PATIENT_MS });
  const policy = fixedWindow({ name: 'many', quota: CAPACITY, window: '1d' });
  await server.pause();

  // The first turn fills the calls under way, the next one the queue.
  const waiting = Array.from({ length: 4 * 64 }, () => limiter.check(policy.for('k')));
  await new Promise((resolve) => setImmediate(resolve));
  waiting.push(...Array.from({ length: 10_000 }, () => limiter.check(policy.for('k'))));
  const refused = await Promise.all(Array.from({ length: TOO_MANY }, () => limiter.check(policy.for('k'))));
  server.resume();
  const decided = await Promise.all(waiting);

  expect(refused.every(({ degraded, allowed }) => degraded && !allowed)).toBe(true);
  expect(new Set(refused.map(({ cause }) => cause instanceof LimiterError && cause.code))).toEqual(
    new Set(['STORE_OVERLOADED']),
  );
  expect(decided).toHaveLength(MOST);
  expect(decided.filter(({ degraded }) => degraded)).toEqual([]);
  expect(decided.filter(({ allowed }) => allowed)).toHaveLength(CAPACITY);
  await limiter.close();
});
