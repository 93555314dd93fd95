// The decision service and envoyproxy/ratelimit, asked by one real Envoy in turn.
import { spawn, type ChildProcess } from 'node:child_process';
import { mkdtempSync, writeFileSync } from 'node:fs';
import { Agent, request } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';

import {
  clusterOf,
  envoyArguments,
  grpcClusterOf,
  listenerOf,
  rateLimitFilter,
} from '../envoy/configuration.ts';
import { provide } from '../envoy/provided.ts';
import { referenceEnvironment, writeDescriptors } from '../envoy/reference-server.ts';
import { GatewayProcess } from '../external/gateway-process.ts';
import type { QuietSlices } from '../frame/quiet-slices.ts';
import { median, runRounds, type Plan, type Slice } from '../frame/rounds.ts';
import type { Table } from '../frame/table.ts';
import { accepts, freePort, processorUs } from '../gateway/program.ts';
import { startServer, type Server } from '../redis/server.ts';

const START_TIMEOUT_MS = 20_000;
const CONNECTIONS = 64;

/** Nobody is ever denied. The same file for both: each counts the requests of a user in an hour. */
const DESCRIPTORS = `
domain: shop
descriptors: [{ key: user, rate_limit: { unit: hour, requests_per_unit: 4000000000 } }]
`;

/** What Envoy asks. Each has a Redis of its own, so that its share can be told. */
interface AskedServer {
  readonly id: string;
  readonly title: string;
  /** Of gRPC. */
  readonly port: number;
  readonly cpuUs: () => number;
  readonly redis: Server | undefined;
  readonly stop: () => void;
}

interface EnvoySlice extends Slice {
  readonly serverUs: number;
  readonly redisUs: number;
  readonly envoyUs: number;
}

/** Processor time per request, by server. */
export interface BehindEnvoy {
  readonly tables: readonly Table[];
  /** Microseconds of the server itself for one decision; NaN if it was not measured. */
  readonly usOf: (id: 'ours' | 'memory' | 'reference') => number;
  readonly summary: string;
}

type EnvoyPart = 'serverUs' | 'redisUs' | 'envoyUs';

export async function measureBehindEnvoy(plan: Plan, quiet: QuietSlices): Promise<BehindEnvoy> {
  const envoyProgram = provide('envoy');
  if (envoyProgram.program === undefined) return nothing(envoyProgram.missing);
  const referenceProgram = provide('ratelimit');
  const folder = mkdtempSync(join(tmpdir(), 'spillgate-bench-envoy-'));
  const directory = writeDescriptors(folder, DESCRIPTORS);
  const servers = [await ours(directory, true), await ours(directory, false)];
  if (referenceProgram.program !== undefined) servers.push(await reference(folder, referenceProgram.program));
  const envoy = await startEnvoy(folder, envoyProgram.program, servers);
  try {
    const slices = await runRounds(
      servers.map((server, at) => ({
        id: server.id,
        slice: async (budgetMs: number) =>
          quiet.run(
            async () => sliceOf(server, { envoy: envoy.child, port: envoy.ports[at] ?? 0, budgetMs }),
            ({ serverUs, redisUs, envoyUs }) => (serverUs + redisUs + envoyUs) / 1000,
          ),
      })),
      plan,
    );
    const skipped = referenceProgram.program === undefined ? ` ${referenceProgram.missing}` : '';
    return resultOf(servers, slices, skipped);
  } finally {
    envoy.child.kill('SIGKILL');
    for (const { stop } of servers) stop();
  }
}

function nothing(missing: string): BehindEnvoy {
  return { tables: [], usOf: () => Number.NaN, summary: missing };
}

async function ours(directory: string, withRedis: boolean): Promise<AskedServer> {
  const redis = withRedis ? await startServer() : undefined;
  const service = await GatewayProcess.serve({
    service: { address: '127.0.0.1:0', rls: { directory } },
    ...(redis === undefined ? {} : { redis: { endpoints: [`127.0.0.1:${redis.port}`] } }),
    rate_limit: { deadline: '10s' },
  });
  return {
    id: withRedis ? 'ours' : 'memory',
    title: withRedis ? 'spillgate serve, Redis' : 'spillgate serve, in memory',
    port: service.port,
    cpuUs: () => service.cpuUs(),
    redis,
    stop: () => {
      service.stop();
      void redis?.stop();
    },
  };
}

async function reference(folder: string, program: string): Promise<AskedServer> {
  const redis = await startServer();
  const port = await freePort();
  const environment = await referenceEnvironment({ root: folder, port, redisPort: redis.port });
  const child = await started(port, program, [], environment);
  return {
    id: 'reference',
    title: 'envoyproxy/ratelimit, Redis',
    port,
    cpuUs: () => processorUs(child.pid ?? 0),
    redis,
    stop: () => {
      child.kill('SIGKILL');
      void redis.stop();
    },
  };
}

