import { describe, expect, test } from 'vitest';
import { MAX_TIME_US } from '../src/algorithms/algorithm.ts';
import { tokenBucket } from '../src/policy.ts';
import { SEED } from './model/program.ts';
import { drawAccepted, numberIn } from './model/policies.ts';
import { Random } from './model/random.ts';

const CONFIGURATIONS = 5000;
const REQUESTS = 24;
const DAY_US = 86_400_000_000;
const PERIODS_US = [
  1_000_000,
  60_000_000,
  3_600_000_000,
  DAY_US,
  1,
  997,
  333_333,
  999_983,
  7 * DAY_US,
  86_399_999_999,
];

type Policy = ReturnType<typeof tokenBucket>;

interface Configuration {
  readonly average: number;
  readonly burst: number;
  readonly periodUs: number;
  readonly policy: Policy;
  readonly label: string;
}

describe(`${CONFIGURATIONS} random whole-number token buckets, 1 per day to 5 million per second`, () => {
  const configurations = Array.from({ length: CONFIGURATIONS }, (_, at) => {
    const random = new Random(SEED + at);
    return drawAccepted(() => configure(random));
  });

  test('a cold bucket admits exactly its burst in one instant', () => {
    const wrong = configurations.filter(({ policy, burst }) => {
      const bucket = coldBucket(policy);
      const first = bucket(1, 0);
      const rest = bucket(burst - 1, 0);
      const beyond = bucket(1, 0);
      return !(
        first.allowed &&
        first.remaining === burst - 1 &&
        rest.allowed &&
        rest.remaining === 0 &&
        !beyond.allowed
      );
    });

    expect(labels(wrong)).toEqual([]);
  });

  test('no stretch of time gets more than burst + average * time / period', () => {
    const wrong = configurations.filter((configuration, at) => {
      const admissions = takeGreedily(configuration, new Random(SEED + at));
      return !staysWithin(configuration, admissions);
    });

    expect(labels(wrong)).toEqual([]);
  });

  test('a client that takes everything at each retry boundary gets all of it: nothing is lost to rounding', () => {
    // Waits are whole microseconds: a bucket that cannot hold what comes back meanwhile overflows, as it should.
    const exact = configurations.filter(
      (configuration) =>
        isExact(configuration) && configuration.average <= (configuration.burst - 1) * configuration.periodUs,
    );
    const wrong = exact.filter((configuration) => {
      const { policy, average, burst, periodUs } = configuration;
      const bucket = coldBucket(policy);
      let nowUs = 0;
      let taken = BigInt(bucket(burst, nowUs).allowed ? burst : 0);
      for (let round = 0; round < REQUESTS; round += 1) {
        nowUs += bucket(1, nowUs).retryAfterUs;
        const { remaining } = bucket(0, nowUs);
        taken += bucket(remaining, nowUs).allowed ? BigInt(remaining) : 0n;
        if (taken !== BigInt(burst) + (BigInt(average) * BigInt(nowUs)) / BigInt(periodUs)) return true;
      }
      return false;
    });

    expect(exact.length).toBeGreaterThan(CONFIGURATIONS / 2);
    expect(labels(wrong)).toEqual([]);
  });

  test('a rate that has to be rounded is never faster, and slower by at most a millionth', () => {
    const wrong = configurations.filter(({ policy, average, periodUs }) => {
      const { tokenUnits, drainUnits } = compiledRate(policy);
      // tokenUnits / drainUnits against periodUs / average, both in microseconds per token.
      const compiled = tokenUnits * BigInt(average);
      const asked = drainUnits * BigInt(periodUs);
      return compiled < asked || (compiled - asked) * 1_000_000n > asked;
    });

    expect(labels(wrong)).toEqual([]);
    expect(configurations.some((configuration) => !isExact(configuration))).toBe(true);
  });
});

/** Whole numbers over many magnitudes. */
function configure(random: Random): Configuration {
  const periodUs = random.chance(0.7) ? random.pick(PERIODS_US) : random.magnitude(1, 30 * DAY_US);
  const slowest = Math.max(1, Math.ceil(periodUs / DAY_US));
  const average = random.magnitude(slowest, Math.max(slowest, 5 * periodUs));
  const mostDrainable = Math.floor((MAX_TIME_US / periodUs) * average * 0.999);
  const burst = random.magnitude(1, Math.max(1, Math.min(1e12, mostDrainable)));
  const policy = tokenBucket({ name: 'p', average, burst, period: periodUs / 1000 });
  return {
    average,
    burst,
    periodUs,
    policy,
    label: `average ${average}, burst ${burst}, period ${periodUs} us`,
  };
}

interface Answer {
  readonly allowed: boolean;
  readonly remaining: number;
  readonly retryAfterUs: number;
}

function coldBucket({ plan }: Policy): (cost: number, nowUs: number) => Answer {
  let state: ReturnType<typeof plan.algorithm.decide>['spent'];
  return (cost, nowUs) => {
    const outcome = plan.algorithm.decide(state, plan.numbers, cost, nowUs);
    state = outcome.spent ?? state;
    return outcome;
  };
}

interface Admission {
  readonly cost: bigint;
  readonly nowUs: bigint;
}

/** Takes all there is, now and then less, at random moments and at retry boundaries. */
function takeGreedily(
  { policy, burst, average, periodUs }: Configuration,
  random: Random,
): readonly Admission[] {
  const bucket = coldBucket(policy);
  const refillUs = Math.ceil((burst / average) * periodUs);
  const admissions: Admission[] = [];
  let nowUs = 1_760_000_000_000_000;
  for (let request = 0; request < REQUESTS && nowUs <= MAX_TIME_US; request += 1) {
    const { remaining } = bucket(0, nowUs);
    const cost = Math.max(1, random.chance(0.8) ? remaining : random.integer(0, remaining));
    const { allowed, retryAfterUs } = bucket(cost, nowUs);
    if (allowed) admissions.push({ cost: BigInt(cost), nowUs: BigInt(nowUs) });
    nowUs += allowed ? random.pick([0, 1, random.magnitude(1, refillUs)]) : retryAfterUs;
  }
  return admissions;
}

function staysWithin({ average, burst, periodUs }: Configuration, admissions: readonly Admission[]): boolean {
  return admissions.every((from, at) => {
    let taken = 0n;
    return admissions.slice(at).every((to) => {
      taken += to.cost;
      // taken <= burst + average * time / period, multiplied by the period.
      return (taken - BigInt(burst)) * BigInt(periodUs) <= BigInt(average) * (to.nowUs - from.nowUs);
    });
  });
}

function isExact({ policy, average, periodUs }: Configuration): boolean {
  const { tokenUnits, drainUnits } = compiledRate(policy);
  return tokenUnits * BigInt(average) === drainUnits * BigInt(periodUs);
}

function compiledRate({ plan }: Policy): { readonly tokenUnits: bigint; readonly drainUnits: bigint } {
  return {
    tokenUnits: BigInt(numberIn(plan.numbers, 'tokenUnits')),
    drainUnits: BigInt(numberIn(plan.numbers, 'drainUnits')),
  };
}

/** The first few say enough. */
function labels(configurations: readonly Configuration[]): readonly string[] {
  return configurations.slice(0, 10).map(({ label }) => label);
}
