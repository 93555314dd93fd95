import * as fc from 'fast-check';
import { expect, test } from 'vitest';

import { Latencies } from './latencies.ts';

function latenciesOf(values: readonly number[], capacity?: number): Latencies {
  const latencies = new Latencies(capacity);
  for (const value of values) latencies.add(value);
  return latencies;
}

test('of 1 to 100 the percentiles are their own numbers, in whatever order they came', () => {
  const values = Array.from({ length: 100 }, (_, at) => ((at * 37) % 100) + 1);

  expect(latenciesOf(values).percentiles()).toEqual({ p50: 50, p95: 95, p99: 99 });
});

test('a single latency is every percentile', () => {
  expect(latenciesOf([7]).percentiles()).toEqual({ p50: 7, p95: 7, p99: 7 });
});

test('numbers are sorted as numbers', () => {
  expect(latenciesOf([9, 10, 100]).percentiles().p50).toBe(10);
});

test('a slice starts with nothing of the slice before', () => {
  const latencies = latenciesOf([1000, 2000, 3000]);

  latencies.clear();
  latencies.add(5);

  expect(latencies.percentiles()).toEqual({ p50: 5, p95: 5, p99: 5 });
});

test('past the capacity the latest count', () => {
  expect(latenciesOf([1, 2, 3, 40, 50], 2).percentiles()).toEqual({ p50: 40, p95: 50, p99: 50 });
});

test('at least so many of 100 latencies are within a percentile, and fewer are below it', () => {
  fc.assert(
    fc.property(fc.array(fc.double({ min: 0, max: 1e6, noNaN: true }), { minLength: 1 }), (values) => {
      const { p50, p95, p99 } = latenciesOf(values).percentiles();
      const shares = [
        { value: p50, share: 0.5 },
        { value: p95, share: 0.95 },
        { value: p99, share: 0.99 },
      ];
      return shares.every(
        ({ value, share }) =>
          values.filter((one) => one <= value).length >= share * values.length &&
          values.filter((one) => one < value).length < share * values.length,
      );
    }),
  );
  expect(latenciesOf([]).percentiles().p50).toBeNaN();
});
