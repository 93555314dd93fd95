// Lines that are read out of their bytes say what JSON.parse says; what cannot be read so is left to it.
import * as fc from 'fast-check';
import { expect, test } from 'vitest';
import { JsonFields } from '../../src/simulate/formats/json-fields.ts';
import { momentAt, writtenMoment } from '../../src/simulate/formats/moments.ts';
import {
  fieldAt,
  ParsedFields,
  parsedObject,
  type LoggedFields,
} from '../../src/simulate/formats/parsed-fields.ts';

const WANTED = [
  'ts',
  'request',
  'request.method',
  'request.tls',
  'path',
  'a-b',
  'constructor',
  '__proto__',
  'deep.down',
];

const name = fc.oneof(
  fc.constantFrom('ts', 'path', 'a-b', 'request', 'method', 'x"y', 'é', '$', '1', 'constructor', '__proto__'),
  fc.string({ maxLength: 4 }),
);
const text = fc.oneof(
  fc.string(),
  fc.constantFrom('/a?b=c', 'a\\"b', '\u2028', '😀', 'true', '","path":"/x', '-', '12', ' 7 ', '1e3'),
  fc.constantFrom('1.2.3.4:80', '[::1]:80', '[::1', ':80', '::1', '2026-11-18T10:00:00.5Z', 'é'.repeat(60)),
  fc.string({ minLength: 50, maxLength: 70 }),
);
const scalar = fc.oneof(text, fc.double(), fc.integer(), fc.boolean(), fc.constant(null));
const lists = fc.dictionary(name, fc.array(scalar, { maxLength: 3 }), { maxKeys: 3 });
const request = fc.record(
  { method: scalar, headers: lists, tls: fc.oneof(lists, fc.record({ version: scalar }), scalar) },
  { requiredKeys: [] },
);

const object = fc.record(
  {
    ts: scalar,
    request: fc.oneof({ weight: 5, arbitrary: request }, { weight: 1, arbitrary: fc.jsonValue() }),
    path: text,
    'a-b': fc.oneof({ weight: 5, arbitrary: scalar }, { weight: 1, arbitrary: fc.jsonValue() }),
    deep: fc.oneof(fc.record({ down: scalar }), scalar),
    more: fc.oneof(lists, fc.array(scalar, { maxLength: 3 })),
  },
  { requiredKeys: ['ts', 'path'] },
);

const line = fc.oneof(
  { weight: 6, arbitrary: object.map((value) => JSON.stringify(value)) },
  {
    weight: 1,
    arbitrary: object.map((value) => JSON.stringify(value, undefined, '\t').replaceAll('\n', '\r')),
  },
  { weight: 1, arbitrary: fc.json() },
  { weight: 1, arbitrary: fc.dictionary(name, scalar).map((value) => JSON.stringify(value)) },
  { weight: 1, arbitrary: fc.tuple(object, object).map(([one, other]) => twice(one, other)) },
);

/** The same names twice, of which the last counts. */
function twice(one: object, other: object): string {
  return `${JSON.stringify(one).slice(0, -1)},${JSON.stringify(other).slice(1)}`;
}

/** One character more, less or another: most such lines are no JSON any more. */
function damaged(lines: fc.Arbitrary<string>): fc.Arbitrary<string> {
  return fc
    .tuple(
      lines,
      fc.nat(),
      fc.constantFrom('', '"', '\\', ',', '{', '}', '[', ']', '0', '.', 'e', '-', '\t', '\u0001', ' ', 'x'),
      fc.boolean(),
    )
    .map(([written, place, put, replaces]) => {
      const at = place % (written.length + 1);
      return written.slice(0, at) + put + written.slice(at + (replaces ? 1 : 0));
    });
}

function told(fields: LoggedFields): readonly unknown[] {
  return WANTED.map((_, place) => [
    fields.has(place),
    fields.hasObject(place),
    fields.hasText(place),
    fields.hasText(place, '/a?b=c'),
    fields.text(place),
    fields.address(place),
    fields.number(place),
    fields.moment(place),
  ]);
}

/** What the fields say of a line, and what JSON.parse does; nothing of either where it is left to that. */
function bothReadings(
  fields: JsonFields,
  written: string,
): { readonly read: unknown; readonly parsed: unknown } {
  const bytes = Buffer.from(written);
  if (!fields.scan(bytes, 0, bytes.length)) return { read: undefined, parsed: undefined };
  const parsed = parsedObject(written);
  const values = parsed === undefined ? [] : WANTED.map((path) => fieldAt(parsed, path));
  return { read: told(fields), parsed: parsed === undefined ? 'no JSON' : told(new ParsedFields(values)) };
}

test('what is read out of bytes is what JSON.parse reads, for every line and wherever it stands', () => {
  fc.assert(
    fc.property(fc.array(fc.oneof(line, damaged(line)), { minLength: 1, maxLength: 30 }), (written) => {
      const fields = new JsonFields(WANTED);
      const bytes = Buffer.from(written.join('\n'));
      let from = 0;
      for (const one of written) {
        const to = from + Buffer.byteLength(one);

        if (fields.scan(bytes, from, to)) {
          const parsed = parsedObject(one);
          expect(parsed).toBeDefined();
          const values = WANTED.map((path) => fieldAt(parsed ?? {}, path));
          expect(told(fields)).toEqual(told(new ParsedFields(values)));
        }
        from = to + 1;
      }
    }),
    { numRuns: 1000 },
  );
});

