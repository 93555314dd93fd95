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

/** Four calls: the first check of a turn leaves with those of the same turn, and then no more leave. */
const UNDER_WAY = 4 * 64;
const DEADLINE_MS = 100;

test('a check that waited past its deadline, or whose caller has left, is not sent and not charged', async () => {
  const store = redisStore({ url: server.url, timeoutMs: PATIENT_MS, connectTimeoutMs: PATIENT_MS });
  await store.ready();
  const patient = createLimiter({ store, failurePolicy: 'failClosed', deadlineMs: PATIENT_MS });
  const hasty = createLimiter({ store, failurePolicy: 'failClosed', deadlineMs: DEADLINE_MS });
  const policy = fixedWindow({ name: 'many', quota: CAPACITY, window: '1d' });
  await server.pause();
  const sent = Array.from({ length: UNDER_WAY }, () => patient.check(policy.for('k')));
  await new Promise((resolve) => setImmediate(resolve));

  const caller = new AbortController();
  const left = Array.from({ length: 8 }, () => patient.check(policy.for('k'), { signal: caller.signal }));
  const waiting = Array.from({ length: 500 }, () => hasty.check(policy.for('k')));
  const later = Array.from({ length: 10 }, () => patient.check(policy.for('k')));
  caller.abort();
  const aborted = await Promise.allSettled(left);
  const answered = await Promise.all(waiting);
  server.resume();
  await Promise.all([...sent, ...later]);

  expect(new Set(aborted.map(({ status }) => status))).toEqual(new Set(['rejected']));
  expect(new Set(answered.map(({ degraded, allowed }) => `${degraded} ${allowed}`))).toEqual(
    new Set(['true false']),
  );
  expect((await patient.peek(policy.for('k'))).remaining).toBe(CAPACITY - UNDER_WAY - later.length);
  await Promise.all([patient.close(), hasty.close()]);
});

test('what waits in a queue that nobody waits for makes room for others', async () => {
  const store = redisStore({ url: server.url, timeoutMs: PATIENT_MS, connectTimeoutMs: PATIENT_MS });
  await store.ready();
  const limiter = createLimiter({ store, failurePolicy: 'failClosed', deadlineMs: DEADLINE_MS });
  const policy = fixedWindow({ name: 'many', quota: CAPACITY, window: '1d' });
  await server.pause();
  const sent = Array.from({ length: UNDER_WAY }, () => limiter.check(policy.for('k')));
  await new Promise((resolve) => setImmediate(resolve));
  await Promise.all([...sent, ...Array.from({ length: 10_000 }, () => limiter.check(policy.for('k')))]);

  server.resume();
  await expect.poll(async () => (await limiter.check(policy.for('k'))).degraded).toBe(false);

  // Those under way were charged, and the polls that came through; none of those that waited.
  expect((await limiter.peek(policy.for('k'))).remaining).toBeGreaterThan(CAPACITY - UNDER_WAY - 100);
  await limiter.close();
});
