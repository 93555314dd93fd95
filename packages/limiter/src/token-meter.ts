import { Outcome } from './algorithms/algorithm.ts';
import type { BucketState, CompiledBucket } from './algorithms/bucket/bucket.ts';
import { tokenBucketAlgorithm } from './algorithms/token-bucket/token-bucket.ts';

const US_PER_S = 1_000_000;
const US_PER_MS = 1000;

/** One token bucket without a store: for what a process counts by itself, such as the frames of a connection. */
export class TokenMeter {
  private readonly numbers: CompiledBucket;
  private readonly outcome = new Outcome<BucketState>();
  private state: BucketState | undefined;

  constructor(burst: number, perSecond: number) {
    this.numbers = tokenBucketAlgorithm.compile({ average: perSecond, burst, period: US_PER_S }).numbers;
  }

  /** False: that was too much, and nothing of it is charged. */
  take(nowMs: number, cost = 1): boolean {
    const nowUs = Math.floor(nowMs * US_PER_MS);
    const { allowed, spent } = tokenBucketAlgorithm.decide(
      this.state,
      this.numbers,
      cost,
      nowUs,
      this.outcome,
    );
    if (spent !== undefined) this.state = spent;
    return allowed;
  }
}
