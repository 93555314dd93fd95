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

export interface LeaseSize {
  /** Tokens worth asking for. */
  readonly want: number;
  /** How long a lease should last, in microseconds. */
  readonly lifeUs: number;
}

const SHORT_LIFE_US = 250_000;
const LONG_LIFE_US = 1_000_000;
const AHEAD_US = 50_000;
const MIN_HOT_TOKENS = 32;
/** Fewer tokens are not worth a lease: one exact decision per request. */
export const HOT_TOKENS = 16;

/**
 * How much to lease: what this process spends until the lease is renewed, and never so much that other processes starve
 * or that most of it passes unused. `limit` is the burst, `refillPerUs` the bucket's rate.
 */
export function leaseSize(demandPerUs: number, limit: number, refillPerUs: number): LeaseSize {
  const holdsTenSeconds = limit >= refillPerUs * 10_000_000;
  const lifeUs = Math.min(holdsTenSeconds ? LONG_LIFE_US : SHORT_LIFE_US, limit / (4 * refillPerUs));
  const want = Math.min(demandPerUs * lifeUs, Math.max(MIN_HOT_TOKENS, demandPerUs * AHEAD_US), limit / 20);
  return { want: Math.max(1, Math.floor(want)), lifeUs };
}
