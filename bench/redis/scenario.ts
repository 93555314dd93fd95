import { median, runRounds, type Contender, type Plan, type Slice } from '../frame/rounds.ts';
import type { Candidate, Subject } from './candidate.ts';
import type { Percentiles } from './latencies.ts';
import { Load, type Answered, type Traffic } from './load.ts';
import type { RedisBenchmark } from './redis-benchmark.ts';
import type { Server } from './server.ts';

/** Who is measured, as the tables name it. */
export interface Entrant {
  readonly id: string;
  readonly name: string;
  readonly role: Candidate['role'] | 'ceiling';
}

export interface Opened {
  readonly candidate: Candidate;
  readonly subject: Subject;
}

/** redis-benchmark, which asks less often than every limiter but reaches what the server can do. */
export interface Ceiling {
  readonly entrant: Entrant;
  readonly benchmark: RedisBenchmark;
  /** Below it there is nothing to fill one of its calls with. */
  readonly leastInFlight: number;
}

/** Medians over the rounds. */
export interface Measurement {
  readonly perSecond: number;
  readonly latencyUs: Percentiles;
  /** Of this process; undefined where another one asked. */
  readonly node: ProcessorUse | undefined;
  readonly redis: ProcessorUse;
}

export interface ProcessorUse {
  readonly secondsPer100k: number;
  /** Of one core while the slice ran. */
  readonly share: number;
}

export interface Measured {
  readonly traffic: Traffic;
  readonly results: ReadonlyMap<Entrant, Measurement>;
}

interface LoadSlice extends Answered {
  readonly nodeCpuMs: number | undefined;
  readonly redisCpuMs: number;
}

export async function measureScenario(
  traffic: Traffic,
  { opened, ceilings }: { readonly opened: readonly Opened[]; readonly ceilings: readonly Ceiling[] },
  server: Server,
  plan: Plan,
): Promise<Measured> {
  const limiters = opened.map(({ candidate, subject }) => ({
    entrant: candidate,
    contender: limiterContender(candidate.id, new Load(subject), traffic, server),
  }));
  const benchmarks = ceilings
    .filter(({ leastInFlight }) => traffic.inFlight >= leastInFlight)
    .map(({ entrant, benchmark }) => ({
      entrant,
      contender: benchmarkContender(entrant.id, benchmark, traffic, server),
    }));
  const entries: readonly { entrant: Entrant; contender: Contender<LoadSlice> }[] = [
    ...limiters,
    ...benchmarks,
  ];
  const slices = await runRounds(
    entries.map(({ contender }) => contender),
    plan,
  );
  return {
    traffic,
    results: new Map(entries.map(({ entrant }) => [entrant, summarize(slices.get(entrant.id) ?? [])])),
  };
}

function limiterContender(id: string, load: Load, traffic: Traffic, server: Server): Contender<LoadSlice> {
  return {
    id,
    async slice(budgetMs) {
      const redisBeforeMs = await server.cpuMs();
      const nodeBefore = process.cpuUsage();
      const answered = await load.run(traffic, budgetMs);
      const { user, system } = process.cpuUsage(nodeBefore);
      const redisCpuMs = (await server.cpuMs()) - redisBeforeMs;
      return { ...answered, nodeCpuMs: (user + system) / 1000, redisCpuMs };
    },
  };
}

function benchmarkContender(
  id: string,
  benchmark: RedisBenchmark,
  { inFlight }: Traffic,
  server: Server,
): Contender<LoadSlice> {
  return {
    id,
    async slice(budgetMs) {
      const beforeMs = await server.cpuMs();
      const answered = await benchmark.run(inFlight, budgetMs);
      return { ...answered, nodeCpuMs: undefined, redisCpuMs: (await server.cpuMs()) - beforeMs };
    },
  };
}

function summarize(slices: readonly LoadSlice[]): Measurement {
  const medianOf = (pick: (slice: LoadSlice) => number): number => median(slices.map(pick));
  const use = (cpuMs: (slice: LoadSlice) => number): ProcessorUse => ({
    secondsPer100k: medianOf((slice) => (cpuMs(slice) / slice.operations) * 100),
    share: medianOf((slice) => cpuMs(slice) / slice.elapsedMs),
  });
  const ofNode = slices.some(({ nodeCpuMs }) => nodeCpuMs !== undefined);
  return {
    perSecond: medianOf(perSecond),
    latencyUs: {
      p50: medianOf(({ latencyUs }) => latencyUs.p50),
      p95: medianOf(({ latencyUs }) => latencyUs.p95),
      p99: medianOf(({ latencyUs }) => latencyUs.p99),
    },
    node: ofNode ? use(({ nodeCpuMs = Number.NaN }) => nodeCpuMs) : undefined,
    redis: use(({ redisCpuMs }) => redisCpuMs),
  };
}

function perSecond({ operations, elapsedMs }: Slice): number {
  return (operations / elapsedMs) * 1000;
}
