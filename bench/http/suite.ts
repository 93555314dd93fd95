import { progress } from '../frame/progress.ts';
import { QuietSlices } from '../frame/quiet-slices.ts';
import { median, runRounds, type Plan, type Slice } from '../frame/rounds.ts';
import type { Report, SuiteOptions } from '../frame/suite.ts';
import { startServer, type Server } from '../redis/server.ts';
import { CANDIDATES, type Candidate } from './candidates.ts';
import { sendRequests } from './load.ts';
import { httpReport, type Measurement } from './report.ts';
import { ServerProcess } from './server-process.ts';

const CONNECTIONS = 64;
const FULL: Plan = { rounds: 5, sliceMs: 400 };
const QUICK: Plan = { rounds: 3, sliceMs: 150 };
/**
 * Two processes that run the same program differ for as long as they live, by more than limiters do: each candidate
 * gets several.
 */
const GENERATIONS = 3;
/** Until a JavaScript engine has compiled what it runs most. */
const WARM_UP_MS = 2000;
const QUICK_WARM_UP_MS = 300;
/** Part of a slice that goes to requests without sockets, where the state is in this process. */
const WITHOUT_SOCKETS = 0.5;
/** Of the full run: at most a minute more. */
const MAX_REPEATS = 100;

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
  const generations = quick ? 1 : GENERATIONS;
  const quiet = new QuietSlices(quick ? 0 : MAX_REPEATS);
  const redis = await startServer();
  try {
    const all: ReadonlyMap<string, readonly HttpSlice[]>[] = [];
    for (let generation = 1; generation <= generations; generation += 1) {
      progress(`generation ${generation} of ${generations}`);
      all.push(await runGeneration({ plan, redis, quiet }, quick ? QUICK_WARM_UP_MS : WARM_UP_MS));
    }
    const measured = CANDIDATES.map((candidate) =>
      measurementOf(
        candidate,
        all.flatMap((slices) => slices.get(candidate.id) ?? []),
      ),
    );
    return httpReport(measured, {
      plan,
      generations,
      connections: CONNECTIONS,
      redisVersion: redis.version,
      quiet,
    });
  } finally {
    await redis.stop();
  }
}

interface HttpRun {
  readonly plan: Plan;
  readonly redis: Server;
  readonly quiet: QuietSlices;
}

/** Every candidate in a fresh process. */
async function runGeneration(
  run: HttpRun,
  warmUpMs: number,
): Promise<ReadonlyMap<string, readonly HttpSlice[]>> {
  const { plan, redis } = run;
  const entrants: Entrant[] = [];
  try {
    for (const [number, candidate] of CANDIDATES.entries()) {
      progress(`starting and warming up ${candidate.id}`);
      const server = await ServerProcess.start(number, redis.port);
      entrants.push({ candidate, server });
      await sendRequests(server.port, CONNECTIONS, warmUpMs);
      if (candidate.stateIn !== 'Redis') await server.cpuUsWithoutSockets(warmUpMs * WITHOUT_SOCKETS);
    }
    progress(`${plan.rounds + 1} rounds of ${entrants.length} servers, ${plan.sliceMs} ms each`);
    return await runRounds(
      entrants.map((entrant) => contender(entrant, run)),
      plan,
    );
  } finally {
    for (const { server } of entrants) server.stop();
  }
}

function contender(
  { candidate, server }: Entrant,
  { redis, quiet }: HttpRun,
): {
  readonly id: string;
  readonly slice: (budgetMs: number) => Promise<HttpSlice>;
} {
  const overSockets = async (budgetMs: number): Promise<Slice & { cpuUs: number; redisMs: number }> => {
    const [cpuBefore, redisBefore] = [await server.cpuUs(), await redis.cpuMs()];
    const startedMs = performance.now();
    const operations = await sendRequests(server.port, CONNECTIONS, budgetMs);
    const elapsedMs = performance.now() - startedMs;
    const cpuUs = (await server.cpuUs()) - cpuBefore;
    return { operations, elapsedMs, cpuUs, redisMs: (await redis.cpuMs()) - redisBefore };
  };
  return {
    id: candidate.id,
    slice: async (budgetMs) => {
      const { operations, elapsedMs, cpuUs } = await quiet.run(
        async () => overSockets(budgetMs),
        (slice) => slice.cpuUs / 1000 + slice.redisMs,
      );
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
