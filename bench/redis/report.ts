import type { QuietSlices } from '../frame/quiet-slices.ts';
import type { Plan } from '../frame/rounds.ts';
import type { Report } from '../frame/suite.ts';
import type { Column, Table } from '../frame/table.ts';
import { redisCharts, type ChartedResults } from './charts.ts';
import type { Footprint } from './footprint.ts';
import { redisGoals } from './goals.ts';
import { keyGoals } from './key-goals.ts';
import type { Entrant, Measured, Measurement, ProcessorUse, Section } from './scenario.ts';
import type { KeyResults } from './single-keys.ts';
import { LOOPS } from './turns.ts';

export interface Results extends ChartedResults {
  /** One list per kind of traffic, each in every number in flight; the first is what the goals are about. */
  readonly sections: readonly Section[];
  readonly footprints: readonly Footprint[];
  readonly footprintKeys: number;
  readonly redisVersion: string;
  readonly plan: Plan;
  readonly quiet: QuietSlices;
}

export function redisReport(results: Results): Report {
  const { sections, redisVersion, plan, quiet } = results;
  return {
    title: 'Redis store: decisions per second, latency, processor time and bytes per key',
    facts: [
      `redis-server ${redisVersion} of its own on 127.0.0.1, nothing on disk; one connection per contender, clients with their defaults.`,
      `Medians of ${plan.rounds} rounds of ${plan.sliceMs} ms slices, each contender in a process of its own, all interleaved, one warm-up round thrown away.`,
      quiet.summary(),
      'Spillgate decides token buckets by limiter.check(); the peers count fixed windows, by consume, increment and incr. Every answer is checked.',
      'Steady: one request is asked as soon as one is answered. Bursts: all are asked in one turn, the next ones when all are answered.',
      'A bare EVALSHA sends our own script for one decision, or `return 1`, by hand: what is left without the library, and without a decision.',
      "redis-benchmark runs the store's own script on random keys, every request allowed, and is what the server can do.",
      `Keys by themselves: ${LOOPS} loops of awaited checks, one decision in 64 timed; the peers count windows of a second. Calls are what Redis counts as script calls of clients.`,
      '(x): decisions per second as a multiple of the first Spillgate, which uses ioredis. Processor time: Redis is its main thread, Node the whole process that asks.',
    ],
    tables: [
      ...sections.flatMap(tablesOf),
      ...results.singleKeys.map(singleKeyTable),
      ...tablesOf({ title: 'sliding window log, steady', measured: results.log }),
      footprintTable(results),
    ],
    goals: [...redisGoals(sections[0]?.measured ?? []), ...keyGoals(results.singleKeys, results.log)],
    charts: redisCharts(results),
    disturbance: quiet.disturbance(),
  };
}

function tablesOf({ title, measured }: Section): readonly Table[] {
  return [
    tableOf(`Decisions per second: ${title}`, measured, (one, all) => {
      const ours = firstOfOurs(all)?.perSecond ?? Number.NaN;
      return `${(one.perSecond / 1000).toFixed(1)}k (${(one.perSecond / ours).toFixed(2)}x)`;
    }),
    tableOf(`Latency in microseconds, p50 / p95 / p99: ${title}`, measured, ({ latencyUs }) =>
      [latencyUs.p50, latencyUs.p95, latencyUs.p99].map((us) => us.toFixed(0)).join(' / '),
    ),
    tableOf(
      `Processor microseconds per decision (share of a core), Redis | Node: ${title}`,
      measured,
      ({ redis, node }) => `${formatUse(redis)} | ${node === undefined ? 'n/a' : formatUse(node)}`,
    ),
    tableOf(`Calls to Redis per decision: ${title}`, measured, ({ callsPerDecision }) =>
      callsPerDecision.toPrecision(2),
    ),
  ];
}

function firstOfOurs(results: Measured['results']): Measurement | undefined {
  return [...results].find(([{ role }]) => role === 'ours')?.[1];
}

function singleKeyTable({ traffic, results }: KeyResults): Table {
  return {
    title: `By themselves: ${traffic.title}`,
    columns: [
      left('contender'),
      right('decisions/s'),
      right('admitted/s'),
      right('Redis calls/s'),
      right('calls per decision'),
      right('p50 us'),
      right('p99 us'),
      right('Redis us per decision'),
      right('Node us per decision'),
    ],
    rows: [...results].map(([{ name }, one]) => [
      name,
      one.perSecond.toFixed(0),
      (one.admittedPerSecond ?? Number.NaN).toFixed(0),
      one.callsPerSecond.toFixed(0),
      one.callsPerDecision.toPrecision(2),
      one.latencyUs.p50.toFixed(1),
      one.latencyUs.p99.toFixed(1),
      one.redis.usPerDecision.toFixed(3),
      (one.node?.usPerDecision ?? Number.NaN).toFixed(2),
    ]),
  };
}

function tableOf(
  title: string,
  measured: readonly Measured[],
  cell: (measurement: Measurement, all: Measured['results']) => string,
): Table {
  const entrants = new Set<Entrant>(measured.flatMap(({ results }) => [...results.keys()]));
  return {
    title,
    columns: [left('contender'), ...measured.map(({ traffic }) => right(`${traffic.inFlight} in flight`))],
    rows: [...entrants].map((entrant) => [
      entrant.name,
      ...measured.map(({ results }) => {
        const measurement = results.get(entrant);
        return measurement === undefined ? '' : cell(measurement, results);
      }),
    ]),
  };
}

function footprintTable({ footprints, footprintKeys }: Results): Table {
  return {
    title: `Bytes per key in Redis at ${footprintKeys.toLocaleString('en-US')} keys`,
    columns: [left('contender'), right('used_memory'), right('MEMORY USAGE')],
    rows: footprints.map(({ name, bytesPerKey, memoryUsage }) => [
      name,
      bytesPerKey.toFixed(0),
      memoryUsage.toFixed(0),
    ]),
  };
}

function formatUse({ usPerDecision, share }: ProcessorUse): string {
  return `${usPerDecision.toFixed(2)} (${(share * 100).toFixed(0)}%)`;
}

function left(title: string): Column {
  return { title, align: 'left' };
}

function right(title: string): Column {
  return { title, align: 'right' };
}
