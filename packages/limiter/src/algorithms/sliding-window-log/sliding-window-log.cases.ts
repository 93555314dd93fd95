import { NEVER } from '../algorithm.ts';
import { T0, type AlgorithmCase } from '../case.ts';
import type { CompiledLog, SlidingWindowLogState } from './sliding-window-log.ts';

const perSecond: CompiledLog = { limit: 3, windowUs: 1_000_000, stampUs: 1 };
// Ten steps per second: admissions are stamped with the end of their step.
const coarse: CompiledLog = { limit: 3, windowUs: 1_000_000, stampUs: 100_000 };
const twoThenOne: SlidingWindowLogState = [0, T0, 2, T0 + 300_000, 3];

export const slidingWindowLogCases: readonly AlgorithmCase<CompiledLog, SlidingWindowLogState>[] = [
  {
    name: 'the first admission is logged at its own microsecond',
    numbers: perSecond,
    state: undefined,
    nowUs: T0,
    cost: 2,
    expected: { allowed: true, remaining: 1, retryAfterUs: 0, resetAfterUs: 1_000_000, spent: [0, T0, 2] },
  },
  {
    name: 'equal moments share a record',
    numbers: perSecond,
    state: [0, T0, 2],
    nowUs: T0,
    cost: 1,
    expected: { allowed: true, remaining: 0, retryAfterUs: 0, resetAfterUs: 1_000_000, spent: [0, T0, 3] },
  },
  {
    name: 'the oldest admission leaves exactly one window later, not before',
    numbers: perSecond,
    state: twoThenOne,
    nowUs: T0 + 999_999,
    cost: 1,
    expected: { allowed: false, remaining: 0, retryAfterUs: 1, resetAfterUs: 300_001 },
  },
  {
    name: 'at that moment what it held is free',
    numbers: perSecond,
    state: twoThenOne,
    nowUs: T0 + 1_000_000,
    cost: 2,
    expected: {
      allowed: true,
      remaining: 0,
      retryAfterUs: 0,
      resetAfterUs: 1_000_000,
      spent: [2, T0 + 300_000, 3, T0 + 1_000_000, 5],
    },
  },
  {
    name: 'what left the window is counted neither now nor later',
    numbers: { limit: 3, windowUs: 10, stampUs: 1 },
    state: [1, T0 + 5, 2, T0 + 11, 3],
    nowUs: T0 + 12,
    cost: 0,
    expected: { allowed: true, remaining: 1, retryAfterUs: 0, resetAfterUs: 9 },
  },
  {
    name: 'a larger cost waits for as many records as it needs',
    numbers: perSecond,
    state: twoThenOne,
    nowUs: T0 + 300_000,
    cost: 3,
    expected: { allowed: false, remaining: 0, retryAfterUs: 1_000_000, resetAfterUs: 1_000_000 },
  },
  {
    name: 'a clock that stepped back logs at the newest moment and frees nothing',
    numbers: perSecond,
    state: [0, T0, 2],
    nowUs: T0 - 400_000,
    cost: 1,
    expected: { allowed: true, remaining: 0, retryAfterUs: 0, resetAfterUs: 1_400_000, spent: [0, T0, 3] },
  },
  {
    name: 'a coarse log rounds the stamp up',
    numbers: coarse,
    state: undefined,
    nowUs: T0 + 1,
    cost: 1,
    expected: {
      allowed: true,
      remaining: 2,
      retryAfterUs: 0,
      resetAfterUs: 1_099_999,
      spent: [0, T0 + 100_000, 1],
    },
  },
  {
    name: 'and still counts by the real clock',
    numbers: coarse,
    state: [0, T0 + 100_000, 3],
    nowUs: T0 + 1_099_999,
    cost: 1,
    expected: { allowed: false, remaining: 0, retryAfterUs: 1, resetAfterUs: 1 },
  },
  {
    name: 'more than the quota never fits',
    numbers: perSecond,
    state: twoThenOne,
    nowUs: T0 + 500_000,
    cost: 4,
    expected: { allowed: false, remaining: 0, retryAfterUs: NEVER, resetAfterUs: 800_000 },
  },
  {
    name: 'running totals start over before they leave 2^53',
    numbers: { limit: 2 ** 51, windowUs: 1_000_000, stampUs: 1 },
    state: [2 ** 52 - 20, T0 - 1_000_000, 2 ** 52 - 10, T0, 2 ** 52 - 5],
    nowUs: T0 + 1,
    cost: 100,
    expected: {
      allowed: true,
      remaining: 2 ** 51 - 105,
      retryAfterUs: 0,
      resetAfterUs: 1_000_000,
      spent: [0, T0, 5, T0 + 1, 105],
    },
  },
];
