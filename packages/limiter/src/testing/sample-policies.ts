import type { AlgorithmName } from '../algorithms/index.ts';
import type { Policy } from '../limit.ts';
import {
  calendarQuota,
  concurrency,
  fixedWindow,
  leakyBucket,
  slidingWindowCounter,
  slidingWindowLog,
  tokenBucket,
} from '../policy.ts';

/** Policies of one algorithm that stores are tried with. */
export interface SamplePolicies {
  /**
   * Ten at once, and ten a minute after they are used up; undefined where nothing comes back within a minute, or
   * `check` cannot ask for it.
   */
  readonly ten?: Policy;
  /** With numbers that do not divide evenly, that are tiny, and that are huge. */
  readonly awkward: readonly Policy[];
}

export const SAMPLE_POLICIES: Readonly<Record<AlgorithmName, SamplePolicies>> = {
  tokenBucket: {
    ten: tokenBucket({ name: 'bucket', average: 10, burst: 10, period: '1m' }),
    awkward: [
      tokenBucket({ name: 'thirds', average: 3, burst: 2, period: '1s' }),
      tokenBucket({ name: 'sevenths', average: 7, burst: 20, period: '1m' }),
      tokenBucket({ name: 'rare', average: 1, burst: 3, period: '30d' }),
      tokenBucket({ name: 'torrent', average: 5_000_000, burst: 1_000_000_000, period: '1s' }),
      tokenBucket({ name: 'rounded', average: 1_234_567, burst: 1_234_567, period: '1d' }),
    ],
  },
  leakyBucket: {
    ten: leakyBucket({ name: 'queue', average: 10, period: '1m', maxDelay: '54s' }),
    awkward: [
      leakyBucket({ name: 'queue', average: 3, period: '1s', maxDelay: '1s' }),
      leakyBucket({ name: 'spaced', average: 7, period: '1s', maxDelay: 0 }),
    ],
  },
  fixedWindow: {
    ten: fixedWindow({ name: 'fixed', quota: 10, window: '1m' }),
    awkward: [
      fixedWindow({ name: 'fixed', quota: 5, window: '1s' }),
      fixedWindow({ name: 'shifted', quota: 3, window: 333, offset: 100 }),
    ],
  },
  slidingWindowLog: {
    ten: slidingWindowLog({ name: 'log', quota: 10, window: '1m' }),
    awkward: [
      slidingWindowLog({ name: 'log', quota: 4, window: '1s' }),
      slidingWindowLog({ name: 'coarseLog', quota: 5000, window: '10s' }),
    ],
  },
  slidingWindowCounter: {
    ten: slidingWindowCounter({ name: 'counter', quota: 10, window: '1m' }),
    awkward: [
      slidingWindowCounter({ name: 'counter', quota: 3, window: '1s' }),
      slidingWindowCounter({ name: 'dailyCounter', quota: 1_000_000, window: '1d' }),
    ],
  },
  calendarQuota: {
    awkward: [
      // Summer time begins and ends within the time that programs run through; the last two have skipped midnights.
      calendarQuota({ name: 'daily', quota: 3, every: 'day', timeZone: 'Europe/Berlin' }),
      calendarQuota({ name: 'weekly', quota: 5, every: 'week', timeZone: 'America/New_York', startsOn: 7 }),
      calendarQuota({ name: 'monthly', quota: 7, every: 'month', timeZone: 'Asia/Beirut', startsOn: 31 }),
      calendarQuota({
        name: 'yearly',
        quota: 1_000_000,
        every: 'year',
        timeZone: 'Africa/Cairo',
        startsOn: 4,
      }),
      calendarQuota({ name: 'once', quota: 100, every: 'ever' }),
    ],
  },
  concurrency: {
    awkward: [
      concurrency({ name: 'inFlight', limit: 4, hold: '1s' }),
      concurrency({ name: 'exports', limit: 1, hold: 333 }),
    ],
  },
};
