import * as fc from 'fast-check';
import { expect, test } from 'vitest';
import { NumberHeader, QuotaHeader } from '../../../src/http/rate-limit-headers.ts';
import { runs } from '../../../../../test/runs.ts';

/** Few enough that they repeat, and many that share a place: 256 apart, or 37 of one against 1 of the other. */
const amounts = fc.oneof(
  fc.constantFrom(0, 1, 37, 255, 256, 257, 293, 512, 2 ** 31, 2 ** 32, 2 ** 32 + 1, 2 ** 52),
  fc.nat({ max: 600 }),
);

test('a number is told as it is, whatever was told before it', () => {
  const header = new NumberHeader('X-Left');

  fc.assert(
    fc.property(amounts, (value) => {
      expect(header.with(value)).toEqual(['X-Left', String(value)]);
    }),
    { numRuns: runs(5000) },
  );
});

test('a quota is told as it is, of whom it is, whatever was told before it', () => {
  const spell = (subject: object, remaining: number, seconds: number): readonly [string, string] => [
    'Quota',
    `${JSON.stringify(subject)} ${remaining} ${seconds}`,
  ];
  const header = new QuotaHeader(spell);
  const subjects = [{ name: 'api' }, { name: 'login' }];

  fc.assert(
    fc.property(fc.constantFrom(...subjects), amounts, amounts, (subject, remaining, seconds) => {
      expect(header.with(subject, remaining, seconds)).toEqual(spell(subject, remaining, seconds));
    }),
    {
      numRuns: runs(5000),
      examples: [
        [{ name: 'api' }, 37, 0],
        [{ name: 'api' }, 0, 1],
      ],
    },
  );
});

test('what was told last is not spelled again', () => {
  let spelled = 0;
  const number = new NumberHeader('X-Left');
  const quota = new QuotaHeader<string>((name) => [name, String((spelled += 1))]);

  expect(number.with(7)).toBe(number.with(7));
  expect(quota.with('a', 7, 1)).toBe(quota.with('a', 7, 1));
  expect(spelled).toBe(1);
});

test('a value that cannot be spelled is not remembered as one', () => {
  const quota = new QuotaHeader<string>((_, remaining) => {
    throw new RangeError(`no ${remaining}`);
  });

  expect(() => quota.with('a', -1, 0)).toThrow('no -1');
  expect(() => quota.with('a', -1, 0)).toThrow('no -1');
});
