import type { Candidate } from './candidate.ts';
import { spillgateIoredis, spillgateNodeRedis } from './ours.ts';
import { fastifyRateLimit, rateLimiterFlexible, rateLimitRedis } from './peers.ts';
import { bareIoredis, bareNodeRedis, trivialIoredis } from './references.ts';

/** The one list of what the Redis suite compares, ours first. */
export const CANDIDATES: readonly Candidate[] = [
  spillgateIoredis,
  spillgateNodeRedis,
  rateLimiterFlexible,
  rateLimitRedis,
  fastifyRateLimit,
  bareIoredis,
  bareNodeRedis,
  trivialIoredis,
];
