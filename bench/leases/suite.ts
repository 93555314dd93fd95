import { QuietSlices } from '../frame/quiet-slices.ts';
import type { Plan } from '../frame/rounds.ts';
import type { Goal, Report, SuiteOptions } from '../frame/suite.ts';
import type { Table } from '../frame/table.ts';
import type { Measured, Measurement } from '../redis/scenario.ts';
import { startServer } from '../redis/server.ts';
import { leaseId, type KeyTraffic } from '../redis/key-contenders.ts';
import { measureLeases } from '../redis/single-keys.ts';
import { LOOPS } from '../redis/turns.ts';

const FULL: Plan = { rounds: 9, sliceMs: 500 };
const QUICK: Plan = { rounds: 3, sliceMs: 200 };
const MAX_REPEATS = 40;

const TRAFFIC: readonly KeyTraffic[] = [
  {
    id: 'hot',
    title: 'one hot key with room to spare: 10,000,000 per second',
    perSecond: 10_000_000,
    keyCount: 1,
  },
  {
    id: 'flood',
    title: 'one hot key far above its limit: 1,000 per second',
    perSecond: 1000,
    keyCount: 1,
  },
];

export async function leasesSuite({ quick }: SuiteOptions): Promise<Report> {
  const plan = quick ? QUICK : FULL;
  const quiet = new QuietSlices(quick ? 0 : MAX_REPEATS);
  const server = await startServer();
  try {
    const measured: { readonly traffic: KeyTraffic; readonly results: Measured['results'] }[] = [];
    for (const traffic of TRAFFIC) {
      measured.push({ traffic, results: await measureLeases(traffic, { server, plan, quiet }) });
    }
    return {
      title: 'Leases: decisions per second, latency and calls to Redis',
      facts: [
        `redis-server ${server.version} of its own on 127.0.0.1, nothing on disk; ioredis, one process, ${LOOPS} loops of awaited checks on one key.`,
        `Medians of ${plan.rounds} rounds of ${plan.sliceMs} ms slices, interleaved, one warm-up round thrown away.`,
        quiet.summary(),
        'Each mode has a process of its own. One decision in 64 is timed.',
      ],
      tables: measured.map(({ traffic, results }) => tableOf(traffic, results)),
      goals: goalsOf(measured[0]?.results),
      disturbance: quiet.disturbance(),
    };
  } finally {
    await server.stop();
  }
}

function tableOf({ title }: KeyTraffic, results: Measured['results']): Table {
  return {
    title,
    columns: [
      { title: 'leases', align: 'left' },
      { title: 'decisions/s', align: 'right' },
      { title: 'per processor second', align: 'right' },
      { title: 'p50 us', align: 'right' },
      { title: 'p99 us', align: 'right' },
      { title: 'calls per decision', align: 'right' },
      { title: 'Redis us per decision', align: 'right' },
    ],
    rows: [...results].map(([{ name }, one]) => [
      name,
      thousands(one.perSecond),
      thousands(perProcessorSecond(one)),
      one.latencyUs.p50.toFixed(1),
      one.latencyUs.p99.toFixed(1),
      one.callsPerDecision.toPrecision(2),
      one.redis.usPerDecision.toFixed(3),
    ]),
  };
}

function perProcessorSecond({ node }: Measurement): number {
  return 1e6 / (node?.usPerDecision ?? Number.NaN);
}

function thousands(value: number): string {
  return `${(value / 1000).toFixed(0)}k`;
}

function goalsOf(results: Measured['results'] | undefined): readonly Goal[] {
  const hot = [...(results ?? [])].find(([{ id }]) => id === leaseId(true))?.[1];
  if (hot === undefined) return [];
  const { perSecond, callsPerDecision, latencyUs } = hot;
  return [
    {
      text: 'at least 1 million decisions per second and process on a hot key',
      passed: perSecond >= 1e6,
      detail: `${thousands(perSecond)}, ${thousands(perProcessorSecond(hot))} per processor second`,
    },
    {
      text: 'at most one call to Redis for 20 decisions',
      passed: callsPerDecision <= 1 / 20,
      detail: callsPerDecision.toPrecision(2),
    },
    {
      text: 'p99 of a decision below 50 us',
      passed: latencyUs.p99 < 50,
      detail: `${latencyUs.p99.toFixed(1)} us`,
    },
  ];
}
