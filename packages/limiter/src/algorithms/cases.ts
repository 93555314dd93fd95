import type { AnyNumbers, AnyState } from './algorithm.ts';
import type { AlgorithmCase } from './case.ts';
import { calendarQuotaCases } from './calendar-quota/calendar-quota.cases.ts';
import { concurrencyCases } from './concurrency/concurrency.cases.ts';
import { fixedWindowCases } from './fixed-window/fixed-window.cases.ts';
import type { AlgorithmName } from './index.ts';
import { leakyBucketCases } from './leaky-bucket/leaky-bucket.cases.ts';
import { slidingWindowCounterCases } from './sliding-window-counter/sliding-window-counter.cases.ts';
import { slidingWindowLogCases } from './sliding-window-log/sliding-window-log.cases.ts';
import { tokenBucketCases } from './token-bucket/token-bucket.cases.ts';

/** The hand-picked moments of every algorithm. Only tests read them. */
export const CASES: Readonly<Record<AlgorithmName, readonly AlgorithmCase<AnyNumbers, AnyState>[]>> = {
  tokenBucket: tokenBucketCases,
  leakyBucket: leakyBucketCases,
  fixedWindow: fixedWindowCases,
  slidingWindowLog: slidingWindowLogCases,
  slidingWindowCounter: slidingWindowCounterCases,
  calendarQuota: calendarQuotaCases,
  concurrency: concurrencyCases,
};
