// Builds applications of Next.js with the packed library, by Turbopack, starts them and asks their routes. Run from the
// root of the repository, after `npm run build`.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { rm } from 'node:fs/promises';
import { join, resolve } from 'node:path';
import { mustRun } from './command.ts';
import { NEXT_APPLICATIONS, type NextRequestCheck } from './package-check/next-project.ts';
import { freePort, startRedis } from './package-check/redis-process.ts';
import { pack } from './package-check/tarball.ts';
import { installTools, NEXT_TOOLS, unpackInto, writeFiles } from './package-check/tools.ts';

const BUILD_DEADLINE_MS = 300_000;
const tarball = resolve(await pack());
const folder = await installTools('next', NEXT_TOOLS);
await unpackInto(join(folder, 'node_modules/spillgate'), tarball);
/** What an application may have left for the next one. */
const LEFT = [
  '.next',
  'app',
  'jsconfig.json',
  'limits.js',
  'next-env.d.ts',
  'proxy.js',
  'proxy.ts',
  'tsconfig.json',
];

const redis = await startRedis();
const environment = { REDIS_PORT: String(redis.port), NEXT_TELEMETRY_DISABLED: '1' };
const next = join(folder, 'node_modules/next/dist/bin/next');
try {
  for (const { name, files, requests } of NEXT_APPLICATIONS) {
    await Promise.all(LEFT.map(async (path) => rm(join(folder, path), { recursive: true, force: true })));
    await writeFiles(folder, files);
    console.log(`  next build: ${name}`);
    await mustRun(process.execPath, [next, 'build'], {
      cwd: folder,
      environment,
      deadlineMs: BUILD_DEADLINE_MS,
    });
    await checkStarted(requests);
  }
} finally {
  await redis.stop();
}
console.log('The library works in Next.js.');

async function checkStarted(requests: readonly NextRequestCheck[]): Promise<void> {
  const port = await freePort();
  const server = spawn(process.execPath, [next, 'start', '--port', String(port), '--hostname', '127.0.0.1'], {
    cwd: folder,
    env: { ...process.env, ...environment },
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  const ended = once(server, 'exit');
  try {
    for await (const chunk of server.stdout) if (String(chunk).includes('Ready')) break;
    for (const [at, request] of requests.entries()) {
      // A client of its own: two routes share their limits.
      const headers = { 'X-Forwarded-For': `192.0.2.${at}` };
      await checkRoute(`http://127.0.0.1:${port}${request.path}`, headers, request);
    }
  } finally {
    server.kill();
    await ended;
  }
}

async function checkRoute(
  url: string,
  headers: Readonly<Record<string, string>>,
  expected: NextRequestCheck,
): Promise<void> {
  const responses = [await fetch(url, { headers }), await fetch(url, { headers })];
  const statuses = responses.map(({ status }) => status);
  const policies = responses[0]?.headers.get('ratelimit-policy');
  if (statuses.join() !== expected.statuses.join() || policies !== expected.policies) {
    throw new Error(`${expected.path} answered ${statuses.join()} with the policies ${policies}`);
  }
  console.log(`  ok     ${expected.path}: ${policies}`);
}
