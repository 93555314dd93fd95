import { ALGORITHMS, type AlgorithmName } from '../../src/algorithms/index.ts';
import { LimiterError } from '../../src/errors.ts';
import * as policy from '../../src/policy.ts';
import { DEFINITIONS } from './index.ts';
import type { Random } from './random.ts';
import { subjectOf, type Subject } from './subject.ts';

const MS = 1000;
const SECOND = 1000 * MS;
const MINUTE = 60 * SECOND;
const HOUR = 60 * MINUTE;
const DAY = 24 * HOUR;

/** Spans people write, and spans that divide nothing. */
const SPANS_US: readonly number[] = [
  [1, 2, 7, 10, 997, MS, SECOND, MINUTE, HOUR, DAY, 30 * DAY],
  [999_983, 1_000_003, 86_399_999_999, 16_777_216, 333_333, 1_234_567_891],
].flat();

/** The policies of every algorithm that are known to be hard: rounding, extremes, primes. */
export function awkwardSubjects(name: AlgorithmName): readonly Subject[] {
  return AWKWARD[name]();
}

/** Any policy the public functions accept. */
export function randomSubject(name: AlgorithmName, random: Random): Subject {
  return drawAccepted(() => RANDOM[name](random));
}

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

const AWKWARD: Readonly<Record<AlgorithmName, () => readonly Subject[]>> = {
  tokenBucket: () =>
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
    ].map(([average = 1, burst = 1, periodUs = 1]) => tokenBucket(average, burst, periodUs)),
  leakyBucket: () =>
    [
      [3, SECOND, SECOND],
      [7, MINUTE, 0],
      [1, 30 * DAY, 90 * DAY],
      [5_000_000, SECOND, SECOND],
      [3, SECOND, DAY],
      [7919, 999_983, 104_729],
      [1, 1, 1],
      [999_999_937, SECOND, 1000],
      [3, SECOND, 333_333],
      [3, SECOND, 333_334],
      [28, 1, 3650 * DAY],
    ].map(([average = 1, periodUs = 1, maxDelayUs = 0]) => leakyBucket(average, periodUs, maxDelayUs)),
  fixedWindow: () =>
    [
      [1, 1, 0],
      [3, SECOND, 0],
      [7, MINUTE, 59_999_999],
      [1, 30 * DAY, 4 * DAY],
      [1_000_000_000, DAY, 1],
      [104_729, 999_983, 7919],
      [2 ** 52, HOUR, 0],
    ].map(([quota = 1, windowUs = 1, offsetUs = 0]) => fixedWindow(quota, windowUs, offsetUs)),
  slidingWindowLog: () => [
    ...[
      [1, 1],
      [3, SECOND],
      [7, MINUTE],
      [1, 30 * DAY],
      [1000, 999_983],
      [1001, SECOND],
      [2 ** 52, DAY],
      [104_729, 999_983],
    ].map(([quota = 1, windowUs = 1]) => slidingWindowLog(quota, windowUs)),
    slidingWindowLog(5, SECOND, 10),
    slidingWindowLog(5, SECOND, SECOND),
    slidingWindowLog(3, 100, 7),
    slidingWindowLog(20, 1000, 1000),
  ],
  slidingWindowCounter: () => [
    ...[
      [1, 1],
      [3, SECOND],
      [7, MINUTE],
      [1, 30 * DAY],
      [1_000_000, 30 * DAY],
      [104_729, 999_983],
      [2 ** 52, 1],
      [1_000_000_000, DAY],
      [1737, 30 * DAY],
    ].map(([quota = 1, windowUs = 1]) => slidingWindowCounter(quota, windowUs)),
    slidingWindowCounter(5, SECOND, 100_000),
    slidingWindowCounter(997, SECOND, SECOND),
    slidingWindowCounter(3, 1000, 10),
  ],
};

