import type { Definition } from './model.ts';
import { add, ceil, floor, multiply, rational, smaller, subtract, type Rational } from './rational.ts';

export interface TokenBucketNumbers {
  readonly average: number;
  readonly burst: number;
  readonly periodUs: number;
}

/** The fill level right after the latest admission. */
interface Level {
  readonly tokens: Rational;
  readonly atUs: number;
}

/**
 * A bucket that holds `burst` tokens and gains `average / periodUs` of a token every microsecond until it
 * is full. Seen from a clock that stepped back, the tokens gained since then are not there yet.
 */
export function tokenBucket({ average, burst, periodUs }: TokenBucketNumbers): Definition<Level> {
  const full = rational(burst);
  const perUs = rational(average, periodUs);
  const tokens = (level: Level | undefined, nowUs: number): Rational =>
    level === undefined ? full : smaller(full, add(level.tokens, multiply(perUs, nowUs - level.atUs)));

  return {
    limit: burst,
    fits: (level, cost, nowUs) => BigInt(cost) <= floor(tokens(level, nowUs)),
    available: (level, nowUs) => Math.max(0, Number(floor(tokens(level, nowUs)))),
    delayUs: () => 0,
    admit: (level, cost, nowUs) => ({
      tokens: subtract(tokens(level, nowUs), rational(cost)),
      atUs: nowUs,
    }),
    horizonUs(level) {
      const missing = subtract(full, level.tokens);
      const refillUs = rational(missing.numerator * BigInt(periodUs), missing.denominator * BigInt(average));
      return level.atUs + Number(ceil(refillUs));
    },
    mostBetween: (fromUs, toUs) => floor(add(full, multiply(perUs, toUs - fromUs))),
  };
}
