// Slots of a fleet whose store goes away and comes back at random: never more in flight than docs/concurrency.md says.
import { expect, test } from 'vitest';
import { concurrency, type Slot } from '../../../src/index.ts';
import { simulatedFleet } from '../../../src/simulate/index.ts';
import { seededRandom } from '../../../src/testing/index.ts';
import { runs } from '../../../../../test/runs.ts';

const FLEETS = runs(200);
const STEPS = 300;
/** In virtual time, which no renewal sees: longer than all steps together. */
const HOLD = '1h';
const STEP_MS = 1000;

interface InFlight {
  readonly slot: Slot;
  readonly local: boolean;
}

test.each(Array.from({ length: FLEETS }, (_, at) => at + 1))('fleet %i', async (seed) => {
  const random = seededRandom(seed);
  const instances = 1 + random.below(6);
  const limit = 1 + random.below(12);
  const failurePolicy = random.pick(['inMemoryFallback', 'inMemoryFallback', 'failClosed'] as const);
  const policy = concurrency({ name: 'in-flight', limit, hold: HOLD });
  let isAway = false;
  const { limiters, advanceTo } = simulatedFleet({ instances, failurePolicy, outages: () => isAway });
  const bound = failurePolicy === 'failClosed' ? limit : limit + Math.max(limit, instances);
  const inFlight: InFlight[] = [];
  let nowMs = Date.UTC(2026, 10, 18);

  for (let step = 0; step < STEPS; step += 1) {
    nowMs += random.below(STEP_MS);
    advanceTo(nowMs);
    if (random.below(20) === 0) isAway = !isAway;
    if (random.below(5) < 3) {
      const slot = await random.pick(limiters).acquire(policy.for('ann'));
      if (slot.allowed) inFlight.push({ slot, local: slot.decision.degraded });
    } else if (inFlight.length > 0) {
      const [ended] = inFlight.splice(random.below(inFlight.length), 1);
      await ended?.slot.release();
    }

    expect(inFlight.length).toBeLessThanOrEqual(bound);
    expect(inFlight.filter(({ local }) => !local).length).toBeLessThanOrEqual(limit);
    expect(inFlight.filter(({ local }) => local).length).toBeLessThanOrEqual(Math.max(limit, instances));
  }

  isAway = false;
  for (const { slot } of inFlight) await slot.release();
  // What was released while the store was away is free when its hold is over.
  advanceTo(nowMs + 3_600_000);
  expect((await limiters[0]?.peek(policy.for('ann')))?.remaining).toBe(limit);
  for (const limiter of limiters) await limiter.close();
});

test('the bound is reached: it promises no more than is true', async () => {
  let isAway = false;
  const policy = concurrency({ name: 'in-flight', limit: 4, hold: HOLD });
  const { limiters } = simulatedFleet({ instances: 2, outages: () => isAway });
  const taken = async (): Promise<number> => {
    let count = 0;
    for (const limiter of limiters) {
      for (let at = 0; at < 10; at += 1) count += (await limiter.acquire(policy.for('ann'))).allowed ? 1 : 0;
    }
    return count;
  };

  const fromStore = await taken();
  isAway = true;
  const fromFallback = await taken();

  expect([fromStore, fromFallback]).toEqual([4, 4]);
});