const RANDOM: Readonly<Record<AlgorithmName, (random: Random) => Subject>> = {
  tokenBucket: (random) => tokenBucket(random.magnitude(1, 1e9), random.magnitude(1, 1e9), anySpanUs(random)),
  leakyBucket: (random) =>
    leakyBucket(random.magnitude(1, 1e9), anySpanUs(random), random.chance(0.1) ? 0 : anySpanUs(random)),
  fixedWindow(random) {
    const windowUs = anySpanUs(random);
    return fixedWindow(random.magnitude(1, 2 ** 52), windowUs, random.integer(0, windowUs - 1));
  },
  slidingWindowLog(random) {
    const windowUs = anySpanUs(random);
    if (random.chance(0.7)) return slidingWindowLog(random.magnitude(1, 1e6), windowUs);
    return slidingWindowLog(random.magnitude(1, 100), windowUs, random.magnitude(1, windowUs));
  },
  slidingWindowCounter(random) {
    const windowUs = anySpanUs(random);
    const tickUs = random.pick([1, 10, 100, 1000]);
    if (random.chance(0.7) || windowUs % tickUs !== 0) {
      return slidingWindowCounter(random.magnitude(1, 1e6), windowUs);
    }
    return slidingWindowCounter(random.magnitude(1, 1000), windowUs, tickUs);
  },
};

function anySpanUs(random: Random): number {
  return random.chance(0.5) ? random.pick(SPANS_US) : random.magnitude(1, 30 * DAY);
}

function tokenBucket(average: number, burst: number, periodUs: number): Subject {
  const numbers = { average, burst, period: periodUs / MS };
  const { plan } = policy.tokenBucket({ name: 'p', ...numbers });
  const definition = DEFINITIONS.tokenBucket({ ...compiledRate(plan.numbers, average, periodUs), burst });
  return subjectOf({
    numbers,
    algorithm: plan.algorithm,
    compiled: plan.numbers,
    definition,
    spanUs: Math.ceil((burst / average) * periodUs),
  });
}

function leakyBucket(average: number, periodUs: number, maxDelayUs: number): Subject {
  const numbers = { average, period: periodUs / MS, maxDelay: maxDelayUs / MS };
  const { plan } = policy.leakyBucket({ name: 'p', ...numbers });
  const definition = DEFINITIONS.leakyBucket({
    ...compiledRate(plan.numbers, average, periodUs),
    maxDelayUs,
  });
  return subjectOf({
    numbers,
    algorithm: plan.algorithm,
    compiled: plan.numbers,
    definition,
    spanUs: maxDelayUs + Math.ceil(periodUs / average),
  });
}

function fixedWindow(quota: number, windowUs: number, offsetUs: number): Subject {
  const numbers = { quota, window: windowUs / MS, offset: offsetUs / MS };
  const { plan } = policy.fixedWindow({ name: 'p', ...numbers });
  const definition = DEFINITIONS.fixedWindow({ quota, windowUs, offsetUs });
  return subjectOf({
    numbers,
    algorithm: plan.algorithm,
    compiled: plan.numbers,
    definition,
    spanUs: windowUs,
  });
}

/** Without `stampUs`, with the one the public function chooses. */
function slidingWindowLog(quota: number, windowUs: number, stampUs?: number): Subject {
  const numbers = { quota, window: windowUs / MS };
  const compiled = {
    limit: quota,
    windowUs,
    stampUs: stampUs ?? numberIn(policy.slidingWindowLog({ name: 'p', ...numbers }).plan.numbers, 'stampUs'),
  };
  const definition = DEFINITIONS.slidingWindowLog({ quota, windowUs, stampUs: compiled.stampUs });
  return subjectOf({
    numbers: compiled,
    algorithm: ALGORITHMS.slidingWindowLog,
    compiled,
    definition,
    spanUs: windowUs,
  });
}

/** Without `tickUs`, with the one the public function chooses. */
function slidingWindowCounter(quota: number, windowUs: number, tickUs?: number): Subject {
  const numbers = { quota, window: windowUs / MS };
  const compiled = {
    limit: quota,
    windowUs,
    tickUs: tickUs ?? numberIn(policy.slidingWindowCounter({ name: 'p', ...numbers }).plan.numbers, 'tickUs'),
  };
  const definition = DEFINITIONS.slidingWindowCounter({ quota, windowUs, tickUs: compiled.tickUs });
  return subjectOf({
    numbers: compiled,
    algorithm: ALGORITHMS.slidingWindowCounter,
    compiled,
    definition,
    spanUs: 2 * windowUs,
  });
}

/** The rate as given, unless the policy had to round it to a slower one to keep it within 2^53. */
function compiledRate(
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
