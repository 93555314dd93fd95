import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

import { progress } from '../frame/progress.ts';
import { median, runRounds, type Plan, type Slice } from '../frame/rounds.ts';
import type { Report, SuiteOptions } from '../frame/suite.ts';
import type { Percentiles } from '../redis/latencies.ts';
import { startServer } from '../redis/server.ts';
import { CANDIDATES, nginxCommand, upstreamFile, type Candidate, type Places } from './candidates.ts';
import { sendLoad } from './load.ts';
import { freePort, moveTo, OTHER_CORE, Program, PROXY_CORE } from './program.ts';
import { gatewayReport, type Measurement } from './report.ts';
import { requirePrograms } from './required-programs.ts';

const CONNECTIONS = 32;
const FULL: Plan = { rounds: 21, sliceMs: 600 };
const QUICK: Plan = { rounds: 3, sliceMs: 300 };
/** Until a JavaScript engine has compiled what it runs most. */
const WARM_UP_MS = 10_000;
const QUICK_WARM_UP_MS = 1000;

interface GatewaySlice extends Slice {
  readonly cpuUs: number;
  readonly latencyUs: Percentiles;
}

interface Entrant {
  readonly candidate: Candidate;
  readonly program: Program;
}

export async function gatewaySuite({ quick }: SuiteOptions): Promise<Report> {
  requirePrograms();
  moveTo(OTHER_CORE);
  const plan = quick ? QUICK : FULL;
  const folder = mkdtempSync(join(tmpdir(), 'spillgate-bench-'));
  const redis = await startServer();
  const programs: Program[] = [];
  try {
    const upstream = await startUpstream(folder);
    programs.push(upstream);
    const places = { upstreamPort: upstream.port, redisPort: redis.port };
    const entrants: Entrant[] = [];
    for (const candidate of CANDIDATES) {
      progress(`starting and warming up ${candidate.name}, limits in ${candidate.limits}`);
      const program = await startCandidate(candidate, folder, places);
      programs.push(program);
      entrants.push({ candidate, program });
      await sendLoad(loadOf(candidate, program), CONNECTIONS, quick ? QUICK_WARM_UP_MS : WARM_UP_MS);
    }
    progress(`${plan.rounds + 1} rounds of ${entrants.length} proxies, ${plan.sliceMs} ms each`);
    const slices = await runRounds(entrants.map(contender), plan);
    const measured = entrants.map(({ candidate }) =>
      measurementOf(candidate, slices.get(candidate.id) ?? []),
    );
    return gatewayReport(measured, { plan, connections: CONNECTIONS, redisVersion: redis.version });
  } finally {
    await Promise.all(programs.map((program) => program.stop()));
    await redis.stop();
    rmSync(folder, { recursive: true });
  }
}

async function startUpstream(folder: string): Promise<Program> {
  const port = await freePort();
  const file = join(folder, 'upstream');
  writeFileSync(file, upstreamFile(port));
  return Program.start(port, nginxCommand(file), OTHER_CORE);
}

async function startCandidate(
  { id, file: contents, command }: Candidate,
  folder: string,
  places: Places,
): Promise<Program> {
  const port = await freePort();
  const file = join(folder, `${id}.yaml`);
  if (contents !== undefined) writeFileSync(file, contents(port, places));
  return Program.start(port, command(port, file, places), PROXY_CORE);
}

function loadOf(
  { denies }: Candidate,
  { port }: Program,
): { readonly port: number; readonly denies: boolean } {
  return { port, denies: denies ?? false };
}

function contender({ candidate, program }: Entrant): {
  readonly id: string;
  readonly slice: (budgetMs: number) => Promise<GatewaySlice>;
} {
  return {
    id: candidate.id,
    slice: async (budgetMs) => {
      const cpuBefore = program.cpuUs();
      const startedMs = performance.now();
      const { requests, latencyUs } = await sendLoad(loadOf(candidate, program), CONNECTIONS, budgetMs);
      const elapsedMs = performance.now() - startedMs;
      return { operations: requests, elapsedMs, latencyUs, cpuUs: program.cpuUs() - cpuBefore };
    },
  };
}

function measurementOf(candidate: Candidate, slices: readonly GatewaySlice[]): Measurement {
  return {
    candidate,
    perSecond: median(slices.map(({ operations, elapsedMs }) => (operations * 1000) / elapsedMs)),
    cpuUsPerRequest: slices.map(({ operations, cpuUs }) => cpuUs / operations),
    p50Us: median(slices.map(({ latencyUs }) => latencyUs.p50)),
    p99Us: median(slices.map(({ latencyUs }) => latencyUs.p99)),
  };
}
