import { tokenBucket } from '../../src/policy.ts';
import { forwardUs, toleratedStepUs, type Definition } from './model.ts';
import { anySpanUs, compiledRate, DAY, MINUTE, MS, SECOND } from './policies.ts';
import { add, ceil, floor, multiply, rational, smaller, subtract, type Rational } from './rational.ts';
import { subjectOf, type AlgorithmModel, type Subject } from './subject.ts';

interface BucketModelNumbers {
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
function define({ average, burst, periodUs }: BucketModelNumbers): Definition<Level> {
  const full = rational(burst);
  const perUs = rational(average, periodUs);
  const tokens = (level: Level | undefined, nowUs: number): Rational =>
    level === undefined ? full : smaller(full, add(level.tokens, multiply(perUs, nowUs - level.atUs)));
  const usFor = (tokensDue: Rational): Rational =>
    rational(tokensDue.numerator * BigInt(periodUs), tokensDue.denominator * BigInt(average));
  const fullAtUs = (level: Level): Rational => add(rational(level.atUs), usFor(subtract(full, level.tokens)));
  const refillUs = usFor(full);
  const toleratedUs = toleratedStepUs(Number(ceil(refillUs)));

  return {
    limit: burst,
    fits: (level, cost, nowUs) => BigInt(cost) <= floor(tokens(level, nowUs)),
    available: (level, nowUs) => Math.max(0, Number(floor(tokens(level, nowUs)))),
    delayUs: () => 0,
    admit: (level, cost, nowUs) => ({
      tokens: subtract(tokens(level, nowUs), rational(cost)),
      atUs: nowUs,
    }),
    stepBack(level, nowUs) {
      const isAhead = Number(floor(fullAtUs(level)) - ceil(refillUs)) - nowUs > toleratedUs;
      return isAhead ? { tokens: rational(0), atUs: nowUs } : undefined;
    },
    horizonUs: (level) => Number(ceil(fullAtUs(level))),
    mostBetween: (fromUs, toUs) => floor(add(full, multiply(perUs, toUs - fromUs))),
    mostAlong: (readingsUs) => floor(add(full, multiply(perUs, forwardUs(readingsUs)))),
    toleratedUs,
  };
}

export const tokenBucketModel: AlgorithmModel = {
  awkward: () =>
    [
      [3, 2, SECOND],
      [7, 7, MINUTE],
      [1, 1, 30 * DAY],
      [5_000_000, 5_000_000, SECOND],
      [5_000_000, 1, SECOND],
      [3, 1_000_000_000, SECOND],
      [10_000_000, 1_000_000_000, SECOND],
      [7919, 104_729, 999_983],
      [1, 1000, 1],
      [999_999_937, 3, SECOND],
      [1, 142, 365 * DAY],
      // As close to 2^53 as numbers may come, and past it, where the rate is rounded.
      [999_999_937, 9_007_198_253, SECOND],
      [999_999_937, 20_000_000_000, SECOND],
      [2 ** 51, 2 ** 52, 1],
    ].map(([average = 1, burst = 1, periodUs = 1]) => subject(average, burst, periodUs)),
  random: (random) => subject(random.magnitude(1, 1e9), random.magnitude(1, 1e9), anySpanUs(random)),
};

function subject(average: number, burst: number, periodUs: number): Subject {
  const numbers = { average, burst, period: periodUs / MS };
  const { plan } = tokenBucket({ name: 'p', ...numbers });
  const definition = define({ ...compiledRate(plan.numbers, average, periodUs), burst });
  return subjectOf({
    numbers,
    algorithm: plan.algorithm,
    compiled: plan.numbers,
    definition,
    spanUs: Math.ceil((burst / average) * periodUs),
  });
}
