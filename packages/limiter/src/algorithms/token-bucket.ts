import type { Algorithm } from './algorithm.ts';
import { bucketAbsentAtUs, decideBucket, type BucketNumbers, type BucketState } from './bucket.ts';

/** Admits while the debt fits into the burst; a token never waits for its turn. */
export const tokenBucketAlgorithm: Algorithm<BucketNumbers, BucketState> = {
  name: 'tokenBucket',
  decide(state, numbers, cost, nowUs) {
    const outcome = decideBucket(state, numbers, cost, nowUs);
    outcome.delayUs = 0;
    return outcome;
  },
  absentAtUs: bucketAbsentAtUs,
};
