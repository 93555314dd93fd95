import { Keys, type Order } from '../frame/keys.ts';
import type { QuietSlices } from '../frame/quiet-slices.ts';
import { interleave, type Contender, type Plan } from '../frame/rounds.ts';
import type { Candidate, Subject } from './candidate.ts';
import type { Decisions, Loops } from './loops.ts';

export type Outcome = 'allowed' | 'denied';
export type Distribution = 'one key' | 'uniform' | 'zipf';

export interface Scenario {
  readonly keyCount: number;
  readonly distribution: Distribution;
  readonly outcome: Outcome;
}

export interface Opened {
  readonly candidate: Candidate;
  readonly subject: Subject;
}

/** Nanoseconds per decision, key generation included. */
export interface Measured {
  readonly scenario: Scenario;
  readonly generatorNs: number;
  readonly syncNs: ReadonlyMap<Candidate, number>;
  readonly awaitedNs: ReadonlyMap<Candidate, number>;
}

interface Entry {
  readonly candidate: Candidate;
  readonly kind: 'sync' | 'awaited';
  readonly contender: Contender;
}

/** How all scenarios of one run are measured. */
export interface MemoryRun {
  readonly plan: Plan;
  readonly quiet: QuietSlices;
}

const GENERATOR = 'generator';

export function formatKeys(keyCount: number): string {
  return keyCount === 1 ? '1 key' : `${keyCount.toLocaleString('en-US')} keys`;
}

export async function measureScenario(
  scenario: Scenario,
  opened: readonly Opened[],
  order: Order,
  { plan, quiet }: MemoryRun,
): Promise<Measured> {
  const keys = new Keys(order);
  const entries = await Promise.all(opened.flatMap((one) => entriesOf(one, scenario.outcome, keys)));
  const generator = await generatorContender(keys);
  const contenders = [generator, ...entries.map(({ contender }) => contender)];
  const medians = await interleave(
    contenders.map(({ id, slice }) => ({
      id,
      // Nothing but this process is measured.
      slice: async (budgetMs: number) =>
        quiet.run(
          async () => slice(budgetMs),
          () => 0,
        ),
    })),
    plan,
  );
  const pick = (kind: Entry['kind']): ReadonlyMap<Candidate, number> =>
    new Map(
      entries
        .filter((entry) => entry.kind === kind)
        .map(({ candidate, contender }) => [candidate, medians.get(contender.id) ?? Number.NaN]),
    );
  return {
    scenario,
    generatorNs: medians.get(GENERATOR) ?? Number.NaN,
    syncNs: pick('sync'),
    awaitedNs: pick('awaited'),
  };
}

function entriesOf({ candidate, subject }: Opened, outcome: Outcome, keys: Keys): readonly Promise<Entry>[] {
  const { decideSync, awaited } = subject;
  const entries: Promise<Entry>[] = [];
  if (decideSync !== undefined) entries.push(syncEntry(candidate, decideSync, outcome, keys));
  if (outcome === 'allowed' || candidate.awaitedCallWaits !== true) {
    entries.push(awaitedEntry(candidate, awaited, outcome, keys));
  }
  return entries;
}

async function syncEntry(
  candidate: Candidate,
  decide: (key: string) => boolean,
  outcome: Outcome,
  keys: Keys,
): Promise<Entry> {
  const id = `${candidate.id} sync`;
  const { decideFor } = await loadLoops(id);
  const slice = (budgetMs: number): Decisions => verified(decideFor(budgetMs, keys, decide), id, outcome);
  return { candidate, kind: 'sync', contender: { id, slice } };
}

async function awaitedEntry(
  candidate: Candidate,
  awaited: Subject['awaited'],
  outcome: Outcome,
  keys: Keys,
): Promise<Entry> {
  const id = `${candidate.id} awaited`;
  const { awaitFor } = await loadLoops(id);
  const slice = async (budgetMs: number): Promise<Decisions> =>
    verified(await awaitFor(budgetMs, keys, awaited), id, outcome);
  return { candidate, kind: 'awaited', contender: { id, slice } };
}

async function generatorContender(keys: Keys): Promise<Contender> {
  const { decideFor } = await loadLoops(GENERATOR);
  return { id: GENERATOR, slice: (budgetMs) => decideFor(budgetMs, keys, (key) => key.length > 0) };
}

/** Fast answers that are wrong answers are no measurement. */
function verified(decisions: Decisions, id: string, outcome: Outcome): Decisions {
  const { allowed, operations } = decisions;
  const expected = outcome === 'allowed' ? operations : 0;
  if (allowed !== expected) {
    throw new Error(`${id} allowed ${allowed} of ${operations} requests; expected ${expected}.`);
  }
  return decisions;
}

async function loadLoops(id: string): Promise<Loops> {
  const url = new URL('./loops.js', import.meta.url);
  // Another query is another module to Node: that is what gives each contender loops of its own.
  url.searchParams.set('contender', id);
  const loaded: unknown = await import(url.href);
  if (!isLoops(loaded)) throw new Error(`${url.href} exports no timed loops.`);
  return loaded;
}

function isLoops(loaded: unknown): loaded is Loops {
  return typeof loaded === 'object' && loaded !== null && 'decideFor' in loaded && 'awaitFor' in loaded;
}
