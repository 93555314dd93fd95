// A fleet under faults, in every topology of Redis: nothing is admitted beyond what the documents promise.
// SPILLGATE_MINUTES: how long, 10 if it is not set. SPILLGATE_SEED: repeats a run.
// SPILLGATE_SETUP: only these topologies, such as `single,shards`.
// Much of an episode is waiting, so a fleet of each failure policy runs at once, on servers of its own.
import { writeFileSync } from 'node:fs';
import { afterAll, describe, test } from 'vitest';
import { seededRandom } from '../../packages/limiter/src/testing/random.ts';
import { runEpisode, type EpisodeResult } from './episode.ts';
import { TortureFleet } from './fleet.ts';
import { describeFault, randomPlan, shrink, type Plan } from './plan.ts';
import { SETUPS, type TortureSetup } from './setups.ts';
import { tableOf } from './table.ts';

const MINUTES = Number(process.env['SPILLGATE_MINUTES'] ?? 10);
const SEED = Number(process.env['SPILLGATE_SEED'] ?? Date.now() % 1_000_000);
const ONLY = process.env['SPILLGATE_SETUP']?.split(',');
const FAILURE_POLICIES = ['failClosed', 'inMemoryFallback'] as const;
const chosen = Object.entries(SETUPS).filter(([name]) => ONLY === undefined || ONLY.includes(name));
const EACH_MS = (MINUTES * 60_000) / chosen.length;
const results: EpisodeResult[] = [];

// Who ends the run does not wait for the episode. What it has started ends with this process.
process.once('disconnect', () => process.exit(1));

afterAll(() => {
  const table = tableOf(results);
  process.stdout.write(`\nseed ${SEED}\n\n${table}\n`);
  const file = process.env['SPILLGATE_TABLE'];
  if (file !== undefined) writeFileSync(file, `${table}\n`);
});

describe.each(chosen)('%s', (name, open) => {
  test.concurrent.for(FAILURE_POLICIES)(
    '%s admits what is promised',
    { timeout: EACH_MS + 600_000 },
    async (failurePolicy, { expect }) => {
      const setup = await open();
      const fleet = await TortureFleet.start(setup, failurePolicy);
      const run = async (plan: Plan): Promise<EpisodeResult> => runEpisode(fleet, setup, plan, failurePolicy);
      try {
        const found = await torture(setup, run, progressOf(`${name}, ${failurePolicy}`));
        expect(found).toBeUndefined();
      } finally {
        await fleet.stop();
        await setup.stop();
      }
    },
  );
});

/** Episode after episode; what went wrong, with the shortest list of faults that shows it. */
async function torture(
  setup: TortureSetup,
  run: (plan: Plan) => Promise<EpisodeResult>,
  tell: (result: EpisodeResult, note: string) => void,
): Promise<string | undefined> {
  const random = seededRandom(SEED);
  const endsAtMs = performance.now() + EACH_MS;
  for (let episode = 0; performance.now() < endsAtMs; episode += 1) {
    const result = await run(randomPlan(SEED + episode, random, setup.kinds));
    results.push(result);
    tell(result, `${Math.max(0, Math.round((endsAtMs - performance.now()) / 1000))} s left`);
    if (result.violations.length === 0) continue;
    const { plan } = result;
    const shortest = await shrink(plan, async (shorter) => {
      const again = await run(shorter);
      tell(again, 'looking for fewer faults');
      return again.violations.length > 0;
    });
    return [...result.violations, 'with', ...shortest.faults.map(describeFault)].join('\n');
  }
  return undefined;
}

/** One line per episode. */
function progressOf(title: string): (result: EpisodeResult, note: string) => void {
  let episodes = 0;
  return ({ plan, violations }, note) => {
    episodes += 1;
    const found = violations.length === 0 ? 'as promised' : violations.join('; ');
    const faults = plan.faults.map(({ kind }) => kind).join(', ');
    process.stdout.write(`${title}, episode ${episodes}: ${faults}: ${found} (${note})\n`);
  };
}
