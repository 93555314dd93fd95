// What a process may decide without asking Redis: leases on keys that are asked for often, and a flood that is denied.
import { progress } from '../frame/progress.ts';
import type { Plan } from '../frame/rounds.ts';
import { AskerProcess } from './asker-process.ts';
import { KEY_PEERS, LEASE_MODES, leaseId, type KeyTraffic } from './key-contenders.ts';
import { rateLimiterFlexibleBlocking } from './peers.ts';
import { measureEntries, type Entrant, type Entry, type Measured, type Run } from './scenario.ts';
import { LOOPS } from './turns.ts';

/** Never reached, and refilled at once: a bucket with room to spare. */
const AMPLE_PER_SECOND = 10_000_000;
const FLOODED_PER_SECOND = 100;
const SPREAD_KEYS = 20;
/** A process leases once it has seen what is asked for. */
const LEAST_SLICE_MS = 400;
/** A flood is judged by the second, and takes long: fewer rounds have to do. */
const FLOOD_SLICE_MS = 1000;
const MOST_FLOOD_ROUNDS = 5;

const TRAFFIC: readonly KeyTraffic[] = [
  {
    id: 'hot',
    title: `one hot key, ${AMPLE_PER_SECOND.toLocaleString('en-US')} per second`,
    perSecond: AMPLE_PER_SECOND,
    keyCount: 1,
  },
  {
    id: 'spread',
    title: `${SPREAD_KEYS} keys, ${AMPLE_PER_SECOND.toLocaleString('en-US')} per second each`,
    perSecond: AMPLE_PER_SECOND,
    keyCount: SPREAD_KEYS,
  },
  {
    id: 'flood',
    title: `a flood on one key that admits ${FLOODED_PER_SECOND} per second`,
    perSecond: FLOODED_PER_SECOND,
    keyCount: 1,
  },
];

export interface KeyResults {
  readonly traffic: KeyTraffic;
  readonly results: Measured['results'];
}

export async function measureSingleKeys(run: Run): Promise<readonly KeyResults[]> {
  const measured: KeyResults[] = [];
  for (const traffic of TRAFFIC) {
    const peers = traffic.id === 'flood' ? [...KEY_PEERS, rateLimiterFlexibleBlocking] : KEY_PEERS;
    const plan = planFor(traffic, run.plan);
    progress(`${traffic.title}: ${plan.rounds} rounds`);
    const entrants = [...OURS, ...peers.map(({ id, name }): Entrant => ({ id, name, role: 'peer' }))];
    measured.push({ traffic, results: await measureEntrants(entrants, traffic, { ...run, plan }) });
  }
  return measured;
}

/** Only ours, with each mode. */
export async function measureLeases(traffic: KeyTraffic, run: Run): Promise<Measured['results']> {
  return measureEntrants(OURS, traffic, run);
}

const OURS: readonly Entrant[] = LEASE_MODES.map((mode) => ({
  id: leaseId(mode),
  name: mode === false ? 'Spillgate, no leases' : `Spillgate, leases: ${mode}`,
  role: 'ours',
}));

function planFor({ id }: KeyTraffic, { rounds, sliceMs }: Plan): Plan {
  return id === 'flood'
    ? { rounds: Math.min(rounds, MOST_FLOOD_ROUNDS), sliceMs: FLOOD_SLICE_MS }
    : { rounds, sliceMs: Math.max(sliceMs, LEAST_SLICE_MS) };
}

async function measureEntrants(
  entrants: readonly Entrant[],
  traffic: KeyTraffic,
  run: Run,
): Promise<Measured['results']> {
  const opened = [];
  for (const entrant of entrants) {
    const asker = await AskerProcess.open({ kind: 'keys', id: entrant.id, traffic }, run.server.port);
    opened.push({ entrant, asker });
  }
  const entries = opened.map(({ entrant, asker }): Entry => ({
    entrant,
    ask: (budgetMs) => asker.ask({ workload: 'hot', arrival: 'steady', inFlight: LOOPS, budgetMs }),
  }));
  const results = await measureEntries(entries, run);
  await Promise.all(opened.map(({ asker }) => asker.close()));
  return results;
}
