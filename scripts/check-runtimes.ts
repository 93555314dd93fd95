// Uses the packed library where other people use it: several versions of Node.js, Bun and Deno; ES modules and
// CommonJS; Jest, ts-jest, ts-node and tsx; bundled by esbuild and webpack; with every Redis client. Run from the root
// of the repository, after `npm run build`.
import { join, resolve } from 'node:path';
import { run } from './command.ts';
import { startRedis } from './package-check/redis-process.ts';
import { CHECKED_ON_REDIS, RUNTIME_PROGRAMS } from './package-check/runtime-programs.ts';
import { runtimes } from './package-check/runtimes.ts';
import { pack } from './package-check/tarball.ts';
import { installTools, RUNTIME_TOOLS, unpackInto, writeFiles } from './package-check/tools.ts';

const CLIENTS: readonly string[] = ['ioredis', 'redis', 'iovalkey'];
const ESBUILD_OPTIONS: readonly string[] = [
  '--bundle',
  '--platform=node',
  '--outfile=bundled/esbuild.cjs',
  '--log-level=error',
];

const tarball = resolve(await pack());
const folder = await installTools('tools', RUNTIME_TOOLS);
await unpackInto(join(folder, 'node_modules/spillgate'), tarball);
await writeFiles(folder, RUNTIME_PROGRAMS);
const tool = (name: string): string => join(folder, 'node_modules/.bin', name);
const bun = join(folder, 'node_modules/@oven/bun-linux-x64/bin/bun');
const deno = [
  join(folder, 'node_modules/@deno/linux-x64-glibc/deno'),
  'run',
  '--quiet',
  '--allow-all',
  '--node-modules-dir=manual',
];

const redis = await startRedis();
const failures: string[] = [];
try {
  for (const { version, program } of await runtimes()) await checkRuntime(`Node ${version}`, [program]);
  await checkRuntime('Bun', [bun]);
  await checkRuntime('Deno', deno);
  await expectOutput('Bun: bodies of responses', [bun, 'bodies.mjs'], 'all the same');
  await expectOutput('Deno: bodies of responses', [...deno, 'bodies.mjs'], 'all the same');

  await expectOutput('tsx', [tool('tsx'), 'redis.ts'], CHECKED_ON_REDIS);
  await expectOutput('ts-node', [tool('ts-node'), 'redis.ts'], CHECKED_ON_REDIS);
  await expectOutput('tsc with node10 resolution', [tool('tsc'), '--noEmit', '-p', '.'], '');
  await expectOutput('Jest and ts-jest', [tool('jest'), '--config', 'jest.config.json'], /2 passed, 2 total/);

  await checkBundle('esbuild', [tool('esbuild'), 'redis.mjs', ...ESBUILD_OPTIONS]);
  await checkBundle('webpack', [process.execPath, 'run-webpack.cjs']);
} finally {
  await redis.stop();
}
if (failures.length > 0) throw new Error(`${failures.length} failed:\n${failures.join('\n')}`);
console.log('The library works everywhere.');

async function checkRuntime(name: string, program: readonly string[]): Promise<void> {
  for (const client of CLIENTS) {
    for (const file of ['redis.mjs', 'redis.cjs']) {
      await expectOutput(`${name}: ${file} with ${client}`, [...program, file, client], CHECKED_ON_REDIS);
    }
  }
  await expectOutput(`${name}: one instance`, [...program, 'one-instance.cjs'], 'true true');
}

/** Builds `bundled/<name>.cjs` and runs it. */
async function checkBundle(name: string, build: readonly string[]): Promise<void> {
  await expectOutput(`${name} builds`, build, '');
  await expectOutput(`${name}: the bundle`, [process.execPath, `bundled/${name}.cjs`], CHECKED_ON_REDIS);
}

/** A text is what the last line has to be: Deno begins with a note of its own. */
async function expectOutput(
  what: string,
  [program = '', ...args]: readonly string[],
  expected: string | RegExp,
): Promise<void> {
  const environment = { REDIS_PORT: String(redis.port) };
  const { exitCode, output } = await run(program, args, { cwd: folder, environment });
  const printed = output.trim();
  const lastLine = printed.slice(printed.lastIndexOf('\n') + 1);
  const isExpected = typeof expected === 'string' ? lastLine === expected : expected.test(printed);
  const isFine = exitCode === 0 && isExpected;
  console.log(`  ${isFine ? 'ok    ' : 'FAILED'} ${what}`);
  if (!isFine) failures.push(`${what} ended with ${exitCode} and printed\n${printed}\n`);
}
