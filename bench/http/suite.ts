import { progress } from '../frame/progress.ts';
import { median, runRounds, type Plan, type Slice } from '../frame/rounds.ts';
import type { Report, SuiteOptions } from '../frame/suite.ts';
import { startServer } from '../redis/server.ts';
import { CANDIDATES, type Candidate } from './candidates.ts';
import { sendRequests } from './load.ts';
import { httpReport, type Measurement } from './report.ts';
import { ServerProcess } from './server-process.ts';

const CONNECTIONS = 64;
const FULL: Plan = { rounds: 15, sliceMs: 400 };
const QUICK: Plan = { rounds: 3, sliceMs: 150 };
/** Until a JavaScript engine has compiled what it runs most. */
const WARM_UP_MS = 3000;
const QUICK_WARM_UP_MS = 300;
/** Part of a slice that goes to requests without sockets, where the state is in this process. */
const WITHOUT_SOCKETS = 0.5;

interface HttpSlice extends Slice {
  readonly cpuUs: number;
  readonly cpuUsWithoutSockets: number;
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
      const warmUpMs = quick ? QUICK_WARM_UP_MS : WARM_UP_MS;
      await sendRequests(server.port, CONNECTIONS, warmUpMs);
      if (candidate.stateIn !== 'Redis') await server.cpuUsWithoutSockets(warmUpMs);
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
      const cpuUs = (await server.cpuUs()) - cpuBefore;
      const cpuUsWithoutSockets =
        candidate.stateIn === 'Redis'
          ? Number.NaN
          : await server.cpuUsWithoutSockets(budgetMs * WITHOUT_SOCKETS);
      return { operations, elapsedMs, cpuUs, cpuUsWithoutSockets };
    },
  };
}

function measurementOf(candidate: Candidate, slices: readonly HttpSlice[]): Measurement {
  return {
    candidate,
    perSecond: median(slices.map(({ operations, elapsedMs }) => (operations * 1000) / elapsedMs)),
    cpuUsPerRequest: median(slices.map(({ operations, cpuUs }) => cpuUs / operations)),
    cpuUsWithoutSockets: median(slices.map((slice) => slice.cpuUsWithoutSockets)),
  };
}
