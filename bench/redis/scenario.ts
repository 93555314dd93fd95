import type { QuietSlices } from '../frame/quiet-slices.ts';
import { median, runRounds, type Contender, type Plan, type Slice } from '../frame/rounds.ts';
import type { AskerProcess, NamedTraffic } from './asker-process.ts';
import type { Candidate } from './candidate.ts';
import type { Percentiles } from './latencies.ts';
import type { Answered } from './load.ts';
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
  readonly asker: AskerProcess;
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
  /** Script calls that Redis saw. */
  readonly callsPerDecision: number;
  readonly callsPerSecond: number;
  /** Where the load counts them. */
  readonly admittedPerSecond: number | undefined;
}

export interface ProcessorUse {
  readonly usPerDecision: number;
  /** Of one core while the slice ran. */
  readonly share: number;
}

export interface Measured {
  readonly traffic: NamedTraffic;
  readonly results: ReadonlyMap<Entrant, Measurement>;
}

/** One kind of traffic, in every number in flight. */
export interface Section {
  readonly title: string;
  readonly measured: readonly Measured[];
}

interface LoadSlice extends Answered {
  readonly redisCpuMs: number;
  readonly redisCalls: number;
}

export interface Entrants {
  readonly opened: readonly Opened[];
  readonly ceilings: readonly Ceiling[];
}

/** What all measurements of one run share. */
export interface Run {
  readonly server: Server;
  readonly plan: Plan;
  readonly quiet: QuietSlices;
}

/** An entrant and how it is asked. */
export interface Entry {
  readonly entrant: Entrant;
  readonly ask: (budgetMs: number) => Promise<Answered>;
}

export async function measureScenario(
  traffic: NamedTraffic,
  { opened, ceilings }: Entrants,
  run: Run,
): Promise<Measured> {
  const limiters = opened.map(({ candidate, asker }): Entry => ({
    entrant: candidate,
    ask: (budgetMs) => asker.ask({ ...traffic, budgetMs }),
  }));
  const benchmarks = ceilings
    .filter(({ leastInFlight }) => traffic.inFlight >= leastInFlight)
    .map(({ entrant, benchmark }): Entry => ({
      entrant,
      ask: (budgetMs) => benchmark.run(traffic.inFlight, budgetMs),
    }));
  return { traffic, results: await measureEntries([...limiters, ...benchmarks], run) };
}

/** All of them, interleaved. */
export async function measureEntries(entries: readonly Entry[], run: Run): Promise<Measured['results']> {
  const slices = await runRounds(
    entries.map((entry) => contenderOf(entry, run)),
    run.plan,
  );
  return new Map(entries.map(({ entrant }) => [entrant, summarize(slices.get(entrant.id) ?? [])]));
}

function contenderOf({ entrant, ask }: Entry, { server, quiet }: Run): Contender<LoadSlice> {
  const slice = async (budgetMs: number): Promise<LoadSlice> => {
    const before = await server.counters();
    const answered = await ask(budgetMs);
    const after = await server.counters();
    return {
      ...answered,
      redisCpuMs: after.cpuMs - before.cpuMs,
      redisCalls: after.scriptCalls - before.scriptCalls,
    };
  };
  return {
    id: entrant.id,
    slice: (budgetMs) =>
      quiet.run(
        () => slice(budgetMs),
        ({ redisCpuMs, nodeCpuMs = 0 }) => redisCpuMs + nodeCpuMs,
      ),
  };
}

function summarize(slices: readonly LoadSlice[]): Measurement {
  const medianOf = (pick: (slice: LoadSlice) => number): number => median(slices.map(pick));
  const use = (cpuMs: (slice: LoadSlice) => number): ProcessorUse => ({
    usPerDecision: medianOf((slice) => (cpuMs(slice) / slice.operations) * 1000),
    share: medianOf((slice) => cpuMs(slice) / slice.elapsedMs),
  });
  const countsAdmitted = slices.some(({ admitted }) => admitted !== undefined);
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
    callsPerDecision: medianOf(({ redisCalls, operations }) => redisCalls / operations),
    callsPerSecond: medianOf(({ redisCalls, elapsedMs }) => (redisCalls / elapsedMs) * 1000),
    admittedPerSecond: countsAdmitted
      ? medianOf(({ admitted = 0, elapsedMs }) => (admitted / elapsedMs) * 1000)
      : undefined,
  };
}

function perSecond({ operations, elapsedMs }: Slice): number {
  return (operations / elapsedMs) * 1000;
}
