import { NEVER } from '../algorithm.ts';
import type { AlgorithmCase } from '../case.ts';
import type { CountState } from '../window.ts';
import {
  calendarQuotaAlgorithm,
  type CalendarQuotaNumbers,
  type CompiledCalendarQuota,
} from './calendar-quota.ts';

const HOUR = 3_600_000_000;

/** Microseconds of a moment, with the offset of its zone written out. */
function at(text: string): number {
  return Date.parse(text) * 1000;
}

/** Five per period; the edges are those around `nowUs`. */
function five(options: Omit<CalendarQuotaNumbers, 'quota'>, nowUs: number): CompiledCalendarQuota {
  const { numbers } = calendarQuotaAlgorithm.compile({
    quota: 5,
    every: options.every,
    timeZone: options.timeZone,
    startsOn: options.startsOn,
  });
  return { ...numbers, ...numbers.calendar.edgesAround(nowUs) };
}

type Moment = Omit<AlgorithmCase<CompiledCalendarQuota, CountState>, 'numbers'> & {
  readonly options: Omit<CalendarQuotaNumbers, 'quota'>;
};

const BERLIN = { every: 'day', timeZone: 'Europe/Berlin' } as const;
const BERLIN_MONTH = { every: 'month', timeZone: 'Europe/Berlin', startsOn: 31 } as const;

