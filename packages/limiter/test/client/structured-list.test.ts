import * as fc from 'fast-check';
import { DisplayString, parseList, Token } from 'structured-headers';
import { expect, test } from 'vitest';
import { parseItemList, type BareItem } from '../../src/client/structured-list.ts';
import { runs } from '../../../../test/runs.ts';

/** What both parsers say, in one form; undefined when it is no list of items. */
type Reading = readonly (readonly [item: string, parameters: readonly string[]])[] | undefined;

function ours(field: string): Reading {
  return parseItemList(field)?.map(({ item, parameters }) => [
    spell(item),
    [...parameters].map(([key, value]) => `${key}=${spell(value)}`),
  ]);
}

function spell({ type, value }: BareItem): string {
  return `${type} ${type === 'bytes' ? base64(atob(value)) : String(value)}`;
}

/** The independent parser; inner lists are not ours to read. */
function theirs(field: string): Reading {
  try {
    return parseList(field).map(([item, parameters]) => {
      if (Array.isArray(item)) throw new TypeError('an inner list');
      return [spellTheirs(item), [...parameters].map(([key, value]) => `${key}=${spellTheirs(value)}`)];
    });
  } catch {
    return undefined;
  }
}

function spellTheirs(item: unknown): string {
  if (typeof item === 'number') return `${Number.isInteger(item) ? 'integer' : 'decimal'} ${item}`;
  if (typeof item === 'string') return `string ${item}`;
  if (typeof item === 'boolean') return `boolean ${item}`;
  if (item instanceof Token) return `token ${item.toString()}`;
  if (item instanceof DisplayString) return `displayString ${item.toString()}`;
  if (item instanceof ArrayBuffer) return `bytes ${base64(String.fromCharCode(...new Uint8Array(item)))}`;
  throw new TypeError('an item of an unknown type');
}

function base64(binary: string): string {
  return btoa(binary);
}

/** The other parser gives decimals such as 1.0 the type of integers, and reads dates only at the end of a field. */
function comparable(field: string): boolean {
  return !field.includes('@') && !/\d\.0*(?!\d)/.test(field);
}

// One piece a line would be a page.
// oxfmt-ignore
const PIECES = [
  '"api"', '"a\\"b\\\\"', '"', '\\', ';', ';;', '; ', ' ;', '=', ',', ', ', ',\t', ' ', '\t', 'r', 't=', 'q=1', 'w=60',
  'R=1', '*k', 'k*_-.9=2', '-', '-1', '0', '007', '999999999999999', '1000000000000000', '1.5', '-0.125', '1.2345',
  '123456789012.5', '1234567890123.5', '.5', '1.', '?1', '?0', '?2', '?', ':YWJj:', ':YWI=:', ':YWI:', ':Y:', ':=:', ':a b:',
  ':', 'token', 'a/b:c', '*', '%"f%c3%bc"', '%"%C3%BC"', '%"%ff"', '%"', '()', '("a" "b");r=1', '\u00e9', '\u0000', '\u007f',
];

const fields = fc.oneof(
  fc.array(fc.constantFrom(...PIECES), { maxLength: 12 }).map((pieces) => pieces.join('')),
  fc.string({ maxLength: 40 }),
  fc
    .array(
      fc
        .tuple(
          fc.constantFrom('"api"', '"b c"', 'token', '7', '?1', ':YWJj:'),
          fc.array(
            fc
              .tuple(fc.constantFrom('r', 't', 'q', 'w', 'pk', 'qu'), fc.constantFrom(...PIECES))
              .map(([key, value]) => `;${key}=${value}`),
            { maxLength: 4 },
          ),
        )
        .map(([item, parameters]) => item + parameters.join('')),
      { maxLength: 5 },
    )
    .map((items) => items.join(', ')),
);

test('an independent parser reads the same from whatever comes, or nothing as we do', () => {
  let readable = 0;
  fc.assert(
    fc.property(fields.filter(comparable), (field) => {
      const reading = ours(field);
      if (reading !== undefined && reading.length > 0) readable += 1;
      expect(reading).toEqual(theirs(field));
    }),
    { numRuns: runs(20_000) },
  );
  expect(readable).toBeGreaterThan(runs(2000));
});

test.each([
  [
    'dates',
    '"a";x=@1659578233, @-1',
    [
      ['string a', ['x=date 1659578233']],
      ['date -1', []],
    ],
  ],
  ['decimals that are whole', '1.0;x=-2.000', [['decimal 1', ['x=decimal -2']]]],
  ['the last of equal keys', '"a";r=1;r=2', [['string a', ['r=integer 2']]]],
  ['spaces around', '  "a" ;r=1  '.replace(' ;', ';'), [['string a', ['r=integer 1']]]],
  ['an empty field', '', []],
])('reads %s', (_, field, reading) => {
  expect(ours(field)).toEqual(reading);
});

test.each([
  ['16 digits', '1234567890123456'],
  ['13 digits before the point', '1234567890123.1'],
  ['4 digits after the point', '0.1234'],
  ['nothing after the point', '1.'],
  ['a date of a fraction', '@1.5'],
  ['a comma at the end', '"a",'],
  ['a comma and spaces at the end', '"a", '],
  ['a comma at the start', ',"a"'],
  ['two commas', '"a",,"b"'],
  ['a tab at the start', '\t"a"'],
  ['a space before a semicolon', '"a" ;r=1'],
  ['a tab after a semicolon', '"a";\tr=1'],
  ['a semicolon without a key', '"a";'],
  ['a key without a value', '"a";r='],
  ['a key in capitals', '"a";R=1'],
  ['an open string', '"a'],
  ['an escape that is none', '"\\a"'],
  ['a letter beyond ASCII', '"é"'],
  ['a control character', '"\u0007"'],
  ['an inner list', '("a")'],
  ['bytes that are no Base64', ':a:'],
  ['a display string with capitals', '%"%C3"'],
  ['a display string that is no UTF-8', '%"%ff"'],
  ['a boolean that is none', '?2'],
  ['two items without a comma', '"a" "b"'],
])('reads nothing from %s', (_, field) => {
  expect(parseItemList(field)).toBeUndefined();
});

test('a field of 8192 characters is read, a longer one is not', () => {
  const longest = `"${'a'.repeat(8190)}"`;

  expect(parseItemList(longest)).toHaveLength(1);
  expect(parseItemList(`${longest} `)).toBeUndefined();
});

test('32 items are read, 33 are not', () => {
  expect(parseItemList(Array.from({ length: 32 }, () => '1').join(','))).toHaveLength(32);
  expect(parseItemList(Array.from({ length: 33 }, () => '1').join(','))).toBeUndefined();
});
