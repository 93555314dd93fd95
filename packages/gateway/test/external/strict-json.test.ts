import { expect, test } from 'vitest';
import { parseStrictJson } from '../../src/external/strict-json.ts';

function parse(text: string | Uint8Array): unknown {
  return parseStrictJson(typeof text === 'string' ? new TextEncoder().encode(text) : text);
}

/** Kinds of malformed texts as collections of them have it: numbers, strings, structures, encodings. */
const MALFORMED: readonly string[] = [
  '',
  ' ',
  '{',
  '}',
  '[',
  ']',
  '{]',
  '[}',
  '[1,]',
  '[,1]',
  '[1,,2]',
  '[1 2]',
  '{"a":1,}',
  '{"a"}',
  '{"a":}',
  '{:1}',
  '{a:1}',
  "{'a':1}",
  '{"a":1 "b":2}',
  '{"a":1}}',
  '{"a":1}x',
  '[1]]',
  '{"a" 1}',
  '{1:1}',
  '{null:1}',
  '{"a":1,,"b":2}',
  'nul',
  'tru',
  'TRUE',
  'True',
  'NaN',
  '[NaN]',
  '[nan]',
  '[Infinity]',
  '[-Infinity]',
  '[+1]',
  '[.5]',
  '[1.]',
  '[-.5]',
  '[-]',
  '[--1]',
  '[1e]',
  '[1e+]',
  '[1eE2]',
  '[0e]',
  '[01]',
  '[-01]',
  '[0x10]',
  '[1_000]',
  '[1,000',
  '[2.e3]',
  '[1 000]',
  '[0.3e+]',
  '["a]',
  '["a\\"]',
  '["\\x00"]',
  '["\\u12"]',
  '["\\u{41}"]',
  '["\\a"]',
  '["\n"]',
  '["\t"]',
  '["\u0000"]',
  "['a']",
  '[`a`]',
  '["a"b]',
  '[undefined]',
  '[1] // comment',
  '/* c */ [1]',
  '[1]#',
  '\u00A0[1]',
  '[\u00A01]',
  '[1]\u0000',
  '\uFEFF{}',
  '{"a":"b"}/**/',
  '"a',
  '[\f1]',
  '[\v1]',
];

test.each(MALFORMED)('%j is refused', (text) => {
  expect(() => parse(text)).toThrow(/^the answer/);
});

test.each([
  ['a name twice', '{"average":1,"average":2}'],
  ['a name twice in two spellings', String.raw`{"average":1,"\u0061verage":2}`],
  ['a name twice further down', '{"policies":[{"name":"a","name":"b"}]}'],
  ['__proto__', '{"__proto__":{"average":0}}'],
  ['an escaped __proto__', String.raw`{"__proto\u005f_":1}`],
  ['deep lists', `${'['.repeat(9)}${']'.repeat(9)}`],
  ['very deep lists', `${'['.repeat(30_000)}${']'.repeat(30_000)}`],
  ['deep objects', `${'{"a":'.repeat(9)}1${'}'.repeat(9)}`],
])('%s is refused, though it is JSON', (_, text) => {
  expect(() => parse(text)).toThrow(/^the answer/);
});

test.each([
  ['a broken sequence', [0x22, 0xc3, 0x22]],
  ['an overlong one', [0x22, 0xc0, 0xaf, 0x22]],
  ['a surrogate', [0x22, 0xed, 0xa0, 0x80, 0x22]],
  ['UTF-16', [0xff, 0xfe, 0x7b, 0x00, 0x7d, 0x00]],
])('%s is not UTF-8', (_, bytes) => {
  expect(() => parse(Uint8Array.from(bytes))).toThrow(/UTF-8/);
});

test.each([
  ['{}', {}],
  [' {"a" : 1 }\n', { a: 1 }],
  ['{"a":{"x":1},"b":{"x":2}}', { a: { x: 1 }, b: { x: 2 } }],
  ['[{"a":1},{"a":2}]', [{ a: 1 }, { a: 2 }]],
  ['{"a":"{\\"b\\":1,\\"b\\":2}"}', { a: '{"b":1,"b":2}' }],
  ['{"a":"x: y","x: y":":"}', { a: 'x: y', 'x: y': ':' }],
  [`${'['.repeat(8)}${']'.repeat(8)}`, [[[[[[[[]]]]]]]]],
])('%s is read', (text, value) => {
  expect(parse(text)).toEqual(value);
});