/** One Envoy with a listener per server. Another listener of it is their backend: a program more would add noise. */
async function startEnvoy(
  folder: string,
  program: string,
  servers: readonly AskedServer[],
): Promise<{ readonly child: ChildProcess; readonly ports: readonly number[] }> {
  const ports: number[] = [];
  for (const _ of servers) ports.push(await freePort());
  const backendPort = await freePort();
  const file = join(folder, 'envoy.json');
  writeFileSync(
    file,
    JSON.stringify({
      static_resources: {
        listeners: [
          ...servers.map(({ id }, at) => limitedListener(id, ports[at] ?? 0)),
          listenerOf({
            name: 'backend',
            port: backendPort,
            action: { direct_response: { status: 200 } },
          }),
        ],
        clusters: [
          ...servers.map(({ id, port }) => grpcClusterOf(id, port)),
          clusterOf('backend', backendPort),
        ],
      },
    }),
  );
  const child = await started(ports[0] ?? 0, program, envoyArguments(file), {});
  return { child, ports };
}

function limitedListener(id: string, port: number): object {
  const actions = [{ request_headers: { header_name: 'x-user', descriptor_key: 'user' } }];
  return listenerOf({
    name: id,
    port,
    action: { route: { cluster: 'backend', rate_limits: [{ actions }] } },
    filters: [rateLimitFilter(id, 'shop')],
  });
}

async function started(
  port: number,
  program: string,
  args: readonly string[],
  env: Readonly<Record<string, string>>,
): Promise<ChildProcess> {
  const child = spawn(program, args, {
    env: { PATH: process.env['PATH'] ?? '', ...env },
    stdio: ['ignore', 'ignore', 'inherit'],
  });
  const deadline = performance.now() + START_TIMEOUT_MS;
  while (!(await accepts(port))) {
    if (child.exitCode !== null || performance.now() > deadline) {
      child.kill('SIGKILL');
      throw new Error(`${program} does not serve port ${port}.`);
    }
    await sleep(20);
  }
  return child;
}

async function sliceOf(
  server: AskedServer,
  {
    envoy,
    port,
    budgetMs,
  }: { readonly envoy: ChildProcess; readonly port: number; readonly budgetMs: number },
): Promise<EnvoySlice> {
  const times = async (): Promise<readonly [number, number, number]> => [
    server.cpuUs(),
    ((await server.redis?.cpuMs()) ?? 0) * 1000,
    processorUs(envoy.pid ?? 0),
  ];
  const before = await times();
  const startedMs = performance.now();
  const operations = await askEnvoy(port, budgetMs);
  const elapsedMs = performance.now() - startedMs;
  const after = await times();
  const [serverUs = 0, redisUs = 0, envoyUs = 0] = after.map((time, at) => time - (before[at] ?? 0));
  return { operations, elapsedMs, serverUs, redisUs, envoyUs };
}

/** Requests of many users over connections that stay open; resolves to how many were answered. */
async function askEnvoy(port: number, budgetMs: number): Promise<number> {
  const agent = new Agent({ keepAlive: true, maxSockets: CONNECTIONS });
  const end = performance.now() + budgetMs;
  let sent = 0;
  const lane = async (_: unknown, user: number): Promise<void> => {
    while (performance.now() < end) {
      await askOnce(agent, port, `user-${user}`);
      sent += 1;
    }
  };
  await Promise.all(Array.from({ length: CONNECTIONS }, lane));
  agent.destroy();
  return sent;
}

async function askOnce(agent: Agent, port: number, user: string): Promise<void> {
  return new Promise((resolve, reject) => {
    const call = request({ host: '127.0.0.1', port, agent, headers: { 'x-user': user } }, (response) => {
      const { statusCode, headers } = response;
      response.resume();
      response.once('end', () => {
        if (statusCode === 200 && headers['x-ratelimit-remaining'] !== undefined) resolve();
        else reject(new Error(`Envoy answered ${statusCode}, and nothing was decided`));
      });
    });
    call.once('error', reject);
    call.end();
  });
}

function resultOf(
  servers: readonly AskedServer[],
  slices: ReadonlyMap<string, readonly EnvoySlice[]>,
  skipped: string,
): BehindEnvoy {
  const us = (id: string, part: EnvoyPart): number =>
    median((slices.get(id) ?? []).map((slice) => slice[part] / slice.operations));
  return {
    usOf: (id) => us(id, 'serverUs'),
    summary: `Behind Envoy: one Envoy with a worker asks each of them for every request, ${CONNECTIONS} requests at a time from as many users.${skipped}`,
    tables: [
      {
        title: 'Behind one Envoy, processor us per decision',
        columns: [
          { title: 'server', align: 'left' },
          { title: 'the server', align: 'right' },
          { title: 'its Redis', align: 'right' },
          { title: 'Envoy', align: 'right' },
        ],
        rows: servers.map(({ id, title, redis }) => [
          title,
          us(id, 'serverUs').toFixed(0),
          redis === undefined ? '' : us(id, 'redisUs').toFixed(0),
          us(id, 'envoyUs').toFixed(0),
        ]),
      },
    ],
  };
}
