import { fileURLToPath } from 'node:url';

import { QuietSlices } from '../frame/quiet-slices.ts';
import { median, runRounds, type Plan, type Slice } from '../frame/rounds.ts';
import type { Report, SuiteOptions } from '../frame/suite.ts';
import { sendRequests } from '../http/load.ts';
import { ServerProcess } from '../http/server-process.ts';

const PROGRAM = fileURLToPath(new URL('server-child.js', import.meta.url));
const CONNECTIONS = 64;
const FULL: Plan = { rounds: 15, sliceMs: 700 };
const QUICK: Plan = { rounds: 5, sliceMs: 200 };
const MAX_REPEATS = 60;
const MAX_REPEATS_QUICK = 10;
const ALLOWED_SHARE = 0.9;

const CANDIDATES = ['static', 'external'] as const;
type Candidate = (typeof CANDIDATES)[number];

interface ServerSlice extends Slice {
  readonly cpuUs: number;
}

interface Measurement {
  readonly candidate: Candidate;
  readonly perSecond: number;
  readonly cpuUsPerRequest: number;
}

export async function externalSuite({ quick: quickly }: SuiteOptions): Promise<Report> {
  const plan = quickly ? QUICK : FULL;
  const quiet = new QuietSlices(quickly ? MAX_REPEATS_QUICK : MAX_REPEATS);
  const servers = new Map<Candidate, ServerProcess>();
  try {
    for (const candidate of CANDIDATES) {
      servers.set(candidate, await ServerProcess.launch(PROGRAM, [candidate]));
    }
    const slices = await runRounds(
      [...servers].map(([id, server]) => ({
        id,
        slice: async (budgetMs: number) =>
          quiet.run(
            async () => sliceOf(server, budgetMs),
            ({ cpuUs }) => cpuUs / 1000,
          ),
      })),
      plan,
    );
    return reportOf(
      CANDIDATES.map((candidate) => measurementOf(candidate, slices.get(candidate) ?? [])),
      { plan, quiet },
    );
  } finally {
    for (const server of servers.values()) server.stop();
  }
}

async function sliceOf(server: ServerProcess, budgetMs: number): Promise<ServerSlice> {
  const cpuBefore = await server.cpuUs();
  const startedMs = performance.now();
  const operations = await sendRequests(server.port, CONNECTIONS, budgetMs);
  const elapsedMs = performance.now() - startedMs;
  return { operations, elapsedMs, cpuUs: (await server.cpuUs()) - cpuBefore };
}

function measurementOf(candidate: Candidate, slices: readonly ServerSlice[]): Measurement {
  return {
    candidate,
    perSecond: median(slices.map(({ operations, elapsedMs }) => (operations * 1000) / elapsedMs)),
    cpuUsPerRequest: median(slices.map(({ operations, cpuUs }) => cpuUs / operations)),
  };
}

function reportOf(
  measured: readonly Measurement[],
  { plan, quiet }: { readonly plan: Plan; readonly quiet: QuietSlices },
): Report {
  const of = (wanted: Candidate): Measurement =>
    measured.find(({ candidate }) => candidate === wanted) ?? {
      candidate: wanted,
      perSecond: Number.NaN,
      cpuUsPerRequest: Number.NaN,
    };
  const [fixed, external] = [of('static'), of('external')];
  const share = external.perSecond / fixed.perSecond;
  const cpuShare = fixed.cpuUsPerRequest / external.cpuUsPerRequest;
  return {
    title: 'External limits: what they cost when they are cached',
    facts: [
      `A hello-world server on node:http that counts 1000 tenants in memory; the load comes from this process over ${CONNECTIONS} kept-alive connections.`,
      `Medians of ${plan.rounds} rounds of ${plan.sliceMs} ms slices, both servers interleaved, one warm-up round thrown away.`,
      quiet.summary(),
      'static: one policy for everybody. external: three plans from a service, every answer in the memory of the server.',
      'A gateway does more with each request than this server, so the share of what is added is smaller there.',
    ],
    tables: [
      {
        title: 'Limits',
        columns: [
          { title: 'limits', align: 'left' },
          { title: 'requests/s', align: 'right' },
          { title: 'processor us/request', align: 'right' },
        ],
        rows: measured.map(({ candidate, perSecond, cpuUsPerRequest }) => [
          candidate,
          perSecond.toFixed(0),
          cpuUsPerRequest.toFixed(1),
        ]),
      },
    ],
    goals: [
      {
        text: 'cached external limits cost at most 10 % of the throughput of static ones',
        passed: cpuShare >= ALLOWED_SHARE,
        detail: `${(100 * share).toFixed(1)} % by requests per second, ${(100 * cpuShare).toFixed(1)} % by processor time per request`,
      },
    ],
  };
}
