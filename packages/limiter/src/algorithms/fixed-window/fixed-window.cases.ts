import { NEVER } from '../algorithm.ts';
import { T0, type AlgorithmCase } from '../case.ts';
import type { CountState } from '../window.ts';
import type { CompiledFixedWindow } from './fixed-window.ts';

const perSecond: CompiledFixedWindow = { limit: 3, windowUs: 1_000_000, offsetUs: 0 };
const shifted: CompiledFixedWindow = { ...perSecond, offsetUs: 250_000 };

export const fixedWindowCases: readonly AlgorithmCase<CompiledFixedWindow, CountState>[] = [
  {
    name: 'the first counts in the window of its moment',
    numbers: perSecond,
    state: undefined,
    nowUs: T0 + 400_000,
    cost: 2,
    expected: {
      allowed: true,
      remaining: 1,
      retryAfterUs: 0,
      resetAfterUs: 600_000,
      spent: { startUs: T0, count: 2 },
    },
  },
  {
    name: 'a full window denies up to its last microsecond',
    numbers: perSecond,
    state: { startUs: T0, count: 3 },
    nowUs: T0 + 999_999,
    cost: 1,
    expected: { allowed: false, remaining: 0, retryAfterUs: 1, resetAfterUs: 1 },
  },
  {
    name: 'the edge belongs to the next window',
    numbers: perSecond,
    state: { startUs: T0, count: 3 },
    nowUs: T0 + 1_000_000,
    cost: 1,
    expected: {
      allowed: true,
      remaining: 2,
      retryAfterUs: 0,
      resetAfterUs: 1_000_000,
      spent: { startUs: T0 + 1_000_000, count: 1 },
    },
  },
  {
    name: 'a clock that stepped back stays in the window it had reached',
    numbers: perSecond,
    state: { startUs: T0, count: 3 },
    nowUs: T0 - 500_000,
    cost: 1,
    expected: { allowed: false, remaining: 0, retryAfterUs: 1_500_000, resetAfterUs: 1_500_000 },
  },
  {
    name: 'a clock that stepped back by what is tolerated still stays',
    numbers: perSecond,
    state: { startUs: T0, count: 3 },
    nowUs: T0 - 5_000_000,
    cost: 1,
    expected: {
      allowed: false,
      remaining: 0,
      retryAfterUs: 6_000_000,
      resetAfterUs: 6_000_000,
      carried: undefined,
    },
  },
  {
    name: 'a longer window tolerates a step of its length',
    numbers: { limit: 3, windowUs: 3_600_000_000, offsetUs: 0 },
    state: { startUs: T0 + 3_600_000_000, count: 3 },
    nowUs: T0,
    cost: 1,
    expected: {
      allowed: false,
      remaining: 0,
      retryAfterUs: 7_200_000_000,
      resetAfterUs: 7_200_000_000,
      carried: undefined,
    },
  },
  {
    name: 'a clock that stepped back further takes the count along',
    numbers: perSecond,
    state: { startUs: T0, count: 3 },
    nowUs: T0 - 5_000_001,
    cost: 1,
    expected: {
      allowed: false,
      remaining: 0,
      retryAfterUs: 1,
      resetAfterUs: 1,
      carried: { startUs: T0 - 6_000_000, count: 3 },
    },
  },
  {
    name: 'what was left of the window is left after the step',
    numbers: perSecond,
    state: { startUs: T0 + 3_600_000_000, count: 1 },
    nowUs: T0 + 500_000,
    cost: 1,
    expected: {
      allowed: true,
      remaining: 1,
      retryAfterUs: 0,
      resetAfterUs: 500_000,
      spent: { startUs: T0, count: 2 },
      carried: { startUs: T0, count: 1 },
    },
  },
  {
    name: 'an offset moves the edges',
    numbers: shifted,
    state: { startUs: T0 - 750_000, count: 3 },
    nowUs: T0 + 249_999,
    cost: 1,
    expected: { allowed: false, remaining: 0, retryAfterUs: 1, resetAfterUs: 1 },
  },
  {
    name: 'more than the quota never fits',
    numbers: perSecond,
    state: undefined,
    nowUs: T0,
    cost: 4,
    expected: { allowed: false, remaining: 3, retryAfterUs: NEVER, resetAfterUs: 0 },
  },
  {
    name: 'a lowered quota acts at once',
    numbers: { ...perSecond, limit: 2 },
    state: { startUs: T0, count: 3 },
    nowUs: T0,
    cost: 1,
    expected: { allowed: false, remaining: 0, retryAfterUs: 1_000_000, resetAfterUs: 1_000_000 },
  },
  {
    name: 'a look at an overdrawn window is still only a look',
    numbers: { ...perSecond, limit: 2 },
    state: { startUs: T0, count: 3 },
    nowUs: T0,
    cost: 0,
    expected: { allowed: true, remaining: 0, retryAfterUs: 0, resetAfterUs: 1_000_000 },
  },
];
