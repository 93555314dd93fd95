// What a fleet admitted, and whether it was promised. Everything here is a pure function of what was recorded.
import { Outcome } from '../../packages/limiter/src/algorithms/algorithm.ts';
import {
  decideBucket,
  type BucketState,
  type CompiledBucket,
} from '../../packages/limiter/src/algorithms/bucket/bucket.ts';

/** A check that was admitted at some moment between these two, by the monotonic clock of the machine. */
export interface Admission {
  readonly cost: number;
  readonly askedUs: number;
  readonly answeredUs: number;
}

/** A decision of Redis, by its own clock. */
export interface StoreDecision {
  readonly atUs: number;
  readonly cost: number;
  readonly allowed: boolean;
  readonly remaining: number;
}

/**
 * The most that was admitted above `rate` x length, over every interval: of each interval only the admissions that
 * surely lie inside count, so nothing is reported that may have been right. A bucket promises at most its burst.
 */
export function mostAboveRate(admissions: readonly Admission[], ratePerUs: number): number {
  const byEnd = admissions.toSorted((a, b) => a.answeredUs - b.answeredUs);
  const starts = [...new Set(admissions.map(({ askedUs }) => askedUs))].toSorted((a, b) => a - b);
  let most = 0;
  for (const fromUs of starts) {
    let admitted = 0;
    for (const { askedUs, answeredUs, cost } of byEnd) {
      if (askedUs < fromUs) continue;
      admitted += cost;
      most = Math.max(most, admitted - ratePerUs * (answeredUs - fromUs));
    }
  }
  return most;
}

/** The most that was admitted in any stretch of time shorter than the window. */
export function mostInWindow(admissions: readonly Admission[], windowUs: number): number {
  const byEnd = admissions.toSorted((a, b) => a.answeredUs - b.answeredUs);
  let most = 0;
  for (const { askedUs: fromUs } of admissions) {
    let admitted = 0;
    for (const { askedUs, answeredUs, cost } of byEnd) {
      if (answeredUs - fromUs >= windowUs) break;
      if (askedUs >= fromUs) admitted += cost;
    }
    most = Math.max(most, admitted);
  }
  return most;
}

/** How many decisions of Redis differ from those of one exact bucket that meets the same requests. */
export function replayDifferences(decisions: readonly StoreDecision[], numbers: CompiledBucket): number {
  // In the same microsecond each admission left less than the one before it.
  const ordered = decisions.toSorted((a, b) => a.atUs - b.atUs || b.remaining - a.remaining);
  let state: BucketState | undefined;
  let differences = 0;
  for (const { atUs, cost, allowed, remaining } of ordered) {
    const verdict = decideBucket(state, numbers, cost, atUs, new Outcome());
    if (verdict.allowed !== allowed || verdict.remaining !== remaining) differences += 1;
    if (verdict.allowed) state = verdict.spent;
  }
  return differences;
}
