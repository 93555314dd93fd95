import { Temporal } from '@js-temporal/polyfill';
import { expect, test, vi } from 'vitest';
import { Calendar, type CalendarUnit } from '../../../src/algorithms/calendar-quota/calendar.ts';
import { ZoneDays } from '../../../src/algorithms/calendar-quota/zone-days.ts';

// Much work rather than waiting: slow only where the machine is busy.
vi.setConfig({ testTimeout: 120_000 });

const DAY_MS = 86_400_000;
const FIRST_DAY = Date.UTC(2006, 0, 1) / DAY_MS;
const LAST_DAY = Date.UTC(2026, 11, 31) / DAY_MS;

/** Whole and broken offsets, both hemispheres, changes at midnight, a skipped day, and rules that changed often. */
const ZONES = [
  'UTC',
  'Europe/Berlin',
  'America/New_York',
  'America/Sao_Paulo', // summer time began at midnight: no 00:00
  'America/St_Johns', // until 2011 clocks changed at 00:01: some dates began twice
  'America/Havana', // midnight twice
  'Asia/Beirut', // no midnight in spring
  'Africa/Cairo', // abolished and brought back, at midnight
  'Asia/Tehran', // half an hour, at midnight
  'Asia/Kathmandu', // three quarters
  'Australia/Lord_Howe', // changes by half an hour
  'Pacific/Apia', // had no 30 December 2011
  'Pacific/Kiritimati', // 14 hours ahead
  'Africa/Casablanca', // changes around Ramadan
  'America/Asuncion',
  'Asia/Amman',
];

test.each(ZONES)('every day of twenty-one years in %s begins when Temporal says', (timeZone) => {
  const days = new ZoneDays(timeZone);
  const wrong: string[] = [];

  for (let day = FIRST_DAY; day <= LAST_DAY; day += 1) {
    const date = Temporal.PlainDate.from('1970-01-01').add({ days: day });
    const expected = date.toZonedDateTime(timeZone).epochMilliseconds;
    if (days.startOfDay(day) !== expected)
      wrong.push(`${date.toString()}: ${days.startOfDay(day)}, not ${expected}`);
  }

  expect(wrong).toEqual([]);
});

test.each(ZONES)(
  'the periods of %s follow each other without a gap, and each has its own moments only',
  (timeZone) => {
    const units: readonly (readonly [CalendarUnit, number])[] = [
      ['day', 1],
      ['week', 3],
      ['month', 31],
      ['year', 7],
    ];
    const wrong: unknown[] = [];
    for (const [every, startsOn] of units) {
      const calendar = new Calendar({ every, timeZone, startsOn });
      const untilUs = LAST_DAY * DAY_MS * 1000;
      let period = calendar.periodAt(FIRST_DAY * DAY_MS * 1000);
      while (period.endUs < untilUs) {
        const { startUs, endUs } = period;
        const [first, last] = [calendar.periodAt(startUs), calendar.periodAt(endUs - 1)];
        const next = calendar.periodAt(endUs);
        if (first.startUs !== startUs || last.endUs !== endUs || next.startUs !== endUs || endUs <= startUs)
          wrong.push([every, period, first, last, next]);
        period = next;
      }
    }

    expect(wrong).toEqual([]);
  },
);

test('a day that a zone skipped takes no time', () => {
  const days = new ZoneDays('Pacific/Apia');
  const skipped = Date.UTC(2011, 11, 30) / DAY_MS;

  expect(days.startOfDay(skipped)).toBe(days.startOfDay(skipped + 1));
  expect(days.startOfDay(skipped + 1) - days.startOfDay(skipped - 1)).toBe(DAY_MS);
});

test('the days of a time zone take 23, 24 or 25 hours', () => {
  const days = new ZoneDays('Europe/Berlin');
  const hoursOf = (year: number, month: number, day: number): number => {
    const number = Date.UTC(year, month - 1, day) / DAY_MS;
    return (days.startOfDay(number + 1) - days.startOfDay(number)) / 3_600_000;
  };

  expect([hoursOf(2026, 3, 29), hoursOf(2026, 6, 1), hoursOf(2026, 10, 25)]).toEqual([23, 24, 25]);
});

test('asking for the same period again and again asks Intl nothing', () => {
  const calendar = new Calendar({ every: 'month', timeZone: 'Europe/Berlin', startsOn: 15 });
  const nowUs = Date.UTC(2026, 5, 10) * 1000;
  calendar.edgesAround(nowUs);
  calendar.periodAt(nowUs);
  const dayAt = vi.spyOn(ZoneDays.prototype, 'dayAt');
  const startOfDay = vi.spyOn(ZoneDays.prototype, 'startOfDay');

  for (let second = 0; second < 1000; second += 1) {
    calendar.periodAt(nowUs + second * 1_000_000);
    calendar.edgesAround(nowUs + second * 1_000_000);
  }
  const asked = dayAt.mock.calls.length + startOfDay.mock.calls.length;
  vi.restoreAllMocks();

  expect(asked).toBe(0);
});
