import { NEVER } from '../algorithm.ts';
import type { CompiledBucket, BucketState } from '../bucket/bucket.ts';
import { T0, type AlgorithmCase } from '../case.ts';

// 3 per second, burst 2: a token comes every 333333 1/3 us, so it weighs 1,000,000 units of which 3 drain per us.
const threePerSecond: CompiledBucket = {
  limit: 2,
  tokenUnits: 1_000_000,
  drainUnits: 3,
  capacityUnits: 2_000_000,
};
const rate = { tokenUnits: 1_000_000, drainUnits: 3, capacityUnits: 2_000_000 };
const drained: BucketState = { tatUs: T0 + 666_666, fraction: 2, ...rate };

// 10 per second, burst 10, and what the same bucket becomes when its numbers change.
const tenPerSecond: CompiledBucket = {
  limit: 10,
  tokenUnits: 100_000,
  drainUnits: 1,
  capacityUnits: 1_000_000,
};
const tenRate = { tokenUnits: 100_000, drainUnits: 1, capacityUnits: 1_000_000 };
const largerBurst: CompiledBucket = { ...tenPerSecond, limit: 15, capacityUnits: 1_500_000 };
const onePerSecond: CompiledBucket = {
  limit: 4,
  tokenUnits: 1_000_000,
  drainUnits: 1,
  capacityUnits: 4_000_000,
};
const oneRate = { tokenUnits: 1_000_000, drainUnits: 1, capacityUnits: 4_000_000 };

// Two per hour.
const hourlyRate = { tokenUnits: 1_800_000_000, drainUnits: 1, capacityUnits: 3_600_000_000 };
const hourly: CompiledBucket = { limit: 2, ...hourlyRate };

