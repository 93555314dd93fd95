import type { Algorithm, AlgorithmName } from './algorithm.ts';
import type { BucketNumbers, BucketState } from './bucket.ts';
import { fixedWindowAlgorithm, type FixedWindowNumbers, type FixedWindowState } from './fixed-window.ts';
import { leakyBucketAlgorithm } from './leaky-bucket.ts';
import {
  slidingWindowCounterAlgorithm,
  type SlidingWindowCounterNumbers,
  type SlidingWindowCounterState,
} from './sliding-window-counter.ts';
import {
  slidingWindowLogAlgorithm,
  type SlidingWindowLogNumbers,
  type SlidingWindowLogState,
} from './sliding-window-log.ts';
import { tokenBucketAlgorithm } from './token-bucket.ts';

/** The one list of algorithms. */
export const ALGORITHMS: Readonly<Record<AlgorithmName, AnyAlgorithm>> = {
  tokenBucket: tokenBucketAlgorithm,
  leakyBucket: leakyBucketAlgorithm,
  fixedWindow: fixedWindowAlgorithm,
  slidingWindowLog: slidingWindowLogAlgorithm,
  slidingWindowCounter: slidingWindowCounterAlgorithm,
};

export type { AlgorithmName };
export type AnyNumbers =
  | BucketNumbers
  | FixedWindowNumbers
  | SlidingWindowLogNumbers
  | SlidingWindowCounterNumbers;
export type AnyState = BucketState | FixedWindowState | SlidingWindowLogState | SlidingWindowCounterState;
/** An algorithm whose numbers and state are its own business. A Plan pairs it with numbers of the right kind. */
export type AnyAlgorithm = Algorithm<AnyNumbers, AnyState>;
