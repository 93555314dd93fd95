import * as fc from 'fast-check';
import {
  fixedWindow,
  leakyBucket,
  LimiterError,
  slidingWindowCounter,
  slidingWindowLog,
  tokenBucket,
  type Policy,
} from '../../../src/index.ts';

const counts = fc.oneof(
  fc.integer({ min: 1, max: 20 }),
  fc.integer({ min: 1, max: 100_000 }),
  fc.integer({ min: 1, max: 2 ** 52 }),
);
const timesMs = fc.oneof(
  fc.integer({ min: 1, max: 5000 }),
  fc.integer({ min: 1, max: 86_400_000 }),
  fc.constantFrom(1000, 10_000, 60_000, 3_600_000, 365 * 86_400_000),
);

/** A policy of any algorithm, from one per year to more than a header can count. */
export function randomPolicy(name: string): fc.Arbitrary<Policy> {
  return fc
    .tuple(fc.integer({ min: 0, max: 4 }), counts, counts, timesMs, timesMs)
    .map((numbers) => define(name, numbers))
    .filter((policy) => policy !== undefined);
}

type Numbers = readonly [algorithm: number, average: number, burst: number, timeMs: number, delayMs: number];

function define(name: string, [algorithm, average, burst, timeMs, delayMs]: Numbers): Policy | undefined {
  try {
    switch (algorithm) {
      case 0:
        return tokenBucket({ name, average, burst, period: timeMs });
      case 1:
        return leakyBucket({ name, average, period: timeMs, maxDelay: delayMs });
      case 2:
        return fixedWindow({ name, quota: average, window: timeMs });
      case 3:
        return slidingWindowLog({ name, quota: average, window: timeMs });
      default:
        return slidingWindowCounter({ name, quota: average, window: timeMs });
    }
  } catch (error) {
    // Numbers that cannot be kept exactly are refused; that is not what is tested here.
    if (error instanceof LimiterError) return undefined;
    throw error;
  }
}