export const tokenBucketCases: readonly AlgorithmCase<CompiledBucket, BucketState>[] = [
  {
    name: 'a cold bucket is full',
    numbers: threePerSecond,
    state: undefined,
    nowUs: T0,
    cost: 1,
    expected: {
      allowed: true,
      remaining: 1,
      retryAfterUs: 0,
      resetAfterUs: 333_334,
      spent: { tatUs: T0 + 333_333, fraction: 1, ...rate },
    },
  },
  {
    name: 'the whole burst fits into one instant',
    numbers: threePerSecond,
    state: { tatUs: T0 + 333_333, fraction: 1, ...rate },
    nowUs: T0,
    cost: 1,
    expected: { allowed: true, remaining: 0, retryAfterUs: 0, resetAfterUs: 666_667, spent: drained },
  },
  {
    name: 'one microsecond before a third of a second there is no token',
    numbers: threePerSecond,
    state: drained,
    nowUs: T0 + 333_333,
    cost: 1,
    expected: { allowed: false, remaining: 0, retryAfterUs: 1, resetAfterUs: 333_334 },
  },
  {
    name: 'at the first whole microsecond after it there is one',
    numbers: threePerSecond,
    state: drained,
    nowUs: T0 + 333_334,
    cost: 1,
    expected: {
      allowed: true,
      remaining: 0,
      retryAfterUs: 0,
      resetAfterUs: 666_666,
      spent: { tatUs: T0 + 1_000_000, fraction: 0, ...rate },
    },
  },
  {
    name: 'a cost above the burst never fits and locks nothing',
    numbers: threePerSecond,
    state: undefined,
    nowUs: T0,
    cost: 3,
    expected: { allowed: false, remaining: 2, retryAfterUs: NEVER, resetAfterUs: 0 },
  },
  {
    name: 'a cost of 0 only looks',
    numbers: threePerSecond,
    state: drained,
    nowUs: T0,
    cost: 0,
    expected: { allowed: true, remaining: 0, retryAfterUs: 0, resetAfterUs: 666_667 },
  },
  {
    name: 'a debt that has drained decides as if it were absent',
    numbers: threePerSecond,
    state: drained,
    nowUs: T0 + 666_667,
    cost: 2,
    expected: {
      allowed: true,
      remaining: 0,
      retryAfterUs: 0,
      resetAfterUs: 666_667,
      spent: { tatUs: T0 + 1_333_333, fraction: 2, ...rate },
    },
  },
  {
    name: 'a clock that stepped back credits nothing',
    numbers: threePerSecond,
    state: drained,
    nowUs: T0 - 1_000_000,
    cost: 1,
    expected: { allowed: false, remaining: 0, retryAfterUs: 1_333_334, resetAfterUs: 1_666_667 },
  },
  {
    name: 'a clock that stepped back by exactly what is tolerated changes nothing',
    numbers: threePerSecond,
    state: drained,
    nowUs: T0 - 5_000_001,
    cost: 1,
    expected: {
      allowed: false,
      remaining: 0,
      retryAfterUs: 5_333_335,
      resetAfterUs: 5_666_668,
      carried: undefined,
    },
  },
  {
    name: 'a clock that stepped back by more leaves the bucket empty now',
    numbers: threePerSecond,
    state: drained,
    nowUs: T0 - 5_000_002,
    cost: 1,
    expected: {
      allowed: false,
      remaining: 0,
      retryAfterUs: 333_334,
      resetAfterUs: 666_667,
      carried: { tatUs: T0 - 4_333_336, fraction: 2, ...rate },
    },
  },
  {
    name: 'one of two tokens, written by a clock that stepped back an hour, is an empty bucket',
    numbers: threePerSecond,
    state: { tatUs: T0 + 3_600_333_333, fraction: 1, ...rate },
    nowUs: T0,
    cost: 3,
    expected: {
      allowed: false,
      remaining: 0,
      retryAfterUs: NEVER,
      resetAfterUs: 666_667,
      carried: drained,
    },
  },
  {
    name: 'where a full bucket takes longer to drain, a step of as long is tolerated',
    numbers: hourly,
    state: { tatUs: T0 + 7_200_000_000, fraction: 0, ...hourlyRate },
    nowUs: T0,
    cost: 1,
    expected: {
      allowed: false,
      remaining: 0,
      retryAfterUs: 5_400_000_000,
      resetAfterUs: 7_200_000_000,
      carried: undefined,
    },
  },
  {
    name: 'and a step of a microsecond more is not',
    numbers: hourly,
    state: { tatUs: T0 + 7_200_000_001, fraction: 0, ...hourlyRate },
    nowUs: T0,
    cost: 1,
    expected: {
      allowed: false,
      remaining: 0,
      retryAfterUs: 1_800_000_000,
      resetAfterUs: 3_600_000_000,
      carried: { tatUs: T0 + 3_600_000_000, fraction: 0, ...hourlyRate },
    },
  },
  {
    name: 'a lowered burst is no clock that stepped back: the debt stays what it was',
    numbers: { ...tenPerSecond, limit: 2, capacityUnits: 200_000 },
    state: { tatUs: T0 + 1_000_000, fraction: 0, ...tenRate },
    nowUs: T0,
    cost: 1,
    expected: {
      allowed: false,
      remaining: 0,
      retryAfterUs: 900_000,
      resetAfterUs: 1_000_000,
      carried: undefined,
    },
  },
  {
    name: 'a clock that stepped back under another rate leaves an empty bucket of the old one',
    numbers: onePerSecond,
    state: { tatUs: T0 + 6_000_001, fraction: 0, ...tenRate },
    nowUs: T0,
    cost: 1,
    expected: {
      allowed: false,
      remaining: 0,
      retryAfterUs: 1_600_000,
      resetAfterUs: 4_600_000,
      carried: { tatUs: T0 + 1_000_000, fraction: 0, ...tenRate },
    },
  },
  {
    name: 'a raised burst frees only the difference',
    numbers: largerBurst,
    state: { tatUs: T0 + 1_000_000, fraction: 0, ...tenRate },
    nowUs: T0,
    cost: 6,
    expected: { allowed: false, remaining: 5, retryAfterUs: 100_000, resetAfterUs: 1_000_000 },
  },
  {
    name: 'a new rate keeps the debt in tokens: 3 of 10 spent stay 3 of 4 spent',
    numbers: onePerSecond,
    state: { tatUs: T0 + 300_000, fraction: 0, ...tenRate },
    nowUs: T0,
    cost: 1,
    expected: {
      allowed: true,
      remaining: 0,
      retryAfterUs: 0,
      resetAfterUs: 4_000_000,
      spent: { tatUs: T0 + 4_000_000, fraction: 0, ...oneRate },
    },
  },
  {
    name: 'a debt above a lowered burst first drains at the old rate, then a token at the new one',
    numbers: onePerSecond,
    state: { tatUs: T0 + 1_000_000, fraction: 0, ...tenRate },
    nowUs: T0,
    cost: 1,
    expected: { allowed: false, remaining: 0, retryAfterUs: 1_600_000, resetAfterUs: 4_600_000 },
  },
  {
    name: 'a raised rate carries a debt above its burst and drains it at the new rate',
    numbers: { ...tenPerSecond, limit: 2, capacityUnits: 200_000 },
    state: { tatUs: T0 + 4_000_000, fraction: 0, ...oneRate },
    nowUs: T0,
    cost: 1,
    expected: { allowed: false, remaining: 0, retryAfterUs: 300_000, resetAfterUs: 400_000 },
  },
  {
    name: 'a debt too large for the units of a new rate is neither cut nor forgiven: it drains at the old rate',
    numbers: { limit: 10, tokenUnits: 1_000_000, drainUnits: 2_000_000, capacityUnits: 10_000_000 },
    state: { tatUs: T0 + 2 ** 50, fraction: 0, tokenUnits: 1, drainUnits: 1, capacityUnits: 2 ** 50 },
    nowUs: T0,
    cost: 1,
    expected: { allowed: false, remaining: 0, retryAfterUs: 2 ** 50 - 9, resetAfterUs: 2 ** 50 - 5 },
  },
];
