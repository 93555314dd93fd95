import { expect, test } from 'vitest';

import { ascending, Keys, uniform, zipf } from './keys.ts';

test('every index gets an address of its own', () => {
  const count = 100_000;
  const keys = new Keys(ascending(count));

  const addresses = new Set(Array.from({ length: count }, () => keys.next()));

  expect(addresses.size).toBe(count);
  expect([...addresses].every((address) => /^10(\.\d{1,3}){3}$/.test(address))).toBe(true);
});

test('an order starts again when it ends', () => {
  const keys = new Keys(Uint32Array.of(7, 8));
  const first = keys.next();
  keys.next();

  const third = keys.next();

  expect(third).toBe(first);
});

test('uniform asks for every key about as often', () => {
  const counts = countsOf(uniform(10), 10);

  expect(Math.max(...counts) / Math.min(...counts)).toBeLessThan(1.05);
});

test('zipf asks for the k-th most popular key in proportion to 1/k', () => {
  const [first = 0, second = 0, , fourth = 0] = countsOf(zipf(1000), 1000).toSorted((a, b) => b - a);

  expect(first / second).toBeCloseTo(2, 1);
  expect(first / fourth).toBeCloseTo(4, 0);
});

function countsOf(order: Uint32Array, keyCount: number): number[] {
  const counts = Array.from({ length: keyCount }, () => 0);
  for (const index of order) counts[index] = (counts[index] ?? 0) + 1;
  return counts;
}
