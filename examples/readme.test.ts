// Code in the documents is code. A `ts` block compiles against the package and runs without an error. Further marks:
// - `runnable`: it prints what the `text output` block after it says;
// - `server`: a server that is started and asked until it refuses;
// - `client`: a client that is refused once by a server in the place of api.example.com;
// - `redis`: run by test/redis/store/documents.test.ts, with a Redis server;
// - `before`, `after`: run by test/migrate;
// - `next`: run by scripts/check-next.ts, in an application of Next.js;
// - `compile-only`: it needs something that is not there, such as servers of five kinds.
// A `yaml` block is a whole configuration of the gateway, and the commands of a `sh` block are commands that exist.
import { execFile } from 'node:child_process';
import { readdirSync, readFileSync } from 'node:fs';
import { promisify } from 'node:util';
import { formatProblem, loadConfig } from 'spillgate-gateway';
import { beforeAll, expect, test } from 'vitest';
import { statusesOfClient } from './documents/client-program.ts';
import { codeBlocks } from './documents/code-blocks.ts';
import { compileBlocks, type CompiledBlocks } from './documents/compile-blocks.ts';
import { errorsOfAll } from './documents/run-all.ts';
import { statusesUntilRefusal } from './documents/server-program.ts';

const REPOSITORY = new URL('../', import.meta.url);
// Not build/documents, where the compiler puts what is in documents.
const BUILD = new URL('build/pages/', import.meta.url);
const DEADLINE_MS = 60_000;
/** Anything else would not be looked at here, and is probably a typing error. */
const KNOWN_INFOS = [
  'ts',
  'ts runnable',
  'ts server',
  'ts before',
  'ts after',
  'ts client',
  'ts redis',
  'ts next',
  'ts compile-only',
  'text',
  'text output',
  'sh',
  'json',
  'yaml',
  // They run in the tests of the proxies.
  'nginx',
  'caddyfile',
  'haproxy',
  'lua',
  'yaml envoy-rls',
  'yaml envoy-filter-grpc',
  'yaml envoy-filter-http',
  'go rls',
  'python rls',
  'java rls',
  'text go-packages',
  'text python-packages',
  'yaml traefik',
  // They run in a test of their own, packages/gateway/test/service/migrate-ratelimit.test.ts.
  'yaml ratelimit',
  'yaml service',
  'yaml envoy',
  'go',
  'python',
  'java',
];

const run = promisify(execFile);
const blocks = documents().flatMap((path) =>
  codeBlocks(path, readFileSync(new URL(path, REPOSITORY), 'utf8')),
);
const programs = blocks.filter(({ info }) => info.startsWith('ts'));
const runnable = programs.filter(({ info }) => info === 'ts runnable');
const configurations = blocks.filter(({ info }) => info === 'yaml');
const clients = programs.filter(({ info }) => info === 'ts client');
const servers = programs.filter(({ info }) => info === 'ts server');
let compiled: CompiledBlocks;

beforeAll(async () => {
  compiled = await compileBlocks(programs, BUILD, REPOSITORY);
}, DEADLINE_MS);

test('every TypeScript block in the documents compiles', () => {
  expect(compiled.complaints).toBe('');
});

test.each(runnable.map((block) => [`${block.document}:${block.line}`, block] as const))(
  '%s runs and prints what it says',
  async (_, block) => {
    const { stdout, stderr } = await run(process.execPath, [compiled.programOf(block)]);

    expect(stderr).toBe('');
    if (block.output !== undefined) expect(stdout).toBe(block.output);
  },
);

test('every other block runs without an error', async () => {
  const others = programs.filter(({ info }) => info === 'ts');

  expect(others.length).toBeGreaterThan(20);
  expect(await errorsOfAll(others.map((block) => compiled.programOf(block)))).toBe('');
});

test.each(servers.map((block) => [`${block.document}:${block.line}`, block] as const))(
  '%s is a server of at most 10 lines that limits its clients',
  async (_, block) => {
    const statuses = await statusesUntilRefusal(compiled.programOf(block), 500);

    expect(block.text.trimEnd().split('\n').length).toBeLessThanOrEqual(10);
    // At least: where the machine is slow, tokens come back in the meantime.
    expect(statuses.length).toBeGreaterThan(50);
    expect(new Set(statuses.slice(0, -1))).toEqual(new Set([200]));
    expect(statuses.at(-1)).toBe(429);
  },
);

test.each(clients.map((block) => [`${block.document}:${block.line}`, block] as const))(
  '%s is a client that comes again when it is refused',
  async (_, block) => {
    expect(await statusesOfClient(compiled.programOf(block))).toEqual([429, 200]);
  },
);

test.each(configurations.map((block) => [`${block.document}:${block.line}`, block] as const))(
  '%s is a configuration that the gateway takes, without a warning',
  (path, { text }) => {
    const { problems } = loadConfig({ file: { path, text }, env: {} });

    expect(problems.map(formatProblem)).toEqual([]);
  },
);

test('the tutorial of the gateway shows configurations', () => {
  expect(configurations.filter(({ document }) => document === 'docs/gateway.md').length).toBeGreaterThan(4);
});

test('the README shows a program that really runs, and says what it prints', () => {
  const [first] = blocks.filter(({ document, info }) => document === 'README.md' && info.startsWith('ts'));

  expect(first?.info).toBe('ts runnable');
  expect(first?.output).toBeDefined();
});

test('the index of the documents leads to every page', () => {
  const index = readFileSync(new URL('docs/README.md', REPOSITORY), 'utf8');
  const pages = readdirSync(new URL('docs/', REPOSITORY)).filter((name) => name.endsWith('.md'));

  expect(pages.filter((name) => name !== 'README.md' && !index.includes(`](${name})`))).toEqual([]);
});

test('every block in the documents says what it is', () => {
  const unknown = blocks.filter(({ info }) => !KNOWN_INFOS.includes(info));

  expect(unknown.map(({ document, line, info }) => `${document}:${line} is marked "${info}"`)).toEqual([]);
});

function documents(): readonly string[] {
  const folders = [
    '',
    'docs/',
    'docs/migrate/',
    'examples/',
    'bench/',
    'packages/limiter/',
    'packages/gateway/',
  ];
  return folders.flatMap((folder) =>
    readdirSync(new URL(folder === '' ? '.' : folder, REPOSITORY))
      .filter((name) => name.endsWith('.md'))
      .map((name) => folder + name),
  );
}