/** As programs write them: a few kinds of lines, of which only some values change. */
const kindOfLine = fc.constantFrom(
  (one: string, other: number) =>
    `{"level":"info","ts":${other},"id":${one},"request":{"method":"GET","headers":{"A":[${one}]}},"path":"/a","ok":true}`,
  (one: string, other: number) =>
    `{"ts":"2026-11-18T10:00:0${Math.abs(other) % 10}Z","more":"é😀 and more","path":${one},"a-b":null,"n":[${other},${other}]} `,
  (one: string, other: number) =>
    `{ "deep" : {"down":${one}}, "request":{"tls":${other % 2 === 0 ? '{"version":772}' : 'null'}}, "x":${one}}`,
);
const usual = fc
  .tuple(kindOfLine, fc.oneof(text, fc.constantFrom('/a', '/b')), fc.oneof(fc.integer(), fc.nat({ max: 2 })))
  .map(([write, one, other]) => write(JSON.stringify(one), other));
const usualOrDamaged = fc.oneof({ weight: 4, arbitrary: usual }, { weight: 1, arbitrary: damaged(usual) });

test('lines that look like those before say what JSON.parse reads', () => {
  fc.assert(
    fc.property(fc.array(usualOrDamaged, { minLength: 10, maxLength: 60 }), (written) => {
      const fields = new JsonFields(WANTED);
      for (const one of written) {
        const { read, parsed } = bothReadings(fields, one);
        expect(read).toEqual(parsed);
      }
    }),
    { numRuns: 500 },
  );
});

test('however many lines of however many kinds come, each says what JSON.parse reads', () => {
  const fields = new JsonFields(WANTED);
  for (let at = 0; at < 5000; at += 1) {
    const kind = at % 20 === 0 ? at : at % 7;
    const isOdd = at % 11 === 0;
    const one = `{"ts":${at},"kind-${kind}":"${at % 3}","path":"/${at % 50}","a-b":"${isOdd ? at : ''}"}`;
    const { read, parsed } = bothReadings(fields, one);
    expect(read).toBeDefined();
    expect(read).toEqual(parsed);
  }
});

test.each([
  ['{"ts":2.5,"request":{"method":"GET","headers":{"User-Agent":["Mozilla \\"5\\" é"]}},"ok":true}'],
  ['{ "ts" : 1 , "path" : "/a" , "list" : [ 1 , [ ] , { } , null ] }'],
  ['{"ts":-0.5e-7,"more":"\\u00e9\\n"}'],
  ['{}'],
])('%s is not left to JSON.parse', (written) => {
  const bytes = Buffer.from(written);

  expect(new JsonFields(WANTED).scan(bytes, 0, bytes.length)).toBe(true);
});

test('numbers are those of Number, to the last bit', () => {
  const fields = new JsonFields(['n']);
  const digits = fc
    .tuple(fc.bigInt({ min: 0n, max: 10n ** 19n }), fc.nat({ max: 25 }))
    .map(([whole, places]) => {
      const written = String(whole).padStart(places + 1, '0');
      return places === 0 ? String(whole) : `${written.slice(0, -places)}.${written.slice(-places)}`;
    });
  const number = fc.oneof(digits, fc.double({ noNaN: true, noDefaultInfinity: true }).map(String));

  fc.assert(
    fc.property(fc.constantFrom('', '-'), number, (sign, written) => {
      const value = `${sign}${written}`.replace('--', '').replace('+', '');
      const bytes = Buffer.from(`{"n":${value}}`);

      expect(fields.scan(bytes, 0, bytes.length)).toBe(true);
      expect(Object.is(fields.number(0), Number(value))).toBe(true);
    }),
    { numRuns: 3000 },
  );
});

test('moments are those of Date.parse, also when the second is known already', () => {
  const two = fc.integer({ min: 0, max: 61 }).map((number) => String(number).padStart(2, '0'));
  const written = fc
    .tuple(
      fc.constantFrom('2026-11-18T10:00:0', '2026-12-31T23:59:5', '2024-02-29T00:00:0', '2026-02-30T10:00:0'),
      fc.nat({ max: 9 }),
      fc.oneof(fc.constant(''), fc.stringMatching(/^\.\d{0,9}$/), two, fc.stringMatching(/^\.\d\d[\dx]\d?$/)),
      fc.constantFrom('Z', 'Z', 'Z', '+01:00', '', 'z', ' Z'),
    )
    .map((parts) => parts.join(''));

  fc.assert(
    fc.property(fc.array(written, { minLength: 2, maxLength: 20 }), (moments) => {
      for (const moment of moments) {
        const bytes = Buffer.from(`"${moment}"`);
        expect(momentAt(bytes, 1, bytes.length - 1)).toBe(Date.parse(moment));
        expect(writtenMoment(moment)).toBe(Date.parse(moment));
      }
    }),
    { numRuns: 2000 },
  );
});
