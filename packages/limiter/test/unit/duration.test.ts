import * as fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { LimiterError } from '../../src/errors.ts';
import { formatDuration, parseDuration } from '../../src/duration.ts';
import { runs } from '../../../../test/runs.ts';

const ANY = { name: 'period', minUs: 0, maxUs: Number.MAX_SAFE_INTEGER };

const SECOND_US = 1_000_000;
const MINUTE_US = 60 * SECOND_US;
const HOUR_US = 60 * MINUTE_US;
const DAY_US = 24 * HOUR_US;

describe('a text is whole numbers with descending units', () => {
  const TEXTS: readonly (readonly [text: string, us: number])[] = [
    ['1ms', 1000],
    ['250ms', 250_000],
    ['1s', SECOND_US],
    ['1m', MINUTE_US],
    ['1h', HOUR_US],
    ['1d', DAY_US],
    ['1h30m', HOUR_US + 30 * MINUTE_US],
    ['1d2h3m4s5ms', DAY_US + 2 * HOUR_US + 3 * MINUTE_US + 4 * SECOND_US + 5000],
    ['1d1ms', DAY_US + 1000],
    ['1m1ms', MINUTE_US + 1000],
    ['90m', 90 * MINUTE_US],
    ['007s', 7 * SECOND_US],
    ['0s', 0],
    ['0d0h0m0s0ms', 0],
  ];

  test.each(TEXTS)('%s is %d us', (text, us) => {
    expect(parseDuration(text, ANY)).toBe(us);
  });
});

describe('a number is milliseconds, down to a microsecond', () => {
  const NUMBERS: readonly (readonly [ms: number, us: number])[] = [
    [0, 0],
    [1, 1000],
    [1000, SECOND_US],
    [0.001, 1],
    [1.5, 1500],
    [333.333, 333_333],
  ];

  test.each(NUMBERS)('%d ms is %d us', (ms, us) => {
    expect(parseDuration(ms, ANY)).toBe(us);
  });

  test('every whole number of microseconds survives the way through milliseconds', () => {
    const edges = fc.oneof(fc.maxSafeNat(), fc.integer({ min: 0, max: 10_000_000 }));
    fc.assert(
      fc.property(edges, (us) => {
        // Above 2^53 / 1000 us a millisecond number has no room for all microseconds.
        fc.pre(us <= Number.MAX_SAFE_INTEGER / 1000);
        expect(parseDuration(us / 1000, ANY)).toBe(us);
      }),
    );
    expect.hasAssertions();
  });

  test.each([[0.0001], [0.0015], [1.00001], [1e-9]])('%d ms is no whole number of microseconds', (ms) => {
    expect(() => parseDuration(ms, ANY)).toThrow('not a duration');
  });
});

describe('bounds', () => {
  const bounds = { name: 'window', minUs: 1000, maxUs: MINUTE_US };

  test('are inclusive', () => {
    expect(parseDuration('1ms', bounds)).toBe(1000);
    expect(parseDuration('60s', bounds)).toBe(MINUTE_US);
  });

  test.each([[0.999], [60_000.001], ['61s'], ['0s'], [-1]])(
    '%s is outside, and the message says of what',
    (value) => {
      expect(() => parseDuration(value, bounds)).toThrow('window is');
      expect(() => parseDuration(value, bounds)).toThrow('outside 1ms to 1m');
    },
  );
});

test.each(['1', '60', '60000'])('%s lacks its unit, and the message says so first', (text) => {
  expect(() => parseDuration(text, ANY)).toThrow(
    `period is "${text}", which is not a duration: the unit is missing, as in '${text}s': write it like`,
  );
});

describe('what is printed', () => {
  const PRINTED: readonly (readonly [us: number, text: string])[] = [
    [0, '0ms'],
    [1, '0.001ms'],
    [1500, '1.5ms'],
    [1000, '1ms'],
    [MINUTE_US + SECOND_US + 1000, '1m1s1ms'],
    [90 * MINUTE_US, '1h30m'],
    [3650 * DAY_US, '3650d'],
  ];

  test.each(PRINTED)('%d us is %s', (us, text) => {
    expect(formatDuration(us)).toBe(text);
  });

  test('whole milliseconds are read back as they were', () => {
    fc.assert(
      fc.property(fc.integer({ min: 0, max: 4_000_000_000_000 }), (ms) => {
        expect(parseDuration(formatDuration(ms * 1000), ANY)).toBe(ms * 1000);
      }),
    );
    expect.hasAssertions();
  });
});

test('whatever the text, the answer is whole microseconds or INVALID_DURATION', () => {
  const pieces = fc.constantFrom(
    '0',
    '1',
    '9'.repeat(20),
    'd',
    'h',
    'm',
    's',
    'ms',
    ' ',
    '.',
    '-',
    'e',
    '\n',
  );
  fc.assert(
    fc.property(fc.array(pieces, { maxLength: 40 }), (parts) => {
      const answer = answerFor(parts.join(''));

      expect(answer === 'INVALID_DURATION' || Number.isSafeInteger(answer)).toBe(true);
    }),
    { numRuns: runs(2000) },
  );
  expect.hasAssertions();
});

function answerFor(text: string): unknown {
  try {
    return parseDuration(text, ANY);
  } catch (error) {
    return error instanceof LimiterError ? error.code : error;
  }
}
