import { expect, test } from 'vitest';
import { appendHeaders, writeHeaders, type HeaderBag, type HeaderPair } from '../../../src/http/index.ts';

const OURS: readonly HeaderPair[] = [
  ['RateLimit', '"ours";r=5;t=1'],
  ['X-RateLimit-Limit', '10'],
  ['X-RateLimit-Remaining', '5'],
  ['X-RateLimit-Reset', '1'],
  ['Access-Control-Expose-Headers', 'RateLimit'],
];

function bagWith(present: Record<string, string>): HeaderBag & { readonly values: Map<string, string> } {
  const values = new Map(Object.entries(present));
  return { values, get: (name) => values.get(name), set: (name, value) => void values.set(name, value) };
}

test('what upstream said about its limits stays, and ours comes after it', () => {
  const bag = bagWith({ RateLimit: '"theirs";r=1;t=9', 'Access-Control-Expose-Headers': '' });

  appendHeaders(bag, OURS);

  expect(bag.values.get('RateLimit')).toBe('"theirs";r=1;t=9, "ours";r=5;t=1');
  expect(bag.values.get('Access-Control-Expose-Headers')).toBe('RateLimit');
});

test.each([
  ['less left', '4', '100', '4'],
  ['as much left', '5', '100', '5'],
  ['more left', '6', '10', '5'],
  ['something that is no number', 'plenty', '100', 'plenty'],
])('X-RateLimit speaks for one limit: upstream has %s', (_, present, limit, remaining) => {
  const bag = bagWith({ 'X-RateLimit-Limit': '100', 'X-RateLimit-Remaining': present });

  appendHeaders(bag, OURS);

  expect(bag.values.get('X-RateLimit-Limit')).toBe(limit);
  expect(bag.values.get('X-RateLimit-Remaining')).toBe(remaining);
});

test('without X-RateLimit of ours, that of upstream stays', () => {
  const bag = bagWith({ 'X-RateLimit-Remaining': '7' });

  appendHeaders(bag, [['RateLimit', '"ours";r=5;t=1']]);

  expect(bag.values.get('X-RateLimit-Remaining')).toBe('7');
});

test('an answer of our own speaks for the limit that denied', () => {
  const bag = bagWith({
    RateLimit: '"earlier";r=1;t=9',
    'X-RateLimit-Remaining': '0',
    'Content-Type': 'text/html',
  });

  writeHeaders(bag, [...OURS, ['Content-Type', 'application/problem+json']]);

  expect(Object.fromEntries(bag.values)).toMatchObject({
    RateLimit: '"earlier";r=1;t=9, "ours";r=5;t=1',
    'X-RateLimit-Remaining': '5',
    'Content-Type': 'application/problem+json',
  });
});
