import {
  fixedWindow,
  leakyBucket,
  slidingWindowCounter,
  slidingWindowLog,
  tokenBucket,
  type Policy,
} from '../../src/index.ts';

/** One policy per algorithm that admits ten at once, and all of them again after two minutes. */
export const TENS: readonly Policy[] = [
  tokenBucket({ name: 'bucket', average: 10, burst: 10, period: '1m' }),
  leakyBucket({ name: 'queue', average: 1, period: '1s', maxDelay: '9s' }),
  fixedWindow({ name: 'fixed', quota: 10, window: '1m' }),
  slidingWindowLog({ name: 'log', quota: 10, window: '1m' }),
  slidingWindowCounter({ name: 'counter', quota: 10, window: '1m' }),
];
