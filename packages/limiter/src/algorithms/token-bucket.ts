import { Outcome, type Algorithm } from './algorithm.ts';
import { bucketAbsentAtUs, decideBucket, type BucketNumbers, type BucketState } from './bucket.ts';

/** Admits while the debt fits into the burst; a token never waits for its turn. */
export const tokenBucketAlgorithm: Algorithm<BucketNumbers, BucketState> = {
  name: 'tokenBucket',
  decide(state, numbers, cost, nowUs, out = new Outcome()) {
    decideBucket(state, numbers, cost, nowUs, out);
    out.delayUs = 0;
    return out;
  },
  absentAtUs: bucketAbsentAtUs,
};
