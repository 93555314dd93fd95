import type { AlgorithmName } from '../../src/algorithms/index.ts';
import { fixedWindow } from './fixed-window.ts';
import { leakyBucket } from './leaky-bucket.ts';
import { slidingWindowCounter } from './sliding-window-counter.ts';
import { slidingWindowLog } from './sliding-window-log.ts';
import { tokenBucket } from './token-bucket.ts';

/** One definition per algorithm of the engine, by the same name. */
export const DEFINITIONS = {
  tokenBucket,
  leakyBucket,
  fixedWindow,
  slidingWindowLog,
  slidingWindowCounter,
} as const;

export const ALGORITHM_NAMES: readonly AlgorithmName[] = [
  'tokenBucket',
  'leakyBucket',
  'fixedWindow',
  'slidingWindowLog',
  'slidingWindowCounter',
];
