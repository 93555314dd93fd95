import type { LeasePace } from '../../algorithms/lease.ts';

/** How quickly the estimate forgets, in microseconds. */
const DECAY_US = 500_000;

/**
 * How many tokens per microsecond a process asks of one key, decayed over half a second. An estimate from the time
 * between two requests would take two requests at once for a flood.
 */
export class Demand {
  private tokens = 0;
  private atUs: number;

  constructor(nowUs: number) {
    this.atUs = nowUs;
  }

  note(cost: number, nowUs: number): void {
    this.decayTo(nowUs);
    this.tokens += cost;
  }

  /** Tokens per microsecond. */
  rateAt(nowUs: number): number {
    this.decayTo(nowUs);
    return this.tokens / DECAY_US;
  }

  private decayTo(nowUs: number): void {
    const elapsedUs = nowUs - this.atUs;
    if (elapsedUs <= 0) return;
    this.tokens *= Math.exp(-elapsedUs / DECAY_US);
    this.atUs = nowUs;
  }
}

/** The limit that is leased from: its burst or quota, and its pace. */
export interface LeasedLimit extends LeasePace {
  readonly limit: number;
  /** Whether what is leased passes by itself. */
  readonly passes: boolean;
}

export interface LeaseSize {
  /** Tokens to ask for; 0 where a lease is not worth it: one exact decision per request. */
  readonly want: number;
  /** How long a lease should last, in microseconds. */
  readonly lifeUs: number;
  /** How many tokens pass in a microsecond, used or not. */
  readonly passPerUs: number;
}

const SHORT_LIFE_US = 250_000;
const LONG_LIFE_US = 1_000_000;
const AHEAD_US = 50_000;
const MIN_WANTED = 32;
/** A process that does not ask for so many within the life of a lease has no busy key. */
const HOT_TOKENS = 16;
/** A lease of which fewer are used before they pass costs nearly as many calls as it saves. */
const MIN_USED = 4;
/** A process never holds more than this part of a burst. */
export const LEASED_PART = 20;
/** What the store adds to what is asked for while most of the burst is left: lease-grant.ts. */
export const RICH_FACTOR = 4;

/** Nobody runs short of a bucket's tokens: the slots of a lease begin now, and pass at the rate of the bucket. */
export function isRich({ limit, passes }: Pick<LeasedLimit, 'limit' | 'passes'>, left: number): boolean {
  return passes && left * 4 >= limit * 3;
}

/**
 * How much to lease: what this process spends until the lease is renewed, and never so much that other processes starve
 * or that most of it passes unused. `left`: what the store had when it was last asked.
 */
export function leaseSize(demandPerUs: number, leased: LeasedLimit, left: number): LeaseSize {
  const { limit, refillPerUs, longestUs } = leased;
  const holdsTenSeconds = limit >= refillPerUs * 10_000_000;
  const lifeUs = Math.min(holdsTenSeconds ? LONG_LIFE_US : SHORT_LIFE_US, longestUs);
  const spent = Math.min(
    demandPerUs * lifeUs,
    Math.max(MIN_WANTED, demandPerUs * AHEAD_US),
    limit / LEASED_PART,
  );
  if (spent < HOT_TOKENS) return { want: 0, lifeUs, passPerUs: 0 };
  if (!isRich(leased, left)) return { want: Math.floor(spent), lifeUs, passPerUs: demandPerUs };
  const slots = Math.min(limit / LEASED_PART, refillPerUs * lifeUs);
  if (Math.max(spent, slots) * demandPerUs < MIN_USED * refillPerUs) return { want: 0, lifeUs, passPerUs: 0 };
  const want = Math.floor(Math.max(spent, slots / RICH_FACTOR));
  return { want, lifeUs, passPerUs: Math.max(demandPerUs, refillPerUs) };
}
