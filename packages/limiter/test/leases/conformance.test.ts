import { describe, expect, test } from 'vitest';
import { runs } from '../../../../test/runs.ts';
import type { BucketState, CompiledBucket } from '../../src/algorithms/bucket/bucket.ts';
import type { LeasedPlan } from '../../src/stores/local/leased-plan.ts';
import { tokenBucket } from '../../src/policy.ts';
import { LeaseHolder } from '../../src/stores/local/lease-holder.ts';
import { seededRandom } from '../../src/testing/random.ts';
import { runFleet, type Fleet, type Mistakes } from './simulation.ts';

const RUNS = runs(1000);

function bucket(average: number, burst: number): LeasedPlan {
  return tokenBucket({ name: 'leased', average, burst, period: '1s' }).plan;
}

const STEADY: Fleet = {
  plan: bucket(1000, 1000),
  processes: 8,
  requestRate: 1000,
  floodFactor: 1,
  seconds: 5,
  maxCost: 1,
  lossPerMille: 5,
  crashPerMille: 0,
  returnPerMille: 0,
  pausePerMille: 0,
  maxDelayUs: 2000,
  driftPpm: 100,
  latePerMille: 0,
  isCareful: false,
};

/** Any bucket, any fleet, any network: small enough that a run takes a few milliseconds. */
function randomFleet(seed: number): Fleet {
  const random = seededRandom(seed);
  const average = random.pick([1, 3, 7, 100, 999, 1000, 4001]);
  const burst = random.pick([1, 20, 100, 400, 1000, 5000]);
  return {
    plan: bucket(average, burst),
    processes: 1 + random.below(6),
    requestRate: random.pick([20, 200, 1000]),
    floodFactor: random.pick([1, 10]),
    seconds: 2,
    maxCost: random.pick([1, 1, 3, 30]),
    lossPerMille: random.pick([0, 10, 200]),
    crashPerMille: random.pick([0, 2, 20]),
    returnPerMille: random.pick([0, 5, 50]),
    pausePerMille: random.pick([0, 10]),
    maxDelayUs: random.pick([100, 2000, 50_000, 100_000]),
    driftPpm: random.pick([0, 100, 190]),
    latePerMille: random.pick([0, 0, 100]),
    isCareful: random.pick([true, false]),
  };
}

test('one exact bucket would have admitted every admission of every fleet', { timeout: 120_000 }, () => {
  let leased = 0;
  for (let seed = 1; seed <= RUNS; seed += 1) {
    const result = runFleet(randomFleet(seed), seed);
    expect(result.refusedInReplay, `seed ${seed}`).toBe(0);
    leased += result.leasedTokens;
  }

  expect(leased).toBeGreaterThan(RUNS * 10); // leases did take part
});

describe('a mistake is noticed:', () => {
  class WithoutPassing extends LeaseHolder {
    override latestUs(): number {
      return 0;
    }
  }
  class WithStaleTime extends LeaseHolder {
    override latestUs(nowUs: number): number {
      return super.latestUs(nowUs) - 250_000;
    }
  }

  const MISTAKES: readonly (readonly [string, Mistakes])[] = [
    ['slots of the past are spent', { holder: (plan, nowUs) => new WithoutPassing(plan, nowUs) }],
    ['a time that may be early', { holder: (plan, nowUs) => new WithStaleTime(plan, nowUs) }],
    [
      'a return in full',
      {
        takeBack(state, { tokens }, plan) {
          const { tokenUnits, drainUnits } = plan.numbers as CompiledBucket;
          const { tatUs } = state as BucketState;
          return { ...state, tatUs: tatUs - Math.floor((tokens * tokenUnits) / drainUnits) };
        },
      },
    ],
    [
      'a grant above the burst',
      {
        chargeLease(state, plan, want, nowUs) {
          const numbers = plan.numbers as CompiledBucket;
          const before = state as BucketState | undefined;
          const units = want * numbers.tokenUnits;
          const tatUs = Math.max(before?.tatUs ?? 0, nowUs) + Math.ceil(units / numbers.drainUnits);
          return { tokens: want, spent: { ...numbers, tatUs, fraction: 0 }, end: { us: tatUs, fraction: 0 } };
        },
      },
    ],
  ];

  test.each(MISTAKES)('%s', (_mistake, mistakes) => {
    // Light traffic leaves the bucket full while processes hold leases; then comes a flood.
    const traffic = { requestRate: 80, floodFactor: 50, seconds: 4, maxDelayUs: 20_000 };
    const returnPerMille = mistakes.takeBack === undefined ? 0 : 40;
    const fleet = { ...STEADY, ...traffic, returnPerMille };
    const refused = [1, 2, 3, 4, 5].map((seed) => runFleet(fleet, seed, mistakes).refusedInReplay);

    expect(Math.max(...refused)).toBeGreaterThan(0);
    expect(runFleet(fleet, 1).refusedInReplay).toBe(0);
  });
});

describe('how much leases save, and what they cost', () => {
  test('a light fleet is admitted in full: 100 processes that ask every ten seconds, 6 % of the limit', () => {
    const light = { processes: 100, requestRate: 0.1, seconds: 60, lossPerMille: 0 };
    const { admitted, requests } = runFleet({ ...STEADY, ...light, plan: bucket(167, 167) }, 1);

    expect(requests).toBeGreaterThan(500);
    expect(admitted).toBe(requests);
  });

  test('a fleet at eight times the limit gets 99 % of what one bucket admits, with a call per 20 decisions', () => {
    const { admitted, centrallyAdmitted, calls, requests } = runFleet({ ...STEADY, seconds: 10 }, 1);

    expect(admitted / centrallyAdmitted).toBeGreaterThan(0.99);
    expect(calls / requests).toBeLessThan(1 / 20);
  });

  test("under 'auto' such a fleet gets all that one bucket admits, as without leases", () => {
    const fleet = { ...STEADY, seconds: 10, lossPerMille: 0, isCareful: true };
    const { admitted, centrallyAdmitted } = runFleet(fleet, 1);

    expect(admitted / centrallyAdmitted).toBeGreaterThan(0.999);
  });

  test("under 'auto' a fleet with room to spare needs a call per ten decisions", () => {
    const busy = { processes: 4, requestRate: 200, seconds: 10, lossPerMille: 0 };
    const { admitted, calls, requests } = runFleet({ ...STEADY, ...busy, isCareful: true }, 1);

    expect(admitted).toBe(requests);
    expect(calls / requests).toBeLessThan(1 / 8);
  });

  test('crashes cost what they held, and nothing has to be cleaned up', () => {
    // Every process crashes about once in two seconds.
    const fleet = { ...STEADY, requestRate: 200, crashPerMille: 2, seconds: 10 };
    const { refusedInReplay, admitted, centrallyAdmitted } = runFleet(fleet, 1);

    expect(refusedInReplay).toBe(0);
    expect(admitted / centrallyAdmitted).toBeGreaterThan(0.95);
  });
});
