import { spawn } from 'node:child_process';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { setTimeout as sleep } from 'node:timers/promises';

import type { Redis } from 'ioredis';

import { prepareSystem } from '../frame/prepare-system.ts';
import { openIoredis } from './connections.ts';
import { numberField, scriptCalls } from './server-info.ts';

const START_TIMEOUT_MS = 5000;

/** The server ends when this shell's input does: whatever happens to the benchmark, no server outlives it. */
const KEEPER = 'redis-server "$@" >/dev/null & read -r _; kill -9 $!; wait';

/** A redis-server of its own for one run, with nothing on disk. */
export interface Server {
  readonly port: number;
  readonly pid: number;
  readonly version: string;
  /** For everything that is not measured. */
  readonly admin: Redis;
  /** Processor time that the thread which runs commands has used so far. */
  readonly cpuMs: () => Promise<number>;
  readonly counters: () => Promise<ServerCounters>;
  readonly stop: () => Promise<void>;
}

export interface ServerCounters {
  readonly cpuMs: number;
  /** Of clients; what a script does inside is no call. */
  readonly scriptCalls: number;
}

export async function startServer(): Promise<Server> {
  prepareSystem();
  const port = await freePort();
  const settings = ['--bind', '127.0.0.1', '--port', String(port), '--dir', tmpdir(), '--save', ''];
  // A process group of its own: Ctrl-C ends the benchmark, and then the shell still ends the server.
  const keeper = spawn('sh', ['-c', KEEPER, 'redis-keeper', ...settings, '--appendonly', 'no'], {
    detached: true,
    stdio: ['pipe', 'ignore', 'inherit'],
  });
  const ended = new Promise<void>((resolve) => keeper.once('exit', () => resolve()));
  const stop = async (): Promise<void> => {
    keeper.stdin.end();
    await ended;
  };
  const admin = await connectWhenUp(port).catch(async (error: unknown) => {
    await stop();
    throw error;
  });
  const about = await admin.info('server');
  const version = /redis_version:(\S+)/.exec(about)?.[1] ?? 'of unknown version';
  return {
    port,
    pid: numberField(about, 'process_id'),
    version,
    admin,
    cpuMs: async () => cpuMs(await admin.info('cpu')),
    counters: async () => {
      const info = await admin.info('cpu', 'commandstats');
      return { cpuMs: cpuMs(info), scriptCalls: scriptCalls(info) };
    },
    stop: async () => {
      admin.disconnect();
      await stop();
    },
  };
}

function cpuMs(info: string): number {
  const seconds =
    numberField(info, 'used_cpu_user_main_thread') + numberField(info, 'used_cpu_sys_main_thread');
  return seconds * 1000;
}

async function connectWhenUp(port: number): Promise<Redis> {
  const admin = openIoredis(port);
  // Refused connections until the server listens; ioredis tries again by itself.
  admin.on('error', () => undefined);
  const timeout = AbortSignal.timeout(START_TIMEOUT_MS);
  while (admin.status !== 'ready') {
    if (timeout.aborted) {
      admin.disconnect();
      throw new Error(
        `redis-server did not answer on port ${port} within ${START_TIMEOUT_MS} ms: is it installed (sh scripts/prepare-system.sh)?`,
      );
    }
    await sleep(20);
  }
  return admin;
}

async function freePort(): Promise<number> {
  const probe = createServer();
  await new Promise<void>((resolve, reject) => {
    probe.once('error', reject);
    probe.listen({ host: '127.0.0.1', port: 0 }, resolve);
  });
  const address = probe.address();
  await new Promise((resolve) => probe.close(resolve));
  if (address === null || typeof address === 'string') throw new Error('No free port found.');
  return address.port;
}
