import { MAX_TIME_US } from '../algorithm.ts';
import type { CompiledBucket } from './bucket.ts';
import { LimiterError } from '../../errors.ts';

/** What a bucket has to hold: this many tokens, on top of what drains in this time. */
export interface Capacity {
  readonly tokens: number;
  readonly delayUs: number;
}

export interface RateRequest extends Capacity {
  readonly average: number;
  readonly periodUs: number;
}

interface BucketRate {
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
export function compileBucket(request: RateRequest): CompiledBucket {
  requireDrainable(request);
  const exact = reduce(BigInt(request.periodUs), BigInt(request.average));
  const rate = nearestSlower(exact, request);
  if (rate === undefined || slowdown(rate, exact) > MAX_ROUNDING) {
    throw new LimiterError(
      'INVALID_POLICY',
      `average ${request.average} per ${request.periodUs} us with a capacity of ${request.tokens} tokens cannot be kept exact below 2^53: ` +
        'use rounder numbers (an average that divides the period in microseconds, such as 1000 per second) or a smaller burst or maxDelay.',
    );
  }
  return compiledBucket(rate, request);
}

/**
 * One of `instances` equal shares of a bucket: that part of its rate, and of its tokens, but at least one; the same
 * delay. Never fails: where a share cannot be counted exactly it is a little slower or smaller.
 */
export function divideBucket(whole: CompiledBucket, capacity: Capacity, instances: number): CompiledBucket {
  const exact = reduce(BigInt(whole.tokenUnits) * BigInt(instances), BigInt(whole.drainUnits));
  const { delayUs } = capacity;
  const tokens = Math.max(1, Math.floor(capacity.tokens / instances));
  if (fits(exact, { tokens, delayUs })) return compiledBucket(toRate(exact), { tokens, delayUs });
  // With one token less, several always fit: they weigh no more than all tokens of the whole.
  const fewer = { tokens: Math.max(1, tokens - 1), delayUs };
  return compiledBucket(nearestSlower(exact, fewer) ?? SLOWEST_RATE, fewer);
}

/**
 * For a token that would take longer than this, 134 years: as a clock that counts from 1970 ends in 2112, no second
 * ever comes.
 */
const SLOWEST_RATE: BucketRate = { tokenUnits: MAX_TIME_US - 2 ** 48, drainUnits: 1 };

function compiledBucket(rate: BucketRate, { tokens, delayUs }: Capacity): CompiledBucket {
  const { tokenUnits, drainUnits } = rate;
  const capacityUnits = tokens * tokenUnits + delayUs * drainUnits;
  return { limit: Math.floor(capacityUnits / tokenUnits), tokenUnits, drainUnits, capacityUnits };
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

/** A rate as it is, whatever its size. */
interface ExactRate {
  readonly tokenUnits: bigint;
  readonly drainUnits: bigint;
}

function reduce(tokenUnits: bigint, drainUnits: bigint): ExactRate {
  const divisor = gcd(tokenUnits, drainUnits);
  return { tokenUnits: tokenUnits / divisor, drainUnits: drainUnits / divisor };
}

function gcd(a: bigint, b: bigint): bigint {
  return b === 0n ? a : gcd(b, a % b);
}

/** The rate itself if it fits, else both numbers shrunk by the same factor, with the weight of a token rounded up. */
function nearestSlower(exact: ExactRate, capacity: Capacity): BucketRate | undefined {
  for (let factor = 1n; factor <= exact.drainUnits; factor *= 2n) {
    const drainUnits = exact.drainUnits / factor;
    const tokenUnits = (exact.tokenUnits * drainUnits + exact.drainUnits - 1n) / exact.drainUnits;
    const rate = { tokenUnits, drainUnits };
    if (fits(rate, capacity)) return toRate(rate);
  }
  return undefined;
}

function fits({ tokenUnits, drainUnits }: ExactRate, { tokens, delayUs }: Capacity): boolean {
  const units = BigInt(tokens) * tokenUnits + BigInt(delayUs) * drainUnits;
  return units + tokenUnits + drainUnits <= BigInt(Number.MAX_SAFE_INTEGER);
}

function toRate({ tokenUnits, drainUnits }: ExactRate): BucketRate {
  return { tokenUnits: Number(tokenUnits), drainUnits: Number(drainUnits) };
}

function slowdown(rate: BucketRate, exact: ExactRate): number {
  return (rate.tokenUnits / rate.drainUnits) * (Number(exact.drainUnits) / Number(exact.tokenUnits)) - 1;
}
