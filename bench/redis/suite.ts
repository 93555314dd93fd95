import { progress } from '../frame/progress.ts';
import { QuietSlices } from '../frame/quiet-slices.ts';
import type { Plan } from '../frame/rounds.ts';
import type { Report, SuiteOptions } from '../frame/suite.ts';
import { AskerProcess } from './asker-process.ts';
import { CANDIDATES } from './candidates.ts';
import { measureFootprints } from './footprint.ts';
import type { Arrival } from './load.ts';
import { measureLog } from './log.ts';
import { recordCall } from './recorded-call.ts';
import { RedisBenchmark } from './redis-benchmark.ts';
import { redisReport } from './report.ts';
import {
  measureScenario,
  type Ceiling,
  type Entrants,
  type Measured,
  type Opened,
  type Run,
  type Section,
} from './scenario.ts';
import { startServer, type Server } from './server.ts';
import { measureSingleKeys } from './single-keys.ts';
import { KEY_COUNT } from './workload.ts';
import type { WorkloadName } from './workloads.ts';

const IN_FLIGHT = [1, 16, 64, 256, 1024] as const;
const FEW_IN_FLIGHT = [1, 64, 1024] as const;
/** So many decisions asked for in one turn fill a call: half of them go into the first. */
const FULL_BATCH = 128;
const FULL_FOOTPRINT_KEYS = 100_000;
const QUICK_FOOTPRINT_KEYS = 10_000;
/** Of the full run: at most two minutes more. */
const MAX_REPEATS = 200;

const FULL: Plan = { rounds: 7, sliceMs: 300 };
const QUICK: Plan = { rounds: 3, sliceMs: 60 };

interface TrafficKind {
  readonly workload: WorkloadName;
  readonly title: string;
  readonly arrival: Arrival;
  readonly inFlight: readonly number[];
}

export async function redisSuite({ quick }: SuiteOptions): Promise<Report> {
  const plan = quick ? QUICK : FULL;
  const footprintKeys = quick ? QUICK_FOOTPRINT_KEYS : FULL_FOOTPRINT_KEYS;
  const server = await startServer();
  try {
    const footprints = await measureFootprints(server, footprintKeys);
    const quiet = new QuietSlices(quick ? 0 : MAX_REPEATS);
    const entrants = await openAll(server);
    const sections: Section[] = [];
    for (const kind of kindsOfTraffic()) {
      sections.push(await measureSection(kind, entrants, { server, plan, quiet }));
    }
    const run = { server, plan, quiet };
    const singleKeys = await measureSingleKeys(run);
    const log = await measureLog(run);
    await Promise.all(entrants.opened.map(({ asker }) => asker.close()));
    return redisReport({
      sections,
      singleKeys,
      log,
      footprints,
      footprintKeys,
      redisVersion: server.version,
      plan,
      quiet,
    });
  } finally {
    await server.stop();
  }
}

function kindsOfTraffic(): readonly TrafficKind[] {
  const mixed = `${KEY_COUNT.toLocaleString('en-US')} keys, 9 of 10 requests allowed`;
  return [
    { workload: 'mixed', title: mixed, arrival: 'steady', inFlight: IN_FLIGHT },
    { workload: 'mixed', title: mixed, arrival: 'bursts', inFlight: IN_FLIGHT.filter((count) => count > 1) },
    {
      workload: 'hot',
      title: 'one hot key, every request denied',
      arrival: 'steady',
      inFlight: FEW_IN_FLIGHT,
    },
  ];
}

async function openAll(server: Server): Promise<Entrants> {
  const opened: Opened[] = [];
  for (const candidate of CANDIDATES) {
    progress(`spending every key once: ${candidate.name}`);
    const asker = await AskerProcess.open({ kind: 'candidate', id: candidate.id }, server.port);
    opened.push({ candidate, asker });
  }
  const ceilings: Ceiling[] = [];
  for (const decisions of [1, FULL_BATCH]) {
    ceilings.push(await ceiling(server, decisions), await loopCeiling(server, decisions));
  }
  return { opened, ceilings };
}

async function ceiling({ port }: Server, decisions: number): Promise<Ceiling> {
  const call = await recordCall(port, decisions);
  const name = `redis-benchmark, our script, ${call.decisions} per call`;
  return {
    entrant: { id: name, name, role: 'ceiling' },
    benchmark: new RedisBenchmark(port, call),
    leastInFlight: call.decisions,
  };
}

/** What the store's keys cost without a decision. */
const LOOP_SCRIPT = `for _, key in ipairs(KEYS) do
  redis.call('GET', key)
  redis.call('SET', key, ARGV[1], 'PX', 60000)
end
return #KEYS`;
/** As long as a bucket's state. */
const LOOP_VALUE = 'x'.repeat(40);

async function loopCeiling({ port, admin }: Server, decisions: number): Promise<Ceiling> {
  const { args, decisions: perCall } = await recordCall(port, decisions);
  const sha1 = String(await admin.script('LOAD', LOOP_SCRIPT));
  const keys = args.slice(3, 3 + perCall).map((key) => `loop:${key}`);
  const call = { args: ['EVALSHA', sha1, String(perCall), ...keys, LOOP_VALUE], decisions: perCall };
  const name = `redis-benchmark, GET and SET in a loop, ${perCall} per call`;
  return {
    entrant: { id: name, name, role: 'ceiling' },
    benchmark: new RedisBenchmark(port, call),
    leastInFlight: perCall,
  };
}

async function measureSection(
  { workload, title: name, arrival, inFlight }: TrafficKind,
  entrants: Entrants,
  run: Run,
): Promise<Section> {
  const title = `${name}, ${arrival}`;
  const measured: Measured[] = [];
  for (const count of inFlight) {
    progress(`${title}, ${count} in flight: ${run.plan.rounds} rounds`);
    measured.push(await measureScenario({ workload, arrival, inFlight: count }, entrants, run));
  }
  return { title, measured };
}
