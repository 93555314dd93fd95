import { keyName } from '#limiter/stores/redis/protocol.js';
import type { EventEmitter } from 'node:events';
import type { Redis } from 'ioredis';
import { createLimiter, LimiterError, slidingWindowLog, tokenBucket, type Limiter } from 'spillgate';
import { redisStore } from 'spillgate/redis';
import { virtualClock } from 'spillgate/testing';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { eventually, type RedisServer } from '../servers.ts';
import { startLimited } from './limited-user.ts';
import { CLIENT_PACKAGES, openRaw, type OpenClient } from './clients.ts';

const PREFIX = 'spillgate:';
const PATIENT_MS = 10_000;

const ten = tokenBucket({ name: 'ten', average: 10, burst: 10, period: '1h' });
const log = slidingWindowLog({ name: 'log', quota: 10, window: '1h' });

let server: RedisServer;
let raw: Redis;

beforeAll(async () => {
  server = await startLimited();
  raw = openRaw(server);
});

afterAll(async () => {
  raw.disconnect();
  await server.stop();
});

describe.each(CLIENT_PACKAGES)('through $name', ({ open }) => {
  let opened: OpenClient;
  let limiter: Limiter;

  beforeEach(async () => {
    await raw.flushall();
    opened = await open(server);
    limiter = createLimiter({
      store: redisStore({ client: opened.client, clock: virtualClock(), timeoutMs: PATIENT_MS }),
      failurePolicy: 'failClosed',
      deadlineMs: PATIENT_MS,
    });
  });

  afterEach(async () => {
    await limiter.close();
    opened.close();
  });

  test('a closed store no longer listens to the client, which lives on', async () => {
    const emitter = opened.client as unknown as EventEmitter;
    const count = (): number =>
      emitter.eventNames().reduce((sum, event) => sum + emitter.listenerCount(event), 0);
    const store = redisStore({ client: opened.client });
    const before = count();
    const other = redisStore({ client: opened.client });

    expect(count()).toBeGreaterThan(before);
    await other.close();
    expect(count()).toBe(before);

    await store.close();
  });

  test('a forgotten script is sent again within the same request', async () => {
    await limiter.check(ten.for('k'));
    const remaining: number[] = [];

    for (let call = 0; call < 5; call += 1) {
      await raw.script('FLUSH');
      const decision = await limiter.check(ten.for('k'));
      expect(decision).toMatchObject({ degraded: false, source: 'store' });
      remaining.push(decision.remaining);
    }

    expect(remaining).toEqual([8, 7, 6, 5, 4]);
  });

  test('many requests that meet a forgotten script at once are each charged once', async () => {
    await raw.script('FLUSH');

    const decisions = await Promise.all(Array.from({ length: 500 }, () => limiter.check(ten.for('k'))));

    expect(decisions.filter(({ degraded }) => degraded)).toEqual([]);
    expect(decisions.filter(({ allowed }) => allowed)).toHaveLength(10);
  });

  test('a restarted server decides again, from nothing', async () => {
    await limiter.check(ten.for('k'), { cost: 10 });

    await server.restart();
    await eventually(
      'the client is connected again',
      async () => !(await limiter.peek(ten.for('k'))).degraded,
    );
    const decisions = await Promise.all(Array.from({ length: 20 }, () => limiter.check(ten.for('k'))));

    expect(decisions.filter(({ degraded }) => degraded)).toEqual([]);
    expect(decisions.filter(({ allowed }) => allowed)).toHaveLength(10);
  });

  test('FLUSHALL gives each key one fresh bucket and no more', async () => {
    // A denial may be repeated for a second after that; this is about the states.
    const store = redisStore({
      client: opened.client,
      clock: virtualClock(),
      timeoutMs: PATIENT_MS,
      denialCache: false,
    });
    const asking = createLimiter({ store, deadlineMs: PATIENT_MS });
    const keys = ['ann', 'bob', 'eve'];
    const admitted = async (key: string): Promise<number> => {
      const decisions = await Promise.all(Array.from({ length: 50 }, () => asking.check(ten.for(key))));
      return decisions.filter(({ allowed }) => allowed).length;
    };
    expect(await Promise.all(keys.map(admitted))).toEqual([10, 10, 10]);

    await raw.flushall();

    expect(await Promise.all(keys.map(admitted))).toEqual([10, 10, 10]);
    expect(await Promise.all(keys.map(admitted))).toEqual([0, 0, 0]);
  });

  test.each([
    ['a list', async (key: string) => raw.rpush(key, 'x')],
    ['a text', async (key: string) => raw.set(key, 'hello')],
    ['nothing but an empty text', async (key: string) => raw.set(key, '')],
    ['a state that lost its last byte', async (key: string) => raw.set(key, Buffer.alloc(31))],
    ['a state with a byte too many', async (key: string) => raw.set(key, Buffer.alloc(33))],
  ])('%s under our key degrades that decision and no other in its batch', async (_what, plant) => {
    const bad = ten.for('bad');
    const key = keyName(PREFIX, bad);
    await plant(key);
    const before = await raw.dump(key);
    // The script is known, so the next calls are one EVALSHA.
    await limiter.check([ten.for('warm-up'), log.for('warm-up')]);
    await raw.config('RESETSTAT');

    const [first, poisoned, last] = await Promise.all([
      limiter.check(ten.for('ann')),
      limiter.check([ten.for('bob'), bad, log.for('bob')]),
      limiter.check(ten.for('eve')),
    ]);

    expect(await raw.info('commandstats')).toContain('cmdstat_evalsha:calls=1,');
    expect(first).toMatchObject({ allowed: true, degraded: false, remaining: 9 });
    expect(last).toMatchObject({ allowed: true, degraded: false, remaining: 9 });
    expect(poisoned).toMatchObject({ allowed: false, degraded: true, source: 'failurePolicy' });
    expect(poisoned.cause).toBeInstanceOf(LimiterError);
    expect((await limiter.peek(ten.for('bob'))).remaining).toBe(10);
    expect((await limiter.peek(log.for('bob'))).remaining).toBe(10);
    expect(await raw.dump(key)).toEqual(before);
  });
});
