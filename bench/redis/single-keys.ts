// What a process may decide without asking Redis: leases on keys that are asked for often, and a flood that is denied.
import { tokenBucket, type LeaseMode } from 'spillgate';

import type { Awaitable } from '../frame/awaitable.ts';
import { Keys, uniform } from '../frame/keys.ts';
import { progress } from '../frame/progress.ts';
import type { Plan } from '../frame/rounds.ts';
import { openIoredis } from './connections.ts';
import { awaitableOf, limiterOn } from './ours.ts';
import {
  fastifyRateLimit,
  rateLimiterFlexible,
  rateLimiterFlexibleBlocking,
  rateLimitRedis,
} from './peers.ts';
import type { Peer } from './peers.ts';
import { measureEntries, type Entrant, type Entry, type Measured, type Run } from './scenario.ts';
import { TurnLoad } from './turns.ts';

/** Never reached, and refilled at once: a bucket with room to spare. */
const AMPLE_PER_SECOND = 10_000_000;
const FLOODED_PER_SECOND = 100;
const SPREAD_KEYS = 20;
/** A process leases once it has seen what is asked for. */
const LEAST_SLICE_MS = 400;
/** A flood is judged by the second, and takes long: fewer rounds have to do. */
const FLOOD_SLICE_MS = 1000;
const MOST_FLOOD_ROUNDS = 5;

export interface KeyTraffic {
  readonly id: 'hot' | 'spread' | 'flood';
  readonly title: string;
  /** Requests per second that the policy admits. */
  readonly perSecond: number;
  /** Called once per contender: each starts the order anew. */
  readonly keys: () => () => string;
}

const hotKey = (): (() => string) => () => 'hot';

const TRAFFIC: readonly KeyTraffic[] = [
  {
    id: 'hot',
    title: `one hot key, ${AMPLE_PER_SECOND.toLocaleString('en-US')} per second`,
    perSecond: AMPLE_PER_SECOND,
    keys: hotKey,
  },
  {
    id: 'spread',
    title: `${SPREAD_KEYS} keys, ${AMPLE_PER_SECOND.toLocaleString('en-US')} per second each`,
    perSecond: AMPLE_PER_SECOND,
    keys: () => {
      const keys = new Keys(uniform(SPREAD_KEYS));
      return () => keys.next();
    },
  },
  {
    id: 'flood',
    title: `a flood on one key that admits ${FLOODED_PER_SECOND} per second`,
    perSecond: FLOODED_PER_SECOND,
    keys: hotKey,
  },
];

const LEASE_MODES: readonly LeaseMode[] = [false, true, 'auto'];
const PEERS: readonly Peer[] = [rateLimiterFlexible, rateLimitRedis, fastifyRateLimit];

export interface KeyResults {
  readonly traffic: KeyTraffic;
  readonly results: Measured['results'];
}

export async function measureSingleKeys(run: Run): Promise<readonly KeyResults[]> {
  const measured: KeyResults[] = [];
  for (const traffic of TRAFFIC) {
    const peers = traffic.id === 'flood' ? [...PEERS, rateLimiterFlexibleBlocking] : PEERS;
    const plan = planFor(traffic, run.plan);
    progress(`${traffic.title}: ${plan.rounds} rounds`);
    const opened = [
      ...LEASE_MODES.map((mode) => openOurs(run.server.port, traffic, mode)),
      ...peers.map((peer) => openPeer(run.server.port, traffic, peer)),
    ];
    measured.push({ traffic, results: await measureOpened(opened, traffic, { ...run, plan }) });
  }
  return measured;
}

/** Only ours, with each mode. */
export async function measureLeases(traffic: KeyTraffic, run: Run): Promise<Measured['results']> {
  const opened = LEASE_MODES.map((mode) => openOurs(run.server.port, traffic, mode));
  return measureOpened(opened, traffic, run);
}

export function leaseId(mode: LeaseMode): string {
  return `leases-${mode}`;
}

function planFor({ id }: KeyTraffic, { rounds, sliceMs }: Plan): Plan {
  return id === 'flood'
    ? { rounds: Math.min(rounds, MOST_FLOOD_ROUNDS), sliceMs: FLOOD_SLICE_MS }
    : { rounds, sliceMs: Math.max(sliceMs, LEAST_SLICE_MS) };
}

interface OpenedKeys {
  readonly entrant: Entrant;
  readonly awaitable: Awaitable;
  readonly close: () => Promise<void>;
}

async function measureOpened(
  opened: readonly OpenedKeys[],
  { keys }: KeyTraffic,
  run: Run,
): Promise<Measured['results']> {
  const entries = opened.map(({ entrant, awaitable }): Entry => {
    const load = new TurnLoad(awaitable, keys());
    return { entrant, ask: (budgetMs) => load.run(budgetMs) };
  });
  const results = await measureEntries(entries, run);
  await Promise.all(opened.map(({ close }) => close()));
  return results;
}

function openOurs(port: number, { id, perSecond }: KeyTraffic, mode: LeaseMode): OpenedKeys {
  const client = openIoredis(port);
  const limiter = limiterOn(client);
  const numbers = { average: perSecond, burst: perSecond, period: '1s' } as const;
  const policy = tokenBucket({ name: `${id}-${mode}`, ...numbers, leases: mode });
  const name = mode === false ? 'Spillgate, no leases' : `Spillgate, leases: ${mode}`;
  return {
    entrant: { id: leaseId(mode), name, role: 'ours' },
    awaitable: awaitableOf(limiter, policy),
    close: async () => {
      await limiter.close();
      client.disconnect();
    },
  };
}

function openPeer(port: number, { perSecond }: KeyTraffic, peer: Peer): OpenedKeys {
  const { name, id } = peer;
  return { entrant: { id, name, role: 'peer' }, ...peer.openWindow(port, { limit: perSecond, seconds: 1 }) };
}
