// Lines that are read by their shape say what JSON.parse says, and are read whenever JSON.parse reads them.
import * as fc from 'fast-check';
import { expect, test } from 'vitest';
import { fieldAt, JsonShapes, parsedObject } from '../../src/simulate/formats/json-shapes.ts';
import { writtenMoment } from '../../src/simulate/formats/moments.ts';

const WANTED = ['ts', 'request', 'request.method', 'request.tls', 'path', 'a-b', 'constructor', '__proto__'];

const name = fc.oneof(
  fc.constantFrom('ts', 'path', 'a-b', 'request', 'method', 'x"y', 'é', '$', '1', 'constructor', '__proto__'),
  fc.string({ maxLength: 4 }),
);
const text = fc.oneof(
  fc.string(),
  fc.constantFrom('/a?b=c', 'a\\"b', '\u2028', '😀', 'true', '","path":"/x'),
);
const scalar = fc.oneof(text, fc.double(), fc.integer(), fc.boolean(), fc.constant(null));
const lists = fc.dictionary(name, fc.array(scalar, { maxLength: 3 }), { maxKeys: 3 });
const request = fc.record(
  { method: scalar, headers: lists, tls: fc.oneof(lists, fc.record({ version: scalar }), scalar) },
  { requiredKeys: [] },
);

/** Objects whose values differ and whose shapes are often alike, as in a log. */
const object = fc.record(
  {
    ts: scalar,
    request: fc.oneof({ weight: 5, arbitrary: request }, { weight: 1, arbitrary: fc.jsonValue() }),
    path: text,
    'a-b': fc.oneof({ weight: 5, arbitrary: scalar }, { weight: 1, arbitrary: fc.jsonValue() }),
    more: fc.oneof(lists, fc.array(scalar, { maxLength: 3 })),
  },
  { requiredKeys: ['ts', 'path'] },
);

const line = fc.oneof(
  { weight: 6, arbitrary: object.map((value) => JSON.stringify(value)) },
  { weight: 1, arbitrary: object.map((value) => JSON.stringify(value, undefined, 1)) },
  { weight: 1, arbitrary: fc.json() },
  { weight: 1, arbitrary: fc.dictionary(name, scalar).map((value) => JSON.stringify(value)) },
  { weight: 1, arbitrary: fc.tuple(object, object).map(([one, other]) => twice(one, other)) },
);

/** The same names twice, of which the last counts. */
function twice(one: object, other: object): string {
  return `${JSON.stringify(one).slice(0, -1)},${JSON.stringify(other).slice(1)}`;
}

/** One character more, less or another: most such lines are no JSON any more. */
const damaged = fc
  .tuple(
    line,
    fc.nat(),
    fc.constantFrom('', '"', '\\', ',', '{', '}', '0', '\n', '\t', '\u0001', ' ', 'x'),
    fc.boolean(),
  )
  .map(([written, place, put, replaces]) => {
    const at = place % (written.length + 1);
    return written.slice(0, at) + put + written.slice(at + (replaces ? 1 : 0));
  });

function parsedFields(written: string): readonly unknown[] | undefined {
  // Nobody writes a space first, and lines of other formats are known by their first letter.
  const parsed = written.startsWith('{') ? parsedObject(written) : undefined;
  return parsed === undefined ? undefined : WANTED.map((path) => seen(fieldAt(parsed, path)));
}

/** Of an object only that it is one is asked. */
function seen(value: unknown): unknown {
  return typeof value === 'object' && value !== null && !Array.isArray(value) ? 'an object' : value;
}

test('what is read by shape is what JSON.parse reads, for every line', () => {
  fc.assert(
    fc.property(fc.array(fc.oneof(line, damaged), { minLength: 5, maxLength: 60 }), (written) => {
      const shapes = new JsonShapes(WANTED);

      for (const one of written) expect(shapes.read(one)?.map(seen)).toEqual(parsedFields(one));
    }),
    { numRuns: 500 },
  );
});

test('lines that are alike are not parsed', () => {
  const shapes = new JsonShapes(['ts', 'request.uri']);
  const like = (ts: number, uri: string, agent: string): string =>
    JSON.stringify({ ts, request: { uri, headers: { 'User-Agent': [agent] } }, size: ts, ok: ts > 1 });
  shapes.read(like(1, '/a', 'curl'));
  const parses = parsesDuring(() => {
    expect(shapes.read(like(2.5, '/b?c', 'Mozilla "quoted"'))).toEqual([2.5, '/b?c']);
  });

  expect(parses).toBe(0);
});

test('a log of ever new shapes is parsed, and its shapes are given up', () => {
  const shapes = new JsonShapes(['ts']);
  const odd = (number: number): string => JSON.stringify({ [`field${number}`]: 1, ts: number });
  for (let at = 0; at < 5000; at += 1) expect(shapes.read(odd(at))).toEqual([at]);

  expect(parsesDuring(() => shapes.read(odd(0)))).toBe(1);
});

function parsesDuring(work: () => void): number {
  const parse = JSON.parse.bind(JSON);
  let parses = 0;
  JSON.parse = (written, reviver) => {
    parses += 1;
    return parse(written, reviver) as unknown;
  };
  try {
    work();
  } finally {
    JSON.parse = parse;
  }
  return parses;
}

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
      for (const moment of moments) expect(writtenMoment(moment)).toBe(Date.parse(moment));
    }),
    { numRuns: 2000 },
  );
});
