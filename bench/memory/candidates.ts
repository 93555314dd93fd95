import type { Candidate } from './candidate.ts';
import { fixedWindowCandidate, tokenBucketCandidate } from './ours.ts';
import { expressRateLimit, fastifyRateLimit, limiterTokenBucket, rateLimiterFlexible } from './peers.ts';

/** The one list of what the memory suite compares, ours first. */
export const CANDIDATES: readonly Candidate[] = [
  tokenBucketCandidate,
  fixedWindowCandidate,
  rateLimiterFlexible,
  expressRateLimit,
  fastifyRateLimit,
  limiterTokenBucket,
];
