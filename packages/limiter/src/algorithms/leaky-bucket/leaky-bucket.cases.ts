import { NEVER } from '../algorithm.ts';
import type { CompiledBucket, BucketState } from '../bucket/bucket.ts';
import { T0, type AlgorithmCase } from '../case.ts';

// 3 per second with a wait of at most 1 s: the queue holds 1 s of work and the unit being served.
const queue: CompiledBucket = { limit: 4, tokenUnits: 1_000_000, drainUnits: 3, capacityUnits: 4_000_000 };
const rate = { tokenUnits: 1_000_000, drainUnits: 3, capacityUnits: 4_000_000 };
// The same rate without waiting: one unit at a time.
const noWait: CompiledBucket = { ...rate, limit: 1, capacityUnits: 1_000_000 };

export const leakyBucketCases: readonly AlgorithmCase<CompiledBucket, BucketState>[] = [
  {
    name: 'the first goes at once',
    numbers: queue,
    state: undefined,
    nowUs: T0,
    cost: 1,
    expected: {
      allowed: true,
      remaining: 3,
      retryAfterUs: 0,
      resetAfterUs: 333_334,
      delayUs: 0,
      spent: { tatUs: T0 + 333_333, fraction: 1, ...rate },
    },
  },
  {
    name: 'the second waits one interval, rounded up',
    numbers: queue,
    state: { tatUs: T0 + 333_333, fraction: 1, ...rate },
    nowUs: T0,
    cost: 1,
    expected: {
      allowed: true,
      remaining: 2,
      retryAfterUs: 0,
      resetAfterUs: 666_667,
      delayUs: 333_334,
      spent: { tatUs: T0 + 666_666, fraction: 2, ...rate },
    },
  },
  {
    name: 'a wait of exactly maxDelay is accepted',
    numbers: queue,
    state: { tatUs: T0 + 1_000_000, fraction: 0, ...rate },
    nowUs: T0,
    cost: 1,
    expected: {
      allowed: true,
      remaining: 0,
      retryAfterUs: 0,
      resetAfterUs: 1_333_334,
      delayUs: 1_000_000,
      spent: { tatUs: T0 + 1_333_333, fraction: 1, ...rate },
    },
  },
  {
    name: 'a longer one is not, and says when it would be',
    numbers: queue,
    state: { tatUs: T0 + 1_333_333, fraction: 1, ...rate },
    nowUs: T0,
    cost: 1,
    expected: { allowed: false, remaining: 0, retryAfterUs: 333_334, resetAfterUs: 1_333_334, delayUs: 0 },
  },
  {
    name: 'the last unit of a larger cost counts',
    numbers: queue,
    state: undefined,
    nowUs: T0,
    cost: 4,
    expected: {
      allowed: true,
      remaining: 0,
      retryAfterUs: 0,
      resetAfterUs: 1_333_334,
      delayUs: 0,
      spent: { tatUs: T0 + 1_333_333, fraction: 1, ...rate },
    },
  },
  {
    name: 'more than the queue ever holds is refused for good',
    numbers: queue,
    state: undefined,
    nowUs: T0,
    cost: 5,
    expected: { allowed: false, remaining: 4, retryAfterUs: NEVER, resetAfterUs: 0, delayUs: 0 },
  },
  {
    name: 'without a wait the next one comes an interval later',
    numbers: noWait,
    state: { tatUs: T0 + 333_333, fraction: 1, ...rate },
    nowUs: T0 + 333_333,
    cost: 1,
    expected: { allowed: false, remaining: 0, retryAfterUs: 1, resetAfterUs: 1, delayUs: 0 },
  },
  {
    name: 'a queue written by a clock that stepped back is full now',
    numbers: queue,
    state: { tatUs: T0 + 6_333_335, fraction: 0, ...rate },
    nowUs: T0,
    cost: 1,
    expected: {
      allowed: false,
      remaining: 0,
      retryAfterUs: 333_334,
      resetAfterUs: 1_333_334,
      carried: { tatUs: T0 + 1_333_333, fraction: 1, ...rate },
    },
  },
  {
    name: 'a look tells how long the queue is',
    numbers: queue,
    state: { tatUs: T0 + 666_666, fraction: 2, ...rate },
    nowUs: T0,
    cost: 0,
    expected: { allowed: true, remaining: 2, retryAfterUs: 0, resetAfterUs: 666_667, delayUs: 666_667 },
  },
];
