import type { Chart, ChartBar } from '../frame/chart.ts';
import type { Entrant, Measured, Measurement, Section } from './scenario.ts';
import type { KeyResults } from './single-keys.ts';

/** Enough that calls are shared, few enough that nobody waits for the event loop. */
const USUAL_IN_FLIGHT = 64;
const SATURATING_IN_FLIGHT = 256;

export interface ChartedResults {
  readonly sections: readonly Section[];
  readonly singleKeys: readonly KeyResults[];
  readonly log: readonly Measured[];
}

export function redisCharts({ sections, singleKeys, log }: ChartedResults): readonly Chart[] {
  const mixed = sections[0]?.measured ?? [];
  const at = (inFlight: number): Results =>
    mixed.find(({ traffic }) => traffic.inFlight === inFlight)?.results;
  const of = (id: KeyResults['traffic']['id']): Results =>
    singleKeys.find(({ traffic }) => traffic.id === id)?.results;
  return [
    {
      id: 'redis-throughput',
      title: `Decisions per second on Redis, ${SATURATING_IN_FLIGHT} in flight, 10,000 keys`,
      unit: '/s',
      note: 'One Node.js process, one connection; higher is better',
      bars: barsOf(at(SATURATING_IN_FLIGHT), limiters, ({ perSecond }) => perSecond),
    },
    {
      id: 'redis-processor',
      title: `Redis' processor time per decision, ${USUAL_IN_FLIGHT} in flight, 10,000 keys`,
      unit: 'us',
      note: 'Lower is better',
      bars: barsOf(at(USUAL_IN_FLIGHT), limiters, ({ redis }) => redis.usPerDecision),
    },
    scriptChart('redis-script', 'decisions that share a call', at(SATURATING_IN_FLIGHT), (name) =>
      /(?:[2-9]|\d\d+) per call$/.test(name),
    ),
    scriptChart('redis-lone-script', 'one decision per call', at(USUAL_IN_FLIGHT), (name) =>
      name.endsWith(' 1 per call'),
    ),
    {
      id: 'redis-hot-key',
      title: 'Decisions per second on one hot key',
      unit: '/s',
      note: 'One Node.js process, 64 loops of awaited checks; higher is better',
      bars: barsOf(of('hot'), everybody, ({ perSecond }) => perSecond),
    },
    {
      id: 'redis-lease-calls',
      title: 'Redis calls per 1,000 decisions on one hot key',
      unit: '',
      note: 'Lower is better',
      bars: barsOf(of('hot'), everybody, ({ callsPerDecision }) => callsPerDecision * 1000),
    },
    {
      id: 'redis-flood',
      title: 'Redis calls per second while one key is flooded',
      unit: '/s',
      note: 'The policy admits 100 per second, and a slice of a second begins with 100 to spare. Lower is better',
      bars: barsOf(of('flood'), everybody, ({ callsPerSecond }) => callsPerSecond),
    },
    logChart(log),
  ];
}

type Results = Measured['results'] | undefined;
type Choice = (entrant: Entrant) => boolean;

const everybody: Choice = () => true;
const limiters: Choice = ({ role }) => role === 'ours' || role === 'peer';

function barsOf(
  results: Results,
  choice: Choice,
  value: (measurement: Measurement) => number,
): readonly ChartBar[] {
  return [...(results ?? [])]
    .filter(([entrant]) => choice(entrant))
    .map(([{ name, role }, measurement]) => ({
      name,
      value: value(measurement),
      ...(role === 'ours' ? { ours: true } : {}),
    }));
}

/** The script alone, asked by redis-benchmark, beside one that reads and writes the same keys. */
function scriptChart(id: string, how: string, results: Results, isMeant: (name: string) => boolean): Chart {
  const bars = barsOf(
    results,
    ({ role, name }) => role === 'ceiling' && isMeant(name),
    ({ redis }) => redis.usPerDecision,
  ).map((bar) => {
    const ours = bar.name.includes('our script');
    return { ...bar, ours, name: ours ? 'token bucket' : 'GET and SET in a loop, nothing decided' };
  });
  return {
    id,
    title: `Redis' processor time per decision, ${how}`,
    unit: 'us',
    note: 'The script alone, asked by redis-benchmark; lower is better',
    bars: bars.toSorted((a, b) => Number(a.ours) - Number(b.ours)),
  };
}

function logChart(log: readonly Measured[]): Chart {
  const bars = log.flatMap(({ traffic, results }) =>
    barsOf(
      results,
      ({ role }) => role === 'ours',
      ({ latencyUs }) => latencyUs.p95 / 1000,
    ).map((bar) => ({ ...bar, name: `${traffic.inFlight} in flight` })),
  );
  return {
    id: 'redis-log-latency',
    title: 'Sliding window log: within how long 95 of 100 decisions are answered',
    unit: 'ms',
    note: 'A reference system claims less than 1 ms; lower is better',
    bars,
  };
}
