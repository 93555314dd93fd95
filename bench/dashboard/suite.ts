import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { get, type IncomingMessage } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';

import { progress } from '../frame/progress.ts';
import { runRounds, type Contender, type Plan, type Slice } from '../frame/rounds.ts';
import type { Report, SuiteOptions } from '../frame/suite.ts';
import { freePort, moveTo, OTHER_CORE, Program, PROXY_CORE } from '../gateway/program.ts';
import { startUpstream } from '../gateway/upstream.ts';
import { sendPaced } from './paced-load.ts';
import { dashboardReport, type Memory, type PacedRound } from './report.ts';

const GATEWAY = fileURLToPath(new URL('../../../packages/gateway/dist/main.js', import.meta.url));
const PER_SECOND = 10_000;
const USUAL_KEYS = 10_000;
const FULL: Plan = { rounds: 15, sliceMs: 4000 };
const QUICK: Plan = { rounds: 3, sliceMs: 2000 };
const WARM_UP_MS = 10_000;
const KEYS = 1_000_000;
const QUICK_KEYS = 100_000;
/** As often as the page of keys asks again. */
const ASKED_EVERY_MS = 5000;

interface WatchedSlice extends Slice {
  readonly cpuUs: number;
}

/** What the dashboard costs a gateway: processor time while somebody looks, and memory for who is busy. */
export async function dashboardSuite({ quick }: SuiteOptions): Promise<Report> {
  moveTo(OTHER_CORE);
  const plan = quick ? QUICK : FULL;
  const folder = mkdtempSync(join(tmpdir(), 'spillgate-bench-'));
  const upstream = await startUpstream(folder, OTHER_CORE);
  const upstreamPort = upstream.port;
  try {
    const slices = await processorTime({ folder, upstreamPort, plan });
    const keys = quick ? QUICK_KEYS : KEYS;
    const memory = {
      keys,
      without: await memoryOf({ folder, upstreamPort, admin: false }, keys),
      watched: await memoryOf({ folder, upstreamPort, admin: true }, keys),
    } satisfies Memory;
    const [closed = [], open = []] = ['closed', 'open'].map((id) => slices.get(id)?.map(perRequest));
    return dashboardReport({ plan, perSecond: PER_SECOND, closed, open, memory });
  } finally {
    await upstream.stop();
    rmSync(folder, { recursive: true });
  }
}

function perRequest({ cpuUs, operations, elapsedMs }: WatchedSlice): PacedRound {
  return { cpuUs: cpuUs / operations, reached: (1000 * operations) / elapsedMs };
}

interface Place {
  readonly folder: string;
  readonly upstreamPort: number;
}

async function processorTime({
  folder,
  upstreamPort,
  plan,
}: Place & { readonly plan: Plan }): Promise<ReadonlyMap<string, readonly WatchedSlice[]>> {
  const { program, adminPort } = await startGateway({ folder, upstreamPort, admin: true });
  const load = {
    port: program.port,
    perSecond: PER_SECOND,
    keyOf: (number: number) => `key-${number % USUAL_KEYS}`,
  };
  try {
    progress(`warming up at ${PER_SECOND} requests per second`);
    await sendPaced(load, { forMs: WARM_UP_MS });
    progress(`${plan.rounds + 1} rounds, ${plan.sliceMs} ms without and with an open dashboard`);
    const slice = async (budgetMs: number): Promise<WatchedSlice> => {
      const [cpuBefore, startedMs] = [program.cpuUs(), performance.now()];
      const operations = await sendPaced(load, { forMs: budgetMs });
      return { operations, elapsedMs: performance.now() - startedMs, cpuUs: program.cpuUs() - cpuBefore };
    };
    const contenders: readonly Contender<WatchedSlice>[] = [
      { id: 'closed', slice },
      { id: 'open', slice: async (budgetMs) => watched(adminPort, async () => slice(budgetMs)) },
    ];
    return await runRounds(contenders, plan);
  } finally {
    await program.stop();
  }
}

async function memoryOf(place: Place & { readonly admin: boolean }, keys: number): Promise<number> {
  const { program, adminPort } = await startGateway(place);
  progress(`${keys} distinct keys, the admin server ${place.admin ? 'watched' : 'off'}`);
  const fill = async (): Promise<number> => {
    await sendPaced({ port: program.port, keyOf: (number) => `key-${number}` }, { requests: keys });
    return program.residentBytes();
  };
  try {
    return await (place.admin ? watched(adminPort, fill) : fill());
  } finally {
    await program.stop();
  }
}

/** Does something while a page is open that follows what happens, and asks who is busiest now and then. */
async function watched<Result>(adminPort: number, work: () => Promise<Result>): Promise<Result> {
  const address = `http://127.0.0.1:${adminPort}`;
  const stream = await answerOf(`${address}/v1/live`);
  stream.resume();
  const asking = setInterval(
    () => void answerOf(`${address}/v1/keys?limit=20`).then((answer) => answer.resume()),
    ASKED_EVERY_MS,
  );
  try {
    return await work();
  } finally {
    clearInterval(asking);
    stream.destroy();
  }
}

function answerOf(url: string): Promise<IncomingMessage> {
  return new Promise((resolve, reject) => {
    get(url, resolve).once('error', reject);
  });
}

async function startGateway({
  folder,
  upstreamPort,
  admin,
}: Place & { readonly admin: boolean }): Promise<{ readonly program: Program; readonly adminPort: number }> {
  const [port, adminPort] = [await freePort(), await freePort()];
  const file = join(folder, `gateway-${port}.yaml`);
  writeFileSync(
    file,
    `
server: { address: "127.0.0.1:${port}" }
admin: { enabled: ${admin}, address: "127.0.0.1:${adminPort}" }
backend: { url: "http://127.0.0.1:${upstreamPort}" }
logging: { access_log_enabled: false, decision_log: "off" }
rate_limit:
  average: 1000000
  key_strategy: { type: header, header_name: X-Key }
`,
  );
  const program = await Program.start(port, [process.execPath, GATEWAY, 'run', file], PROXY_CORE);
  return { program, adminPort };
}
