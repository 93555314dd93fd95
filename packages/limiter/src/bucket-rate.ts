import { MAX_TIME_US } from './algorithms/algorithm.ts';
import { LimiterError } from './errors.ts';

export interface RateRequest {
  readonly average: number;
  readonly periodUs: number;
  /** The bucket has to hold this many tokens ... */
  readonly tokens: number;
  /** ... on top of what drains in this time. */
  readonly delayUs: number;
}

export interface BucketRate {
  readonly tokenUnits: number;
  readonly drainUnits: number;
}

/** A rounded rate is slower than the policy's by at most this share. */
const MAX_ROUNDING = 1e-6;

/**
 * The rate as a fraction of whole numbers: one token weighs `tokenUnits`, of which `drainUnits` drain per microsecond.
 * Exact whenever the bucket's capacity then stays below 2^53; otherwise the nearest fraction that fits on the *slow*
 * side, so that rounding can never admit more than the policy says.
 */
export function bucketRate(request: RateRequest): BucketRate {
  requireDrainable(request);
  const divisor = gcd(request.average, request.periodUs);
  const exact = { tokenUnits: request.periodUs / divisor, drainUnits: request.average / divisor };
  if (fits(exact, request)) return exact;
  const rounded = roundSlower(exact, request);
  if (rounded === undefined) {
    throw new LimiterError(
      'INVALID_POLICY',
      `average ${request.average} per ${request.periodUs} us with a capacity of ${request.tokens} tokens cannot be kept exact below 2^53: ` +
        'use rounder numbers (an average that divides the period in microseconds, such as 1000 per second) or a smaller burst or maxDelay.',
    );
  }
  return rounded;
}

function requireDrainable({ average, periodUs, tokens, delayUs }: RateRequest): void {
  // Only a burst can get here: a queue holds one token and at most ten years of waiting.
  const drainUs = (tokens / average) * periodUs + delayUs;
  if (drainUs <= MAX_TIME_US) return;
  const years = Math.round(drainUs / (365.25 * 86_400_000_000));
  throw new LimiterError(
    'INVALID_POLICY',
    `burst is ${tokens}, which takes ${years} years to refill at ${average} per ${periodUs} us; at most 142 years (2^52 us) can be counted exactly: lower burst or raise average.`,
  );
}

function fits({ tokenUnits, drainUnits }: BucketRate, { tokens, delayUs }: RateRequest): boolean {
  const units = BigInt(tokens) * BigInt(tokenUnits) + BigInt(delayUs) * BigInt(drainUnits);
  return units + BigInt(tokenUnits) + BigInt(drainUnits) <= BigInt(Number.MAX_SAFE_INTEGER);
}

/** Shrinks both numbers by the same factor, rounding the weight of a token up. */
function roundSlower(exact: BucketRate, request: RateRequest): BucketRate | undefined {
  for (let factor = 2; factor <= exact.drainUnits; factor *= 2) {
    const drainUnits = Math.floor(exact.drainUnits / factor);
    const tokenUnits = Number(
      (BigInt(exact.tokenUnits) * BigInt(drainUnits) + BigInt(exact.drainUnits) - 1n) /
        BigInt(exact.drainUnits),
    );
    const rate = { tokenUnits, drainUnits };
    if (!fits(rate, request)) continue;
    const slowdown = (tokenUnits / drainUnits) * (exact.drainUnits / exact.tokenUnits) - 1;
    return slowdown <= MAX_ROUNDING ? rate : undefined;
  }
  return undefined;
}

function gcd(a: number, b: number): number {
  return b === 0 ? a : gcd(b, a % b);
}
