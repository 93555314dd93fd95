// What is wrong on purpose is found within ten minutes, and shrunk to at most three faults.
import { describe, expect, test } from 'vitest';
import { seededRandom } from '../../packages/limiter/src/testing/random.ts';
import { runEpisode } from './episode.ts';
import { TortureFleet } from './fleet.ts';
import { describeFault, randomPlan, shrink, type Plan } from './plan.ts';
import { SETUPS } from './setups.ts';
import type { PlantedBug } from './worker-program.ts';

// Who ends the run does not wait for the episode. What it has started ends with this process.
process.once('disconnect', () => process.exit(1));

const SEARCH_MS = 600_000;
const SEED = Number(process.env['SPILLGATE_SEED'] ?? 1);

const SEARCHES: readonly (readonly [PlantedBug, string, 'failClosed' | 'inMemoryFallback'])[] = [
  ['fallback without share', 'single', 'inMemoryFallback'],
  ['refund in full', 'shards', 'failClosed'],
  ['lease without the clock bound', 'single', 'failClosed'],
  ['retry after timeout', 'single', 'failClosed'],
  ['lost READONLY handling', 'sentinel', 'failClosed'],
];

describe('a planted bug is found and shrunk to at most three faults', () => {
  test.each(SEARCHES)(
    '%s (%s, %s)',
    async (bug, name, failurePolicy) => {
      const setup = await SETUPS[name]?.();
      if (setup === undefined) throw new RangeError(`there is no setup ${name}`);
      const fleet = await TortureFleet.start(setup, failurePolicy, bug);
      const random = seededRandom(SEED);
      const fails = async (plan: Plan): Promise<boolean> =>
        (await runEpisode(fleet, setup, plan, failurePolicy)).violations.length > 0;
      try {
        const startedMs = performance.now();
        let plan = randomPlan(SEED, random, setup.kinds);
        let episodes = 1;
        while (!(await fails(plan)) && performance.now() - startedMs < SEARCH_MS) {
          plan = randomPlan(SEED + episodes, random, setup.kinds);
          episodes += 1;
        }
        const foundMs = performance.now() - startedMs;
        const shortest = await shrink(plan, fails);
        const story = shortest.faults.map(describeFault).join('; ');
        process.stdout.write(
          `\n${bug}: found in episode ${episodes}, shrunk to: ${story || 'no fault at all'}\n`,
        );

        expect(foundMs).toBeLessThan(SEARCH_MS);
        expect(shortest.faults.length).toBeLessThanOrEqual(3);
      } finally {
        await fleet.stop();
        await setup.stop();
      }
    },
    2 * SEARCH_MS,
  );
});
