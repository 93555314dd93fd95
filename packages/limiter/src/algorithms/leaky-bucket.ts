import { Outcome, type Algorithm } from './algorithm.ts';
import { bucketAbsentAtUs, decideBucket, type BucketNumbers, type BucketState } from './bucket.ts';

/**
 * A queue that serves one unit per interval: an admitted request is told to wait until the units before it have
 * left. It is admitted if its *last* unit waits at most `maxDelay`, which makes the queue a bucket that holds
 * maxDelay plus one interval. (Looking only at the first unit would let one huge cost lock a key for years.)
 */
export const leakyBucketAlgorithm: Algorithm<BucketNumbers, BucketState> = {
  name: 'leakyBucket',
  decide: (state, numbers, cost, nowUs, out = new Outcome()) =>
    decideBucket(state, numbers, cost, nowUs, out),
  absentAtUs: bucketAbsentAtUs,
};
