// Programs that send as many requests as they are told and end. They use public entry points only, so that they run on
// any version of the tree.
import { spawn } from 'node:child_process';
import { createServer, type Server } from 'node:http';
import { type AddressInfo, connect, createServer as createSocketServer } from 'node:net';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';

export interface WalkRun {
  /** The root of a built tree. */
  readonly tree: string;
  readonly requests: number;
  /** Where V8 writes its counts, and files may be put. */
  readonly folder: string;
}

type WalkProgram = (run: WalkRun) => Promise<void>;

const DEADLINE_MS = 30_000;
const POLL_MS = 20;

const POLICY = `tokenBucket({ name: 'api', average: 100, burst: 100_000, period: '1s' })`;

export const WALK_PROGRAMS: ReadonlyMap<string, WalkProgram> = new Map([
  [
    'check in memory',
    async (run) =>
      script(
        run,
        `import { createLimiter, tokenBucket } from '${run.tree}/packages/limiter/dist/index.js';
const limiter = createLimiter();
const api = ${POLICY};
for (let sent = 0; sent < ${run.requests}; sent += 1) await limiter.check(api.for('ann'));
await limiter.close();`,
      ),
  ],
  ['check in Redis', checkInRedis],
  [
    'request in Express',
    async (run) =>
      script(
        run,
        `import { createRequire } from 'node:module';
import { createLimiter, tokenBucket } from '${run.tree}/packages/limiter/dist/index.js';
import { rateLimit } from '${run.tree}/packages/limiter/dist/adapters/express.js';
const express = createRequire('${run.tree}/package.json')('express');
const app = express();
app.use(rateLimit({ limiter: createLimiter(), policies: ${POLICY} }));
app.get('/', (request, response) => response.end('hello'));
const server = app.listen(0, '127.0.0.1', async () => {
  const url = 'http://127.0.0.1:' + server.address().port;
  for (let sent = 0; sent < ${run.requests}; sent += 1) await (await fetch(url)).text();
  server.close();
  server.closeAllConnections();
});`,
      ),
  ],
  ['request through the gateway', requestThroughGateway],
]);

async function checkInRedis(run: WalkRun): Promise<void> {
  const port = await freePort();
  const redis = spawn('redis-server', ['--port', `${port}`, '--bind', '127.0.0.1', '--save', '']);
  const ended = endOf(redis);
  try {
    await answers(port);
    await script(
      run,
      `import { createLimiter, tokenBucket } from '${run.tree}/packages/limiter/dist/index.js';
import { redisStore } from '${run.tree}/packages/limiter/dist/stores/redis/index.js';
const store = redisStore({ url: 'redis://127.0.0.1:${port}' });
const limiter = createLimiter({ store, deadlineMs: 5000 });
const api = ${POLICY};
await store.ready();
for (let sent = 0; sent < ${run.requests}; sent += 1) await limiter.check(api.for('ann'));
await limiter.close();`,
    );
  } finally {
    redis.kill();
    await ended;
  }
}

async function requestThroughGateway({ tree, requests, folder }: WalkRun): Promise<void> {
  const backend = createServer((_, response) => response.end('hello'));
  const backendPort = await listen(backend);
  const [port, adminPort] = [await freePort(), await freePort()];
  const file = join(folder, 'spillgate.yaml');
  writeFileSync(
    file,
    `server: { address: "127.0.0.1:${port}" }
admin: { address: "127.0.0.1:${adminPort}" }
backend: { url: "http://127.0.0.1:${backendPort}" }
rate_limit: { average: 100, burst: 100000, period: "1s" }
`,
  );
  const gateway = spawn(process.execPath, [join(tree, 'packages/gateway/dist/main.js'), 'run', file], {
    env: { ...process.env, NODE_V8_COVERAGE: folder },
    stdio: ['ignore', 'ignore', 'inherit'],
  });
  const ended = endOf(gateway);
  try {
    await answers(port);
    for (let sent = 0; sent < requests; sent += 1) {
      await (await fetch(`http://127.0.0.1:${port}/`)).text();
    }
  } finally {
    gateway.kill('SIGTERM');
    await ended;
    backend.close();
    backend.closeAllConnections();
  }
}

async function script({ tree, folder }: WalkRun, text: string): Promise<void> {
  const file = join(folder, 'program.mjs');
  writeFileSync(file, text);
  const child = spawn(process.execPath, [file], {
    cwd: tree,
    env: { ...process.env, NODE_V8_COVERAGE: folder },
    stdio: ['ignore', 'ignore', 'inherit'],
    timeout: DEADLINE_MS,
  });
  const code = await endOf(child);
  if (code !== 0) throw new Error(`${text}\nended with exit code ${code}`);
}

async function endOf(child: ReturnType<typeof spawn>): Promise<number | null> {
  return new Promise((resolve, reject) => {
    child.on('error', reject);
    child.on('close', resolve);
  });
}

async function listen(server: Server): Promise<number> {
  return new Promise((resolve) => {
    server.listen(0, '127.0.0.1', () => resolve(portOf(server.address())));
  });
}

async function freePort(): Promise<number> {
  return new Promise((resolve) => {
    const server = createSocketServer();
    server.listen(0, '127.0.0.1', () => {
      const port = portOf(server.address());
      server.close(() => resolve(port));
    });
  });
}

function portOf(address: AddressInfo | string | null): number {
  if (address === null || typeof address === 'string') throw new TypeError('not listening on a port');
  return address.port;
}

/** Waits until something accepts connections on the port. */
async function answers(port: number): Promise<void> {
  const until = Date.now() + DEADLINE_MS;
  while (!(await accepts(port))) {
    if (Date.now() > until) throw new Error(`nothing listens on port ${port}`);
    await new Promise((resolve) => setTimeout(resolve, POLL_MS));
  }
}

async function accepts(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect(port, '127.0.0.1');
    socket.on('connect', () => {
      socket.destroy();
      resolve(true);
    });
    socket.on('error', () => resolve(false));
  });
}
