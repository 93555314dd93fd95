import { NEVER } from '../algorithm.ts';
import { T0, type AlgorithmCase } from '../case.ts';
import type { CompiledCounter, SlidingWindowCounterState } from './sliding-window-counter.ts';

const perSecond: CompiledCounter = { limit: 3, windowUs: 1_000_000, tickUs: 1 };
const coarse: CompiledCounter = { limit: 3, windowUs: 1_000_000, tickUs: 100_000 };
const index = T0 / 1_000_000;

export const slidingWindowCounterCases: readonly AlgorithmCase<CompiledCounter, SlidingWindowCounterState>[] =
  [
    {
      name: 'the first counts in the window of its moment and matters until the end of the next',
      numbers: perSecond,
      state: undefined,
      nowUs: T0 + 250_000,
      cost: 2,
      expected: {
        allowed: true,
        remaining: 1,
        retryAfterUs: 0,
        resetAfterUs: 1_750_000,
        spent: { index, current: 2, previous: 0 },
      },
    },
    {
      name: 'a full previous window frees its first unit after a third, not one microsecond before',
      numbers: perSecond,
      state: { index: index - 1, current: 3, previous: 0 },
      nowUs: T0 + 333_333,
      cost: 1,
      expected: { allowed: false, remaining: 0, retryAfterUs: 1, resetAfterUs: 666_667 },
    },
    {
      name: 'at the first whole microsecond after a third it is free',
      numbers: perSecond,
      state: { index: index - 1, current: 3, previous: 0 },
      nowUs: T0 + 333_334,
      cost: 1,
      expected: {
        allowed: true,
        remaining: 0,
        retryAfterUs: 0,
        resetAfterUs: 1_666_666,
        spent: { index, current: 1, previous: 3 },
      },
    },
    {
      name: 'a full current window has to become the previous one and fade',
      numbers: perSecond,
      state: { index, current: 3, previous: 0 },
      nowUs: T0 + 500_000,
      cost: 1,
      expected: { allowed: false, remaining: 0, retryAfterUs: 833_334, resetAfterUs: 1_500_000 },
    },
    {
      name: 'the whole quota is free only when both windows are over',
      numbers: perSecond,
      state: { index, current: 1, previous: 0 },
      nowUs: T0,
      cost: 3,
      expected: { allowed: false, remaining: 2, retryAfterUs: 2_000_000, resetAfterUs: 2_000_000 },
    },
    {
      name: 'two windows later everything is forgotten',
      numbers: perSecond,
      state: { index: index - 2, current: 3, previous: 3 },
      nowUs: T0,
      cost: 3,
      expected: {
        allowed: true,
        remaining: 0,
        retryAfterUs: 0,
        resetAfterUs: 2_000_000,
        spent: { index, current: 3, previous: 0 },
      },
    },
    {
      name: 'a clock that stepped back weighs the previous window in full',
      numbers: perSecond,
      state: { index, current: 1, previous: 2 },
      nowUs: T0 - 500_000,
      cost: 1,
      expected: { allowed: false, remaining: 0, retryAfterUs: 1_000_000, resetAfterUs: 2_500_000 },
    },
    {
      name: 'a clock that stepped back by what is tolerated stays in the window it had reached',
      numbers: perSecond,
      state: { index: index + 5, current: 1, previous: 0 },
      nowUs: T0,
      cost: 1,
      expected: {
        allowed: true,
        remaining: 1,
        retryAfterUs: 0,
        resetAfterUs: 7_000_000,
        spent: { index: index + 5, current: 2, previous: 0 },
        carried: undefined,
      },
    },
    {
      name: 'a longer window tolerates a step of its length',
      numbers: { limit: 3, windowUs: 3_600_000_000, tickUs: 1 },
      state: { index: T0 / 3_600_000_000 + 1, current: 3, previous: 0 },
      nowUs: T0,
      cost: 1,
      expected: {
        allowed: false,
        remaining: 0,
        retryAfterUs: 8_400_000_000,
        resetAfterUs: 10_800_000_000,
        carried: undefined,
      },
    },
    {
      name: 'a clock that stepped back further counts everything in this window',
      numbers: perSecond,
      state: { index: index + 6, current: 1, previous: 2 },
      nowUs: T0 + 900_000,
      cost: 1,
      expected: {
        allowed: false,
        remaining: 0,
        retryAfterUs: 433_334,
        resetAfterUs: 1_100_000,
        carried: { index, current: 3, previous: 0 },
      },
    },
    {
      name: 'a coarse tick fades late, never early',
      numbers: coarse,
      state: { index: index - 1, current: 3, previous: 0 },
      nowUs: T0 + 399_999,
      cost: 1,
      expected: { allowed: false, remaining: 0, retryAfterUs: 1, resetAfterUs: 600_001 },
    },
    {
      name: 'more than the quota never fits',
      numbers: perSecond,
      state: undefined,
      nowUs: T0,
      cost: 4,
      expected: { allowed: false, remaining: 3, retryAfterUs: NEVER, resetAfterUs: 0 },
    },
  ];
