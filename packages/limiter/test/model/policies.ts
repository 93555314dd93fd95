import { LimiterError } from '../../src/errors.ts';
import type { Random } from './random.ts';

export const MS = 1000;
export const SECOND = 1000 * MS;
export const MINUTE = 60 * SECOND;
export const HOUR = 60 * MINUTE;
export const DAY = 24 * HOUR;

/** Spans people write, and spans that divide nothing. */
const SPANS_US: readonly number[] = [
  [1, 2, 7, 10, 997, MS, SECOND, MINUTE, HOUR, DAY, 30 * DAY],
  [999_983, 1_000_003, 86_399_999_999, 16_777_216, 333_333, 1_234_567_891],
].flat();

const MAX_DRAWS = 1000;

/** Numbers that cannot be counted exactly are refused by design; draws until some are accepted. */
export function drawAccepted<Drawn>(draw: () => Drawn): Drawn {
  for (let draws = 0; draws < MAX_DRAWS; draws += 1) {
    try {
      return draw();
    } catch (error) {
      if (!(error instanceof LimiterError)) throw error;
    }
  }
  throw new Error(`none of ${MAX_DRAWS} random policies was accepted`);
}

export function anySpanUs(random: Random): number {
  return random.chance(0.5) ? random.pick(SPANS_US) : random.magnitude(1, 30 * DAY);
}

/** The rate as given, unless the policy had to round it to a slower one to keep it within 2^53. */
export function compiledRate(
  compiled: object,
  average: number,
  periodUs: number,
): { readonly average: number; readonly periodUs: number } {
  const tokenUnits = numberIn(compiled, 'tokenUnits');
  const drainUnits = numberIn(compiled, 'drainUnits');
  const isExact = BigInt(tokenUnits) * BigInt(average) === BigInt(drainUnits) * BigInt(periodUs);
  return isExact ? { average, periodUs } : { average: drainUnits, periodUs: tokenUnits };
}

export function numberIn(numbers: object, name: string): number {
  const value: unknown = Object.entries(numbers).find(([field]) => field === name)?.[1];
  if (typeof value !== 'number') throw new Error(`the compiled numbers have no ${name}`);
  return value;
}
