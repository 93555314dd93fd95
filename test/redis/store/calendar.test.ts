import { Temporal } from '@js-temporal/polyfill';
import type { Redis } from 'ioredis';
import { calendarQuota, createLimiter, type Policy } from 'spillgate';
import { redisStore } from 'spillgate/redis';
import { seededRandom, virtualClock } from 'spillgate/testing';
import { afterAll, afterEach, beforeAll, describe, expect, test, vi } from 'vitest';
import { runs } from '../../runs.ts';
import { type RedisServer } from '../servers.ts';
import { openRaw } from './clients.ts';
import { startLimited } from './limited-user.ts';

const DAY_US = 86_400_000_000;
const TIMEOUT_MS = 10_000;
const DECISIONS = runs(50_000);

// Much work rather than waiting: slow only where the machine is busy.
vi.setConfig({ testTimeout: 600_000 });

let server: RedisServer;
let raw: Redis;

beforeAll(async () => {
  server = await startLimited();
  raw = openRaw(server);
});

afterEach(async () => {
  vi.restoreAllMocks();
  await raw.flushall();
});

afterAll(async () => {
  raw.disconnect();
  await server.stop();
});

test('a month of traffic in which summer time begins: exactly the quota passes on every local day', async () => {
  const [quota, timeZone] = [10, 'Europe/Berlin'];
  const random = seededRandom(3);
  const clock = virtualClock(Date.parse('2026-03-14T23:00:00Z') * 1000);
  const store = redisStore({ client: raw, clock, timeoutMs: TIMEOUT_MS });
  const daily = calendarQuota({ name: 'daily', quota, every: 'day', timeZone });
  const passed = new Map<string, number>();

  const endUs = clock() + 31 * DAY_US;
  while (clock() < endUs) {
    const date = localDate(clock(), timeZone);
    const [verdict] = await store.check([daily.for('ann')], 1);
    if (verdict?.allowed === true) passed.set(date, (passed.get(date) ?? 0) + 1);
    clock.set(clock() + 1 + random.below(45 * 60_000_000));
  }

  const counts = [...passed.values()].slice(0, -1);
  expect(counts.length).toBeGreaterThanOrEqual(30);
  expect(new Set(counts)).toEqual(new Set([quota]));
});

test('random decisions are those of a count per period of Temporal', async () => {
  const random = seededRandom(5);
  const clock = virtualClock(Date.parse('2018-01-01T00:00:00Z') * 1000);
  const store = redisStore({ client: raw, clock, timeoutMs: TIMEOUT_MS });
  const zones = ['America/Sao_Paulo', 'Europe/London', 'Asia/Tehran', 'Australia/Lord_Howe'];
  const counts = new Map<string, number>();
  const policies = zones.map((timeZone, at): [string, Policy] => [
    timeZone,
    calendarQuota({ name: `p${at}`, quota: 12, every: 'day', timeZone }),
  ]);
  const wrong: unknown[] = [];

  for (let decision = 0; decision < DECISIONS; decision += 1) {
    const [timeZone, policy] = random.pick(policies);
    const cost = 1 + random.below(3);
    const period = `${timeZone} ${localDate(clock(), timeZone)}`;
    const used = counts.get(period) ?? 0;
    const [verdict] = await store.check([policy.for('ann')], cost);
    if (verdict?.allowed !== used + cost <= 12) wrong.push({ period, used, cost, verdict });
    if (verdict?.allowed === true) counts.set(period, used + cost);
    clock.set(clock() + random.below(1_800_000_000));
  }

  expect(wrong.slice(0, 3)).toEqual([]);
});

describe('a quota for life', () => {
  const trial = calendarQuota({ name: 'trial', quota: 2, every: 'ever' });

  test('has no expiry, does not come back, and is renewed by forget', async () => {
    const limiter = createLimiter({
      store: redisStore({ client: raw, timeoutMs: TIMEOUT_MS }),
      deadlineMs: 10_000,
    });
    await limiter.check(trial.for('ann'), { cost: 2 });
    const [key = ''] = await raw.keys('*');

    expect(await raw.pttl(key)).toBe(-1);
    expect(await limiter.check(trial.for('ann'))).toMatchObject({ allowed: false, retryAfterMs: Infinity });

    await limiter.forget(trial.for('ann'));
    expect(await limiter.check(trial.for('ann'))).toMatchObject({ allowed: true, remaining: 1 });
  });
});

describe("when this process's clock is wrong", () => {
  const daily = calendarQuota({ name: 'daily', quota: 2, every: 'day' });

  test.each([-11, 11])('by %i hours, the server decides by its own', async (hours) => {
    const rightMs = Date.now();
    vi.spyOn(Date, 'now').mockImplementation(() => rightMs + hours * 3_600_000);
    const store = redisStore({ client: raw, timeoutMs: TIMEOUT_MS });

    const [verdict] = await store.check([daily.for('ann')], 1);

    const nextMidnightMs = Math.ceil(rightMs / 86_400_000) * 86_400_000;
    expect(verdict).toMatchObject({ allowed: true, remaining: 1 });
    expect(Math.abs((verdict?.resetAfterUs ?? 0) / 1000 - (nextMidnightMs - rightMs))).toBeLessThan(60_000);
  });

  test.each([-3, 3])('by %i days, nobody decides, and nothing is charged', async (days) => {
    const rightMs = Date.now();
    vi.spyOn(Date, 'now').mockImplementation(() => rightMs + days * 86_400_000);
    const store = redisStore({ client: raw, timeoutMs: TIMEOUT_MS });

    await expect(store.check([daily.for('ann')], 1)).rejects.toThrow(
      'clocks of this process and of Redis differ',
    );

    expect(await raw.dbsize()).toBe(0);
  });
});

function localDate(nowUs: number, timeZone: string): string {
  return Temporal.Instant.fromEpochMilliseconds(Math.floor(nowUs / 1000))
    .toZonedDateTimeISO(timeZone)
    .toPlainDate()
    .toString();
}