const MOMENTS: readonly Moment[] = [
  {
    name: 'the first request of a day of 24 hours is back at midnight',
    options: BERLIN,
    state: undefined,
    nowUs: at('2026-06-10T09:00:00+02:00'),
    cost: 1,
    expected: {
      allowed: true,
      remaining: 4,
      retryAfterUs: 0,
      resetAfterUs: 15 * HOUR,
      spent: { startUs: at('2026-06-10T00:00:00+02:00'), count: 1 },
    },
  },
  {
    name: 'on the day that summer time begins, 01:00 is 22 hours before midnight',
    options: BERLIN,
    state: { startUs: at('2026-03-29T00:00:00+01:00'), count: 5 },
    nowUs: at('2026-03-29T01:00:00+01:00'),
    cost: 1,
    expected: { allowed: false, remaining: 0, retryAfterUs: 22 * HOUR, resetAfterUs: 22 * HOUR },
  },
  {
    name: 'on the day that it ends, 01:00 is 24 hours before midnight',
    options: BERLIN,
    state: { startUs: at('2026-10-25T00:00:00+02:00'), count: 5 },
    nowUs: at('2026-10-25T01:00:00+02:00'),
    cost: 1,
    expected: { allowed: false, remaining: 0, retryAfterUs: 24 * HOUR, resetAfterUs: 24 * HOUR },
  },
  {
    name: 'the last microsecond of a day belongs to it',
    options: BERLIN,
    state: { startUs: at('2026-03-29T00:00:00+01:00'), count: 5 },
    nowUs: at('2026-03-30T00:00:00+02:00') - 1,
    cost: 1,
    expected: { allowed: false, remaining: 0, retryAfterUs: 1, resetAfterUs: 1 },
  },
  {
    name: 'and the next one to the next day',
    options: BERLIN,
    state: { startUs: at('2026-03-29T00:00:00+01:00'), count: 5 },
    nowUs: at('2026-03-30T00:00:00+02:00'),
    cost: 1,
    expected: {
      allowed: true,
      remaining: 4,
      retryAfterUs: 0,
      resetAfterUs: 24 * HOUR,
      spent: { startUs: at('2026-03-30T00:00:00+02:00'), count: 1 },
    },
  },
  {
    name: 'where clocks jump over midnight, the day begins at one in the morning',
    options: { every: 'day', timeZone: 'America/Sao_Paulo' },
    state: undefined,
    nowUs: at('2018-11-04T01:00:00-02:00'),
    cost: 2,
    expected: {
      allowed: true,
      remaining: 3,
      retryAfterUs: 0,
      resetAfterUs: 23 * HOUR,
      spent: { startUs: at('2018-11-04T01:00:00-02:00'), count: 2 },
    },
  },
  {
    name: 'a month that starts on the 31st starts on the 28th of February',
    options: BERLIN_MONTH,
    state: { startUs: at('2026-01-31T00:00:00+01:00'), count: 5 },
    nowUs: at('2026-02-28T00:00:00+01:00'),
    cost: 1,
    expected: {
      allowed: true,
      remaining: 4,
      retryAfterUs: 0,
      // To the 31st of March, summer time by then.
      resetAfterUs: 31 * 24 * HOUR - HOUR,
      spent: { startUs: at('2026-02-28T00:00:00+01:00'), count: 1 },
    },
  },
  {
    name: 'what a week has left is not what was left of the last one',
    options: { every: 'week', timeZone: 'UTC', startsOn: 7 },
    state: { startUs: at('2026-05-31T00:00:00Z'), count: 3 },
    nowUs: at('2026-06-03T12:00:00Z'),
    cost: 3,
    expected: {
      allowed: false,
      remaining: 2,
      retryAfterUs: 84 * HOUR,
      resetAfterUs: 84 * HOUR,
    },
  },
  {
    name: 'a year may start in April',
    options: { every: 'year', timeZone: 'UTC', startsOn: 4 },
    state: { startUs: at('2025-04-01T00:00:00Z'), count: 5 },
    nowUs: at('2026-03-31T23:00:00Z'),
    cost: 1,
    expected: { allowed: false, remaining: 0, retryAfterUs: HOUR, resetAfterUs: HOUR },
  },
  {
    name: 'a quota for life does not come back',
    options: { every: 'ever' },
    state: { startUs: 0, count: 5 },
    nowUs: at('2026-06-10T09:00:00Z'),
    cost: 1,
    expected: {
      allowed: false,
      remaining: 0,
      retryAfterUs: NEVER,
      resetAfterUs: 2 ** 52 + 1 - at('2026-06-10T09:00:00Z'),
    },
  },
  {
    name: 'a cost above the quota fits on no day',
    options: BERLIN,
    state: undefined,
    nowUs: at('2026-06-10T09:00:00+02:00'),
    cost: 6,
    expected: { allowed: false, remaining: 5, retryAfterUs: NEVER, resetAfterUs: 0 },
  },
  {
    name: 'a cost of 0 only looks',
    options: BERLIN,
    state: { startUs: at('2026-06-10T00:00:00+02:00'), count: 5 },
    nowUs: at('2026-06-10T09:00:00+02:00'),
    cost: 0,
    expected: { allowed: true, remaining: 0, retryAfterUs: 0, resetAfterUs: 15 * HOUR },
  },
  {
    name: 'a clock that stepped back over midnight goes on in the day that it had come to',
    options: BERLIN,
    state: { startUs: at('2026-06-11T00:00:00+02:00'), count: 4 },
    nowUs: at('2026-06-10T23:00:00+02:00'),
    cost: 1,
    expected: {
      allowed: true,
      remaining: 0,
      retryAfterUs: 0,
      resetAfterUs: 25 * HOUR,
      spent: { startUs: at('2026-06-11T00:00:00+02:00'), count: 5 },
    },
  },
  {
    name: 'one that stepped back by more than half a day takes the count along',
    options: BERLIN,
    state: { startUs: at('2026-06-11T00:00:00+02:00'), count: 5 },
    nowUs: at('2026-06-10T11:00:00+02:00'),
    cost: 1,
    expected: {
      allowed: false,
      remaining: 0,
      retryAfterUs: 13 * HOUR,
      resetAfterUs: 13 * HOUR,
      carried: { startUs: at('2026-06-10T00:00:00+02:00'), count: 5 },
    },
  },
  {
    name: 'a quota that was lowered denies what is above it',
    options: BERLIN,
    state: { startUs: at('2026-06-10T00:00:00+02:00'), count: 9 },
    nowUs: at('2026-06-10T09:00:00+02:00'),
    cost: 1,
    expected: { allowed: false, remaining: 0, retryAfterUs: 15 * HOUR, resetAfterUs: 15 * HOUR },
  },
];

export const calendarQuotaCases: readonly AlgorithmCase<CompiledCalendarQuota, CountState>[] = MOMENTS.map(
  ({ options, ...moment }) => ({ ...moment, numbers: five(options, moment.nowUs) }),
);
