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
import { BUCKET_LEASES } from '../bucket/token-lease.ts';

export interface TokenBucketNumbers {
  /** Tokens that come back per `period`: an integer >= 1. */
  readonly average: number;
  /** Tokens a full bucket holds, and the largest cost: an integer >= 1. Default: `average`. */
  readonly burst?: number | undefined;
  /** The time in which `average` units come back, such as `'1s'` or `'1m'`, or milliseconds. */
  readonly period: Duration;
}

/** Admits while the debt fits into the burst; a token never waits for its turn. */
export const tokenBucketAlgorithm: Algorithm<'tokenBucket', TokenBucketNumbers, CompiledBucket, BucketState> =
  {
    name: 'tokenBucket',

    decide(state, numbers, cost, nowUs, out = new Outcome()) {
      decideBucket(state, numbers, cost, nowUs, out);
      out.delayUs = 0;
      return out;
    },
    absentAtUs: bucketAbsentAtUs,
    leases: BUCKET_LEASES,

    options: {
      average: { kind: 'count', description: 'Tokens that come back per `period`.' },
      burst: {
        kind: 'count',
        optional: true,
        description: 'Tokens that a full bucket holds, and the largest cost. Unset: `average`.',
      },
      period: {
        kind: 'duration',
        fileDefault: '1s',
        description: 'The time in which `average` tokens come back.',
      },
    },
    compile: ({ average, burst = average, period }) => ({
      numbers: compileBucket({ average, periodUs: period, tokens: burst, delayUs: 0 }),
      stateId: '',
    }),
    amounts: ({ average, burst = average, period }) => [average / period, burst],
    share: (numbers, instances) => divideBucket(numbers, { tokens: numbers.limit, delayUs: 0 }, instances),
    refund: refundBucket,
    loosen: loosenBucket,
    advertise: advertiseBucket,

    rateId: bucketRateId,
    packing: bucketPacking,
    redis: { number: 1, ...BUCKET_LAYOUT },
  };
