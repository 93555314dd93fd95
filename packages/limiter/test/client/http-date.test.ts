import * as fc from 'fast-check';
import { expect, test } from 'vitest';
import { parseHttpDate } from '../../src/client/http-date.ts';

const NOW_MS = Date.UTC(2026, 0, 1);
const EXAMPLE_MS = Date.UTC(1994, 10, 6, 8, 49, 37);

test.each([
  ['the format that is sent', 'Sun, 06 Nov 1994 08:49:37 GMT', EXAMPLE_MS],
  ['the format of RFC 850', 'Sunday, 06-Nov-94 08:49:37 GMT', EXAMPLE_MS],
  ['the format of asctime()', 'Sun Nov  6 08:49:37 1994', EXAMPLE_MS],
  ['a day of two digits of asctime()', 'Wed Nov 16 08:49:37 1994', EXAMPLE_MS + 10 * 86_400_000],
  ['a leap day', 'Thu, 29 Feb 2024 00:00:00 GMT', Date.UTC(2024, 1, 29)],
  ['the last second of a day', 'Thu, 31 Dec 2026 23:59:59 GMT', Date.UTC(2026, 11, 31, 23, 59, 59)],
  ['a leap second', 'Sat, 31 Dec 2016 23:59:60 GMT', Date.UTC(2017, 0, 1)],
  ['a year of the first century', 'Sun, 06 Nov 0094 08:49:37 GMT', EXAMPLE_MS - 59_958_144_000_000],
  ['a short year 50 years ahead', 'Friday, 06-Nov-76 08:49:37 GMT', Date.UTC(2076, 10, 6, 8, 49, 37)],
  ['a short year further ahead', 'Saturday, 06-Nov-77 08:49:37 GMT', Date.UTC(1977, 10, 6, 8, 49, 37)],
])('reads %s', (_, text, expectedMs) => {
  expect(parseHttpDate(text, NOW_MS)).toBe(expectedMs);
});

test.each([
  'Sun, 31 Feb 2026 08:49:37 GMT',
  'Sun, 29 Feb 2026 08:49:37 GMT',
  'Sun, 00 Nov 1994 08:49:37 GMT',
  'Sun, 06 Nov 1994 24:00:00 GMT',
  'Sun, 06 Nov 1994 08:60:37 GMT',
  'Sun, 06 Nov 1994 08:49:61 GMT',
  'Sun, 06 Nov 1994 08:49:37 CET',
  'Sun, 06 Nov 1994 08:49:37',
  'Sun, 6 Nov 1994 08:49:37 GMT',
  'sun, 06 nov 1994 08:49:37 gmt',
  'Foo, 06 Nov 1994 08:49:37 GMT',
  ' Sun, 06 Nov 1994 08:49:37 GMT',
  'Sun, 06 Nov 1994 08:49:37 GMT, Sun, 06 Nov 1994 08:49:37 GMT',
  '1994-11-06T08:49:37Z',
  '784111777',
  '',
])('takes %j for no date', (text) => {
  expect(parseHttpDate(text, NOW_MS)).toBeUndefined();
});

test('reads every date that toUTCString() writes', () => {
  fc.assert(
    fc.property(
      fc.date({ min: new Date('0001-01-01'), max: new Date('9999-12-31'), noInvalidDate: true }),
      (date) => {
        const wholeSecondMs = Math.floor(date.getTime() / 1000) * 1000;
        expect(parseHttpDate(date.toUTCString(), NOW_MS)).toBe(wholeSecondMs);
      },
    ),
  );
});
