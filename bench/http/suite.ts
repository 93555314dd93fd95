import { progress } from '../frame/progress.ts';
import { median, runRounds, type Plan, type Slice } from '../frame/rounds.ts';
import type { Report, SuiteOptions } from '../frame/suite.ts';
import { startServer } from '../redis/server.ts';
import { CANDIDATES, type Candidate } from './candidates.ts';
import { sendRequests } from './load.ts';
import { httpReport, type Measurement } from './report.ts';
import { ServerProcess } from './server-process.ts';

const CONNECTIONS = 64;
const FULL: Plan = { rounds: 9, sliceMs: 700 };
const QUICK: Plan = { rounds: 3, sliceMs: 150 };
/** Until a JavaScript engine has compiled what it runs most. */
const WARM_UP_MS = 2000;
const QUICK_WARM_UP_MS = 300;

interface HttpSlice extends Slice {
  readonly cpuUs: number;
}

interface Entrant {
  readonly candidate: Candidate;
  readonly server: ServerProcess;
}

export async function httpSuite({ quick }: SuiteOptions): Promise<Report> {
  const plan = quick ? QUICK : FULL;
  const redis = await startServer();
  const entrants: Entrant[] = [];
  try {
    for (const [number, candidate] of CANDIDATES.entries()) {
      progress(`starting and warming up ${candidate.id}`);
      const server = await ServerProcess.start(number, redis.port);
      entrants.push({ candidate, server });
      await sendRequests(server.port, CONNECTIONS, quick ? QUICK_WARM_UP_MS : WARM_UP_MS);
    }
    progress(`${plan.rounds + 1} rounds of ${entrants.length} servers, ${plan.sliceMs} ms each`);
    const slices = await runRounds(entrants.map(contender), plan);
    const measured = entrants.map(({ candidate }) =>
      measurementOf(candidate, slices.get(candidate.id) ?? []),
    );
    return httpReport(measured, { plan, connections: CONNECTIONS, redisVersion: redis.version });
  } finally {
    for (const { server } of entrants) server.stop();
    await redis.stop();
  }
}

function contender({ candidate, server }: Entrant): {
  readonly id: string;
  readonly slice: (budgetMs: number) => Promise<HttpSlice>;
} {
  return {
    id: candidate.id,
    slice: async (budgetMs) => {
      const cpuBefore = await server.cpuUs();
      const startedMs = performance.now();
      const operations = await sendRequests(server.port, CONNECTIONS, budgetMs);
      const elapsedMs = performance.now() - startedMs;
      return { operations, elapsedMs, cpuUs: (await server.cpuUs()) - cpuBefore };
    },
  };
}

function measurementOf(candidate: Candidate, slices: readonly HttpSlice[]): Measurement {
  return {
    candidate,
    perSecond: median(slices.map(({ operations, elapsedMs }) => (operations * 1000) / elapsedMs)),
    cpuUsPerRequest: median(slices.map(({ operations, cpuUs }) => cpuUs / operations)),
  };
}
