import { Temporal } from '@js-temporal/polyfill';
import { describe, expect, test, vi } from 'vitest';
import { calendarQuota, createLimiter, memoryStore, type CalendarQuotaNumbers } from '../../../src/index.ts';
import { rateLimitHeaders } from '../../../src/http/rate-limit-headers.ts';
import { seededRandom, virtualClock } from '../../../src/testing/index.ts';
import { TemporalPeriods } from '../../model/temporal-periods.ts';

// Much work rather than waiting: slow only where the machine is busy.
vi.setConfig({ testTimeout: 120_000 });

const HOUR_MS = 3_600_000;
const DAY_MS = 24 * HOUR_MS;

function us(text: string): number {
  return Date.parse(text) * 1000;
}

function localDate(nowUs: number, timeZone: string): string {
  return Temporal.Instant.fromEpochMilliseconds(Math.floor(nowUs / 1000))
    .toZonedDateTimeISO(timeZone)
    .toPlainDate()
    .toString();
}

describe.each([
  ['Europe/Berlin', '2026-03-15T00:00:00Z', 'summer time begins'],
  ['Europe/Berlin', '2026-10-10T00:00:00Z', 'summer time ends'],
  ['America/Sao_Paulo', '2018-10-20T00:00:00Z', 'a midnight is skipped'],
  ['Asia/Beirut', '2026-03-15T00:00:00Z', 'a midnight is skipped'],
  ['America/Havana', '2026-10-20T00:00:00Z', 'a midnight comes twice'],
])('a month of traffic in %s from %s, in which %s', (timeZone, from) => {
  test('exactly the quota passes on every local day', () => {
    const quota = 25;
    const random = seededRandom(7);
    const clock = virtualClock(us(from));
    const limiter = createLimiter({ store: memoryStore({ clock }), clock });
    const daily = calendarQuota({ name: 'daily', quota, every: 'day', timeZone });
    const passed = new Map<string, number>();

    const endUs = clock() + 31 * DAY_MS * 1000;
    while (clock() < endUs) {
      const date = localDate(clock(), timeZone);
      if (limiter.checkSync(daily.for('ann')).allowed) passed.set(date, (passed.get(date) ?? 0) + 1);
      clock.set(clock() + 1 + random.below(20 * 60_000_000));
    }

    // The first and the last day are cut off, and may have seen fewer requests.
    const counts = [...passed.values()].slice(1, -1);
    expect(counts.length).toBeGreaterThanOrEqual(29);
    expect(new Set(counts)).toEqual(new Set([quota]));
  });
});

test('100,000 random decisions are those of a count per period of Temporal', () => {
  const random = seededRandom(11);
  const clock = virtualClock(us('2024-01-01T00:00:00Z'));
  const limiter = createLimiter({ store: memoryStore({ clock }), clock });
  const rules = [
    { every: 'day', timeZone: 'America/Sao_Paulo', startsOn: 1 },
    { every: 'week', timeZone: 'Europe/London', startsOn: 7 },
    { every: 'month', timeZone: 'Asia/Tehran', startsOn: 31 },
    { every: 'year', timeZone: 'Australia/Lord_Howe', startsOn: 7 },
  ] as const;
  const subjects = rules.map((rule, at) => ({
    policy: calendarQuota({ name: `p${at}`, quota: 20 * (at + 1), ...rule }),
    periods: new TemporalPeriods(rule),
    startMs: -1,
    count: 0,
  }));
  const wrong: unknown[] = [];

  for (let decision = 0; decision < 100_000; decision += 1) {
    const subject = random.pick(subjects);
    const cost = 1 + random.below(3);
    const { startMs, endMs } = subject.periods.at(Math.floor(clock() / 1000));
    if (subject.startMs !== startMs) Object.assign(subject, { startMs, count: 0 });
    const fits = subject.count + cost <= subject.policy.limit;
    if (fits) subject.count += cost;
    const expected = {
      allowed: fits,
      remaining: subject.policy.limit - subject.count,
      retryAfterMs: fits ? 0 : (endMs * 1000 - clock()) / 1000,
      resetAfterMs: subject.count === 0 ? 0 : (endMs * 1000 - clock()) / 1000,
    };
    const { allowed, remaining, retryAfterMs, resetAfterMs } = limiter.checkSync(subject.policy.for('ann'), {
      cost,
    });
    const given = { allowed, remaining, retryAfterMs, resetAfterMs };
    if (JSON.stringify(given) !== JSON.stringify(expected)) wrong.push({ at: clock(), given, expected });
    clock.set(clock() + random.below(1_800_000_000));
  }

  expect(wrong.slice(0, 3)).toEqual([]);
});

