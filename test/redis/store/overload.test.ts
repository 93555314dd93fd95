import { createLimiter, fixedWindow, LimiterError } from 'spillgate';
import { redisStore } from 'spillgate/redis';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { startRedis, type RedisServer } from '../servers.ts';

const PATIENT_MS = 20_000;
/** One leaves in every turn of the event loop. */
const CALLS = 4;
/** These calls under way with 64 decisions each, and 10,000 decisions that wait. */
const MOST = CALLS * 64 + 10_000;
/** Once they have left, no more leave. */
const UNDER_WAY = CALLS * 64;
const CAPACITY = 5000;
const TOO_MANY = 500;
const DEADLINE_MS = 100;

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

  // What is asked first fills the calls under way, the rest the queue.
  const waiting = Array.from({ length: UNDER_WAY }, () => limiter.check(policy.for('k')));
  await callsHaveLeft();
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

test('a check that waited past its deadline, or whose caller has left, is not sent and not charged', async () => {
  const store = redisStore({ url: server.url, timeoutMs: PATIENT_MS, connectTimeoutMs: PATIENT_MS });
  await store.ready();
  const patient = createLimiter({ store, failurePolicy: 'failClosed', deadlineMs: PATIENT_MS });
  const hasty = createLimiter({ store, failurePolicy: 'failClosed', deadlineMs: DEADLINE_MS });
  const policy = fixedWindow({ name: 'many', quota: CAPACITY, window: '1d' });
  await server.pause();
  const sent = Array.from({ length: UNDER_WAY }, () => patient.check(policy.for('k')));
  await callsHaveLeft();

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
  await callsHaveLeft();
  await Promise.all([...sent, ...Array.from({ length: 10_000 }, () => limiter.check(policy.for('k')))]);

  server.resume();
  await expect.poll(async () => (await limiter.check(policy.for('k'))).degraded).toBe(false);

  // Those under way were charged, and the polls that came through; none of those that waited.
  expect((await limiter.peek(policy.for('k'))).remaining).toBeGreaterThan(CAPACITY - UNDER_WAY - 100);
  await limiter.close();
});

async function callsHaveLeft(): Promise<void> {
  for (let turn = 0; turn < CALLS; turn += 1) await new Promise((resolve) => setImmediate(resolve));
}
