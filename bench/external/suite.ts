import { createServer } from 'node:http';

import { createLimitsService } from 'spillgate-gateway/limits-service';

import { QuietSlices } from '../frame/quiet-slices.ts';
import { median, runRounds, type Plan, type Slice } from '../frame/rounds.ts';
import type { Report, SuiteOptions } from '../frame/suite.ts';
import { sendRequests } from '../http/load.ts';
import { GatewayProcess } from './gateway-process.ts';

const CONNECTIONS = 64;
const FULL: Plan = { rounds: 15, sliceMs: 700 };
const QUICK: Plan = { rounds: 5, sliceMs: 200 };
const MAX_REPEATS = 60;
const MAX_REPEATS_QUICK = 10;
const ALLOWED_SHARE = 0.9;
/** Nobody is ever denied: what knowing the limits costs is the question. */
const PLENTY = 1_000_000_000;

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
  const backend = await startBackend();
  const service = createLimitsService({ limits: () => ({ average: PLENTY, period: '1m', cacheFor: '1h' }) });
  const { url, close } = await service.listen({ port: 0 });
  const gateways = new Map<Candidate, GatewayProcess>();
  try {
    for (const candidate of CANDIDATES) {
      const external = { enabled: candidate === 'external', http: { url } };
      const limits = { average: PLENTY, period: '1m', external };
      gateways.set(candidate, await GatewayProcess.start(limits, backend.url));
    }
    const slices = await runRounds(
      [...gateways].map(([id, gateway]) => ({
        id,
        slice: async (budgetMs: number) =>
          quiet.run(
            async () => sliceOf(gateway, budgetMs),
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
    for (const gateway of gateways.values()) gateway.stop();
    await close();
    backend.stop();
  }
}

async function startBackend(): Promise<{ readonly url: string; readonly stop: () => void }> {
  const server = createServer((_request, response) => {
    response.writeHead(200, { 'Content-Length': 5 });
    response.end('hello');
  });
  await new Promise<void>((resolve) => {
    server.listen(0, '127.0.0.1', resolve);
  });
  const address = server.address();
  const port = typeof address === 'object' && address !== null ? address.port : 0;
  return {
    url: `http://127.0.0.1:${port}`,
    stop: () => {
      server.closeAllConnections();
      server.close();
    },
  };
}

async function sliceOf(gateway: GatewayProcess, budgetMs: number): Promise<ServerSlice> {
  const cpuBefore = gateway.cpuUs();
  const startedMs = performance.now();
  const operations = await sendRequests(gateway.port, CONNECTIONS, budgetMs);
  const elapsedMs = performance.now() - startedMs;
  return { operations, elapsedMs, cpuUs: gateway.cpuUs() - cpuBefore };
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
      `Two gateways in processes of their own in front of one hello-world backend; backend and load are this process, over ${CONNECTIONS} kept-alive connections.`,
      `Medians of ${plan.rounds} rounds of ${plan.sliceMs} ms slices, both servers interleaved, one warm-up round thrown away.`,
      quiet.summary(),
      'static: one policy from the configuration. external: the same numbers from a service, in the memory of the gateway after the first request.',
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
