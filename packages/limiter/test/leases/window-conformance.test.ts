// The same fleets on windows: what they admit, one exact window admits too.
import { describe, expect, test } from 'vitest';
import { runs } from '../../../../test/runs.ts';
import { Outcome } from '../../src/algorithms/algorithm.ts';
import type { CompiledLog } from '../../src/algorithms/sliding-window-log/sliding-window-log.ts';
import { fixedWindow, slidingWindowCounter, slidingWindowLog } from '../../src/policy.ts';
import { LeaseHolder } from '../../src/stores/local/lease-holder.ts';
import type { LeasedPlan } from '../../src/stores/local/leased-plan.ts';
import { seededRandom, type Random } from '../../src/testing/random.ts';
import { runFleet, type Fleet, type Mistakes } from './simulation.ts';

const RUNS = runs(400);

type MakePlan = (quota: number, window: string) => LeasedPlan;

const WINDOWS: readonly (readonly [string, MakePlan])[] = [
  ['fixed window', (quota, window) => fixedWindow({ name: 'leased', quota, window }).plan],
  ['sliding window counter', (quota, window) => slidingWindowCounter({ name: 'leased', quota, window }).plan],
  ['sliding window log', (quota, window) => slidingWindowLog({ name: 'leased', quota, window }).plan],
];

