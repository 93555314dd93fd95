import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { connect, createServer } from 'node:net';

export interface RedisProcess {
  readonly port: number;
  stop(): Promise<void>;
}

const START_DEADLINE_MS = 20_000;

/** A Redis server of our own on this machine, which keeps nothing. */
export async function startRedis(): Promise<RedisProcess> {
  const port = await freePort();
  const server = spawn(
    'redis-server',
    ['--port', String(port), '--bind', '127.0.0.1', '--save', '', '--appendonly', 'no'],
    { stdio: 'ignore' },
  );
  const ended = once(server, 'exit');
  const startedMs = performance.now();
  while (!(await accepts(port))) {
    if (performance.now() - startedMs > START_DEADLINE_MS) throw new Error('redis-server does not start');
  }
  return {
    port,
    stop: async () => {
      server.kill();
      await ended;
    },
  };
}

export async function freePort(): Promise<number> {
  const probe = createServer().listen(0, '127.0.0.1');
  await once(probe, 'listening');
  const address = probe.address();
  probe.close();
  await once(probe, 'close');
  if (typeof address !== 'object' || address === null) throw new Error('there is no free port');
  return address.port;
}

function accepts(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect(port, '127.0.0.1');
    socket.on('connect', () => resolve(true));
    socket.on('error', () => setTimeout(() => resolve(false), 20));
    socket.on('connect', () => socket.end());
  });
}
