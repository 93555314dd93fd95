// A month of traffic across a change of the clocks: every local day has its quota, no more and no less.
import { Temporal } from '@js-temporal/polyfill';
import { expect, test } from 'vitest';
import { calendarQuota } from '../../src/index.ts';
import { simulate } from '../../src/simulate/index.ts';
import { seededRandom } from '../../src/testing/index.ts';

const QUOTA = 40;
const DAY_MS = 86_400_000;

/** The local date, by an implementation that shares no code with ours. */
function localDate(ms: number, timeZone: string): string {
  return Temporal.Instant.fromEpochMilliseconds(ms).toZonedDateTimeISO(timeZone).toPlainDate().toString();
}

test.each([
  // A day of 23 hours, one of 25, one that begins at 01:00, and half an hour.
  ['Europe/Berlin', '2026-03-10', '2026-03-29', 23],
  ['America/New_York', '2026-10-15', '2026-11-01', 25],
  ['Africa/Cairo', '2026-04-10', '2026-04-24', 23],
  ['Australia/Lord_Howe', '2026-03-20', '2026-04-05', 24.5],
])('in %s from %s on, each day has exactly its quota', async (timeZone, from, changed, hours) => {
  const daily = calendarQuota({ name: 'daily', quota: QUOTA, every: 'day', timeZone });
  const random = seededRandom(7);
  const startMs = Temporal.PlainDate.from(from).toZonedDateTime(timeZone).epochMilliseconds;
  // Some 60 a day, at any moment; three gateways share the quota.
  const requests = Array.from({ length: 31 * 60 }, () => startMs + random.below(31 * DAY_MS)).toSorted(
    (one, other) => one - other,
  );
  const offered = new Map<string, number>();
  const admitted = new Map<string, number>();
  const count = (days: Map<string, number>, ms: number): void => {
    const day = localDate(ms, timeZone);
    days.set(day, (days.get(day) ?? 0) + 1);
  };

  await simulate(requests, {
    at: (ms) => ms,
    limits: () => daily.for('ann'),
    instances: 3,
    onDecision: (ms, { allowed }) => {
      count(offered, ms);
      if (allowed) count(admitted, ms);
    },
  });

  expect(admitted.size).toBeGreaterThanOrEqual(31);
  for (const [day, asked] of offered) expect([day, admitted.get(day)]).toEqual([day, Math.min(asked, QUOTA)]);
  const [year, month, day] = changed.split('-').map(Number) as [number, number, number];
  const length = new Temporal.PlainDate(year, month, day).toZonedDateTime(timeZone).hoursInDay;
  // The month has the change in it, or it would show nothing.
  expect(length).toBe(hours);
  expect(admitted.get(changed)).toBe(QUOTA);
});
