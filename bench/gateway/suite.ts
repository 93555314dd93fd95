import { cpus } from 'node:os';

import { progress } from '../frame/progress.ts';
import { QuietSlices } from '../frame/quiet-slices.ts';
import { median, runRounds, type Plan } from '../frame/rounds.ts';
import type { Report, SuiteOptions } from '../frame/suite.ts';
import type { Candidate } from './candidate.ts';
import { CANDIDATES, WITH_WORKERS } from './candidates.ts';
import type { Measurement } from './measurement.ts';
import { moveTo, OTHER_CORE, PROXY_CORE } from './program.ts';
import { gatewayReport } from './report.ts';
import { Rig, type Cores, type Entrant, type GatewaySlice } from './rig.ts';
import { startUpstream } from './upstream.ts';

const FULL: Plan = { rounds: 21, sliceMs: 600 };
const QUICK: Plan = { rounds: 3, sliceMs: 300 };
const FULL_WORKERS: Plan = { rounds: 9, sliceMs: 1000 };
/** Of the full run: at most a minute and a half more. */
const MAX_REPEATS = 100;
/** Until a JavaScript engine has compiled what it runs most. */
const WARM_UP_MS = 10_000;
const QUICK_WARM_UP_MS = 1000;
/** What is compiled already has connections to open, no more. */
const NATIVE_WARM_UP_MS = 2000;

export async function gatewaySuite({ quick }: SuiteOptions): Promise<Report> {
  const plan = quick ? QUICK : FULL;
  const quiet = new QuietSlices(quick ? 0 : MAX_REPEATS);
  const rig = await Rig.start(quiet);
  try {
    const alone: Cores = { proxy: PROXY_CORE, others: OTHER_CORE };
    const measured = await measureAll(rig, CANDIDATES, { cores: alone, plan, quick });
    const workersPlan = quick ? QUICK : FULL_WORKERS;
    const cores = workersCores(cpus().length);
    const workers = await measureAll(rig, WITH_WORKERS, { cores, plan: workersPlan, quick });
    return gatewayReport(measured, workers, {
      plan,
      workersPlan,
      cores,
      connections: rig.connections,
      redisVersion: rig.redis.version,
      missing: rig.inventory.missing,
      quiet,
    });
  } finally {
    await rig.stop();
  }
}

/** Two cores for two workers; the load keeps away from them where there are more. */
export function workersCores(count: number): Cores {
  return { proxy: '0,1', others: count >= 4 ? '2,3' : '0,1' };
}

interface Circumstances {
  readonly cores: Cores;
  readonly plan: Plan;
  readonly quick: boolean;
}

async function measureAll(
  rig: Rig,
  candidates: readonly Candidate[],
  { cores, plan, quick }: Circumstances,
): Promise<readonly Measurement[]> {
  moveTo(cores.others);
  const upstream = rig.add(await startUpstream(rig.folder, cores.others));
  const entrants: Entrant[] = [];
  for (const candidate of candidates.filter((each) => rig.canStart(each))) {
    progress(`starting and warming up ${candidate.name}, limits in ${candidate.limits}`);
    const entrant = await rig.startCandidate(candidate, upstream.port, cores);
    const warmUpMs = candidate.role === 'native' ? NATIVE_WARM_UP_MS : WARM_UP_MS;
    await rig.warmUp(entrant, quick ? QUICK_WARM_UP_MS : warmUpMs);
    entrants.push(entrant);
  }
  progress(`${plan.rounds + 1} rounds of ${entrants.length} proxies, ${plan.sliceMs} ms each`);
  const slices = await runRounds(
    entrants.map((entrant) => rig.contender(entrant)),
    plan,
  );
  return entrants.map(({ candidate }) => measurementOf(candidate, slices.get(candidate.id) ?? []));
}

function measurementOf(candidate: Candidate, slices: readonly GatewaySlice[]): Measurement {
  return {
    candidate,
    perSecond: median(slices.map(({ operations, elapsedMs }) => (operations * 1000) / elapsedMs)),
    cpuUsPerRequest: slices.map(({ operations, cpuUs }) => cpuUs / operations),
    helperUsPerRequest: slices.map(({ operations, helperUs }) => helperUs / operations),
    p50Us: median(slices.map(({ latencyUs }) => latencyUs.p50)),
    p99Us: median(slices.map(({ latencyUs }) => latencyUs.p99)),
  };
}