function randomFleet(plan: LeasedPlan, random: Random): Fleet {
  return {
    plan,
    processes: 1 + random.below(6),
    requestRate: random.pick([50, 400, 1500]),
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

/** Quotas that such traffic uses up within each window, and processes that pause with a lease in their hands. */
function busyFleet(planOf: MakePlan, random: Random): Fleet {
  const windowMs = random.pick([300, 1000, 2000]);
  const processes = 1 + random.below(4);
  const requestRate = random.pick([100, 400, 1000]);
  const asked = (processes * requestRate * windowMs) / 1000;
  const quota = Math.max(330, Math.round(asked * random.pick([0.5, 0.9, 1.2])));
  return {
    ...randomFleet(planOf(quota, `${windowMs}ms`), random),
    processes,
    requestRate,
    floodFactor: random.pick([1, 2, 10]),
    seconds: Math.max(2, (windowMs * 2.2) / 1000),
    maxCost: random.pick([1, 1, 3]),
    pausePerMille: random.pick([1, 5, 20]),
    maxPauseUs: random.pick([40_000, 1_000_000]),
  };
}

const STEADY: Omit<Fleet, 'plan'> = {
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

describe.each(WINDOWS)('a %s', (_name, planOf) => {
  test('would have admitted every admission of every fleet', { timeout: 120_000 }, () => {
    let leased = 0;
    for (let seed = 1; seed <= RUNS; seed += 1) {
      const random = seededRandom(seed);
      const window = random.pick(['100ms', '333ms', '1s', '10s']);
      const plan = planOf(random.pick([20, 320, 999, 3000, 20_000]), window);
      const fleet = randomFleet(plan, random);
      const laterPlan = random.below(3) === 0 ? planOf(random.pick([10, 400, 2500]), window) : undefined;
      const result = runFleet(laterPlan === undefined ? fleet : { ...fleet, laterPlan }, seed);
      expect(result.refusedInReplay, `seed ${seed}`).toBe(0);
      leased += result.leasedTokens;
    }

    expect(leased).toBeGreaterThan(RUNS * 10); // leases did take part
  });

  test('would have admitted every admission of fleets that use it up', { timeout: 120_000 }, () => {
    let leased = 0;
    for (let seed = 1; seed <= RUNS; seed += 1) {
      const result = runFleet(busyFleet(planOf, seededRandom(seed)), seed);
      expect(result.refusedInReplay, `seed ${seed}`).toBe(0);
      leased += result.leasedTokens;
    }

    expect(leased).toBeGreaterThan(RUNS * 50); // leases did take part
  });

  test('gives a fleet at twice its limit 95 % of what it admits, whichever processes crash', () => {
    const fleet = { ...STEADY, plan: planOf(10_000, '2500ms'), seconds: 6, crashPerMille: 1 };
    const { admitted, centrallyAdmitted, leasedTokens } = runFleet(fleet, 1);

    expect(leasedTokens).toBeGreaterThan(1000);
    expect(admitted / centrallyAdmitted).toBeGreaterThan(0.95);
  });

  test('needs a call per ten decisions where it has room to spare', () => {
    const fleet = { ...STEADY, plan: planOf(60_000, '5s'), seconds: 3, lossPerMille: 0 };
    const { admitted, calls, requests } = runFleet(fleet, 1);

    expect(admitted / requests).toBeGreaterThan(0.999); // the last ones are not answered yet
    expect(calls / requests).toBeLessThan(1 / 10);
  });
});

describe('a mistake is noticed:', () => {
  class WithoutEnd extends LeaseHolder {
    override latestUs(): number {
      return 0;
    }
  }
  class WithStaleTime extends LeaseHolder {
    override latestUs(nowUs: number): number {
      return super.latestUs(nowUs) - 100_000;
    }
  }

  const LIGHT = {
    quota: 1000,
    window: '1s',
    traffic: { requestRate: 80, floodFactor: 50, seconds: 5, maxDelayUs: 20_000 },
  };
  /** A log is caught only while it is nearly full. */
  const FULL = {
    quota: 2000,
    window: '2s',
    traffic: { processes: 2, requestRate: 450, floodFactor: 10, seconds: 7, pausePerMille: 1 },
  };

  const MISTAKES: readonly (readonly [string, Mistakes])[] = [
    [
      'what was leased in one window is spent in the next',
      { holder: (plan, nowUs) => new WithoutEnd(plan, nowUs) },
    ],
    ['a time that may be early', { holder: (plan, nowUs) => new WithStaleTime(plan, nowUs) }],
    [
      'a return of what was spent',
      {
        takeBack(state, lease, { algorithm, numbers }) {
          const [, , absentAtUs] = lease.rest;
          const part = { cost: lease.tokens, atUs: 0, absentAtUs };
          return algorithm.refund?.(state, numbers, part, 0) ?? state;
        },
      },
    ],
    ['leases are kept when the numbers change', { keepsLeases: true }],
  ];

  describe.each(WINDOWS)('%s:', (name, planOf) => {
    // Light traffic leaves leases in the hands of processes; then comes a flood.
    const { quota, window, traffic } = name === 'sliding window log' ? FULL : LIGHT;

    test.each(MISTAKES)('%s', (_mistake, mistakes) => {
      const returnPerMille = mistakes.takeBack === undefined ? 0 : 20;
      const later = mistakes.keepsLeases === true ? { laterPlan: planOf(100, window) } : {};
      const fleet = { ...STEADY, ...traffic, plan: planOf(quota, window), returnPerMille, ...later };
      const refused = [1, 2, 3, 4, 5].map((seed) => runFleet(fleet, seed, mistakes).refusedInReplay);

      expect(Math.max(...refused)).toBeGreaterThan(0);
      expect(runFleet(fleet, 1).refusedInReplay).toBe(0);
    });
  });

  test('a lease is logged at its start', () => {
    const { plan } = slidingWindowLog({ name: 'leased', quota: FULL.quota, window: FULL.window });
    const mistakes: Mistakes = {
      chargeLease(state, { algorithm, numbers }, want, nowUs) {
        const { windowUs } = numbers as CompiledLog;
        const { spent } = algorithm.decide(state, numbers, want, nowUs, new Outcome());
        const us = nowUs + windowUs / 50 + windowUs;
        return spent && { tokens: want, spent, end: { us, fraction: 0 } };
      },
    };
    const fleet = { ...STEADY, ...FULL.traffic, plan };
    const refused = [1, 2, 3, 4, 5].map((seed) => runFleet(fleet, seed, mistakes).refusedInReplay);

    expect(Math.max(...refused)).toBeGreaterThan(0);
    expect(runFleet(fleet, 1).refusedInReplay).toBe(0);
  });
});
