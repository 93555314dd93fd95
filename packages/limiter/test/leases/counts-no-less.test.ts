// Why leases admit nothing extra, step by step: what the store counts for a lease is at every later moment no less than
// what it would count if each admission had been decided by itself, when it happened.
import { describe, expect, test } from 'vitest';
import { runs } from '../../../../test/runs.ts';
import type { AnyState } from '../../src/algorithms/algorithm.ts';
import { fixedWindow, slidingWindowCounter, slidingWindowLog, tokenBucket } from '../../src/policy.ts';
import { chargeLease } from '../../src/stores/local/lease-grant.ts';
import { leasesOf, type LeasedPlan } from '../../src/stores/local/leased-plan.ts';
import { seededRandom, type Random } from '../../src/testing/random.ts';

const RUNS = runs(10_000);
const START_US = 1_000_000_000_000;
const WINDOW_US = 1_000_000;

const ALGORITHMS: readonly (readonly [string, (quota: number) => LeasedPlan])[] = [
  ['token bucket', (burst) => tokenBucket({ name: 'leased', average: burst, burst, period: '1s' }).plan],
  ['fixed window', (quota) => fixedWindow({ name: 'leased', quota, window: '1s', offset: '30ms' }).plan],
  ['sliding window counter', (quota) => slidingWindowCounter({ name: 'leased', quota, window: '1s' }).plan],
  ['sliding window log', (quota) => slidingWindowLog({ name: 'leased', quota, window: '1s' }).plan],
];

describe.each(ALGORITHMS)('a lease of a %s', (_name, planOf) => {
  test('counts no less than what is admitted from it, also when the rest is given back', () => {
    const random = seededRandom(7);
    let late = 0;
    let returned = 0;
    for (let run = 0; run < RUNS; run += 1) {
      const plan = planOf(random.pick([3, 40, 999, 2500]));
      const { algorithm, numbers } = plan;
      const grantedUs = START_US + random.below(3 * WINDOW_US);
      const before = usedState(plan, random, grantedUs);
      const charged = chargeLease(before, plan, 1 + random.below(plan.numbers.limit), grantedUs);
      if (charged === undefined) continue;
      const operations = leasesOf(plan);
      const lease = operations.hold(numbers, charged);

      const lastUs = charged.end.us - random.pick([0, WINDOW_US]);
      const usedUs = random.pick([
        grantedUs + random.below(random.pick([1000, 30_000, WINDOW_US])),
        ...[lastUs - 1, lastUs].filter((atUs) => atUs >= grantedUs),
      ]);
      const used = random.below(lease.remaining(usedUs) + 1);
      const isSpent = used === 0 || lease.spend(used, usedUs);
      const direct = algorithm.decide(before, numbers, used, usedUs);

      expect([isSpent, direct.allowed], `run ${run}`).toEqual([true, true]);
      // Others spend something before the rest is given back, of which nothing is said here.
      const othersUs = usedUs + random.below(random.pick([1, 30_000, WINDOW_US, 2 * WINDOW_US]));
      const others = random.below(2) * random.below(room(plan, charged.spent, othersUs) + 1);
      const kept = spentBy(plan, charged.spent, others, othersUs);
      const exact = spentBy(plan, direct.spent ?? before, others, othersUs);
      const left = operations.takeBack(kept, numbers, lease.rest, othersUs);
      for (const laterUs of [0, 1, 30_000, WINDOW_US / 2, WINDOW_US - 20_000, WINDOW_US - 1, WINDOW_US]) {
        const atUs = othersUs + random.below(laterUs + 1);
        const least = room(plan, exact, atUs);
        expect(room(plan, kept, atUs), `run ${run}, the lease`).toBeLessThanOrEqual(least);
        expect(room(plan, left, atUs), `run ${run}, given back`).toBeLessThanOrEqual(least);
      }
      if (used > 0 && usedUs > grantedUs) late += 1;
      if (left !== kept) returned += 1;
    }

    expect(Math.min(late, returned)).toBeGreaterThan(RUNS / 20);
  });
});

/** The state after an admission of this cost. */
function spentBy<State extends AnyState | undefined>(
  { algorithm, numbers }: LeasedPlan,
  state: State,
  cost: number,
  atUs: number,
): AnyState | State {
  return algorithm.decide(state, numbers, cost, atUs).spent ?? state;
}

/** What a few decisions of the last moments have left. */
function usedState(
  { algorithm, numbers }: LeasedPlan,
  random: Random,
  untilUs: number,
): AnyState | undefined {
  let state: AnyState | undefined;
  let atUs = untilUs - random.below(2 * WINDOW_US);
  for (let step = random.below(6); step > 0 && atUs < untilUs; step -= 1) {
    const cost = 1 + random.below(Math.ceil(numbers.limit / 3));
    state = algorithm.decide(state, numbers, cost, atUs).spent ?? state;
    atUs += random.below(WINDOW_US / 2);
  }
  return state;
}

function room({ algorithm, numbers }: LeasedPlan, state: AnyState | undefined, atUs: number): number {
  return algorithm.decide(state, numbers, 0, atUs).remaining;
}
