import type { Duration } from '../../duration.ts';
import { Outcome, type Algorithm } from '../algorithm.ts';
import {
  advertiseBucket,
  BUCKET_LAYOUT,
  bucketPacking,
  bucketRateId,
  bucketAbsentAtUs,
  decideBucket,
  type BucketState,
  type CompiledBucket,
} from '../bucket/bucket.ts';
import { loosenBucket, refundBucket } from '../bucket/bucket-refund.ts';
import { compileBucket, divideBucket } from '../bucket/bucket-rate.ts';

export interface LeakyBucketNumbers {
  /** Units that leave the queue per `period`: an integer >= 1. */
  readonly average: number;
  /** The time in which `average` units leave the queue, such as `'1s'` or `'1m'`, or milliseconds. */
  readonly period: Duration;
  /** The longest wait a request is queued for; 0 admits only what can go at once. */
  readonly maxDelay: Duration;
}

/**
 * A queue that serves one unit per interval: an admitted request is told to wait until the units before it have
 * left. It is admitted if its *last* unit waits at most `maxDelay`, which makes the queue a bucket that holds
 * maxDelay plus one interval. (Looking only at the first unit would let one huge cost lock a key for years.)
 */
export const leakyBucketAlgorithm: Algorithm<'leakyBucket', LeakyBucketNumbers, CompiledBucket, BucketState> =
  {
    name: 'leakyBucket',

    decide: (state, numbers, cost, nowUs, out = new Outcome()) =>
      decideBucket(state, numbers, cost, nowUs, out),
    absentAtUs: bucketAbsentAtUs,

    options: {
      average: { kind: 'count', description: 'Units that leave the queue per `period`.' },
      period: {
        kind: 'duration',
        fileDefault: '1s',
        description: 'The time in which `average` units leave.',
      },
      maxDelay: {
        kind: 'duration',
        leastUs: 0,
        description: 'The longest time a request may wait in the queue.',
      },
    },
    compile: ({ average, period, maxDelay }) => ({
      numbers: compileBucket({ average, periodUs: period, tokens: 1, delayUs: maxDelay }),
      stateId: '',
    }),
    amounts: ({ average, period, maxDelay }) => [average / period, maxDelay],
    share(numbers, instances) {
      // A queue holds one unit that is served and what fits into its delay, which stays: nobody waits longer than the
      // policy says.
      const delayUs = (numbers.capacityUnits - numbers.tokenUnits) / numbers.drainUnits;
      return divideBucket(numbers, { tokens: 1, delayUs }, instances);
    },
    refund: refundBucket,
    loosen: loosenBucket,
    advertise: advertiseBucket,

    rateId: bucketRateId,
    packing: bucketPacking,
    redis: { number: 2, ...BUCKET_LAYOUT },
  };
