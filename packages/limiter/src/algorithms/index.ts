import type { Algorithm, AnyNumbers, AnyState } from './algorithm.ts';
import { calendarQuotaAlgorithm } from './calendar-quota/calendar-quota.ts';
import { concurrencyAlgorithm } from './concurrency/concurrency.ts';
import { fixedWindowAlgorithm } from './fixed-window/fixed-window.ts';
import { leakyBucketAlgorithm } from './leaky-bucket/leaky-bucket.ts';
import { slidingWindowCounterAlgorithm } from './sliding-window-counter/sliding-window-counter.ts';
import { slidingWindowLogAlgorithm } from './sliding-window-log/sliding-window-log.ts';
import { tokenBucketAlgorithm } from './token-bucket/token-bucket.ts';

export type AlgorithmName =
  | 'tokenBucket'
  | 'leakyBucket'
  | 'fixedWindow'
  | 'slidingWindowLog'
  | 'slidingWindowCounter'
  | 'calendarQuota'
  | 'concurrency';

/**
 * An algorithm whose options, numbers and states are its own business. A Plan pairs it with numbers of the right kind.
 */
export type AnyAlgorithm = Algorithm<AlgorithmName, Readonly<Record<string, unknown>>, AnyNumbers, AnyState>;

/** The one list of algorithms. */
export const ALGORITHMS: Readonly<Record<AlgorithmName, AnyAlgorithm>> = {
  tokenBucket: tokenBucketAlgorithm,
  leakyBucket: leakyBucketAlgorithm,
  fixedWindow: fixedWindowAlgorithm,
  slidingWindowLog: slidingWindowLogAlgorithm,
  slidingWindowCounter: slidingWindowCounterAlgorithm,
  calendarQuota: calendarQuotaAlgorithm,
  concurrency: concurrencyAlgorithm,
};
