import { ALGORITHMS, type AlgorithmName } from '../../src/algorithms/index.ts';
import { calendarQuotaModel } from './calendar-quota.ts';
import { concurrencyModel } from './concurrency.ts';
import { fixedWindowModel } from './fixed-window.ts';
import { leakyBucketModel } from './leaky-bucket.ts';
import { slidingWindowCounterModel } from './sliding-window-counter.ts';
import { slidingWindowLogModel } from './sliding-window-log.ts';
import type { AlgorithmModel } from './subject.ts';
import { tokenBucketModel } from './token-bucket.ts';

/** One model per algorithm of the engine. */
export const MODELS: Readonly<Record<AlgorithmName, AlgorithmModel>> = {
  tokenBucket: tokenBucketModel,
  leakyBucket: leakyBucketModel,
  fixedWindow: fixedWindowModel,
  slidingWindowLog: slidingWindowLogModel,
  slidingWindowCounter: slidingWindowCounterModel,
  calendarQuota: calendarQuotaModel,
  concurrency: concurrencyModel,
};

export const ALGORITHM_NAMES: readonly AlgorithmName[] = Object.values(ALGORITHMS).map(({ name }) => name);