test.each<CalendarQuotaNumbers>([
  { quota: 1, every: 'day', timeZone: 'Europe/Berlin' },
  { quota: 1, every: 'week', timeZone: 'America/New_York', startsOn: 3 },
  { quota: 1, every: 'month', timeZone: 'Asia/Beirut', startsOn: 30 },
  { quota: 1, every: 'year', timeZone: 'Pacific/Apia', startsOn: 12 },
])('whoever waits retryAfterMs passes under %j, a microsecond less is too early', (numbers) => {
  const clock = virtualClock(us('2010-01-01T00:00:00Z'));
  const limiter = createLimiter({ store: memoryStore({ clock }), clock });
  const policy = calendarQuota({ name: 'p', ...numbers });
  const outcomes: boolean[] = [];

  for (let period = 0; period < 20; period += 1) {
    limiter.checkSync(policy.for('ann'));
    const { retryAfterMs } = limiter.checkSync(policy.for('ann'));
    const dueUs = clock() + Math.round(retryAfterMs * 1000);
    clock.set(dueUs - 1);
    outcomes.push(limiter.checkSync(policy.for('ann')).allowed);
    clock.set(dueUs);
    outcomes.push(limiter.checkSync(policy.for('ann'), { cost: 0 }).remaining === 1);
  }

  expect(outcomes).toEqual(Array.from({ length: 20 }, () => [false, true]).flat());
});

describe('a quota for life', () => {
  const once = calendarQuota({ name: 'trial', quota: 2, every: 'ever' });

  test('never comes back, and says so', () => {
    const clock = virtualClock();
    const limiter = createLimiter({ store: memoryStore({ clock }), clock });
    limiter.checkSync(once.for('ann'), { cost: 2 });

    // Other keys sweep the table, which may drop nothing of this one.
    for (let year = 0; year < 40; year += 1) {
      clock.advance('365d');
      for (let other = 0; other < 100; other += 1) limiter.checkSync(once.for(`${year}/${other}`));
    }
    const denied = limiter.checkSync(once.for('ann'));

    expect(denied).toMatchObject({ allowed: false, remaining: 0, retryAfterMs: Infinity });
  });

  test('is renewed by forget', async () => {
    const limiter = createLimiter({ clock: virtualClock() });
    limiter.checkSync(once.for('ann'), { cost: 2 });
    await limiter.forget(once.for('ann'));

    expect(limiter.checkSync(once.for('ann'))).toMatchObject({ allowed: true, remaining: 1 });
  });
});

test('headers tell the real reset on a day of 23 hours', () => {
  const clock = virtualClock(us('2026-03-29T00:00:00+01:00'));
  const limiter = createLimiter({ clock });
  const limit = calendarQuota({ name: 'daily', quota: 5, every: 'day', timeZone: 'Europe/Berlin' }).for(
    'ann',
  );

  const headers = new Map(rateLimitHeaders()(limiter.checkSync(limit), [limit]));

  expect(headers.get('X-RateLimit-Reset')).toBe(String((23 * HOUR_MS) / 1000));
  expect(headers.get('RateLimit')).toBe(`"daily";r=4;t=${(23 * HOUR_MS) / 1000}`);
  expect(headers.get('RateLimit-Policy')).toBe('"daily";q=5;w=86400');
});

test('a raised quota frees only the difference', () => {
  const limiter = createLimiter({ clock: virtualClock() });
  const daily = calendarQuota({ name: 'daily', quota: 5, every: 'day' });
  limiter.checkSync(daily.for('ann'), { cost: 5 });

  daily.override('ann', { quota: 7 });

  expect(limiter.checkSync(daily.for('ann'))).toMatchObject({ allowed: true, remaining: 1, limit: 7 });
});

test.each([
  ['Mon', 'expected an integer from 1 to 31: give a whole number.'],
  [0, 'expected an integer from 1 to 31: choose a number in this range.'],
  [40, 'expected an integer from 1 to 31: choose a number in this range.'],
])('a period cannot start on %j, and the message names the days that there are', (startsOn, message) => {
  const define = (): unknown => Reflect.apply(calendarQuota, undefined, [{ ...WEEKLY, startsOn }]);

  expect(define).toThrow(`startsOn is ${JSON.stringify(startsOn)}; ${message}`);
});

const WEEKLY = { name: 'weekly', quota: 1, every: 'week' };
