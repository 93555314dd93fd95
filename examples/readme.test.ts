// Code in the documents is code: it compiles against the package, and what is marked `runnable` runs and prints what the
// `text output` block after it says. What is marked `server` is started and asked until it refuses.
import { execFile } from 'node:child_process';
import { readdirSync, readFileSync } from 'node:fs';
import { mkdir, rm, writeFile } from 'node:fs/promises';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { beforeAll, expect, test } from 'vitest';
import { codeBlocks, type CodeBlock } from './documents/code-blocks.ts';
import { statusesUntilRefusal } from './documents/server-program.ts';

const REPOSITORY = new URL('../', import.meta.url);
const BUILD = new URL('build/documents/', import.meta.url);
const COMPILER = fileURLToPath(new URL('node_modules/typescript/bin/tsc', REPOSITORY));
const DEADLINE_MS = 60_000;
/** Anything else would not be looked at here, and looks like a slip of the pen. */
const KNOWN_INFOS = ['ts', 'ts runnable', 'ts server', 'text', 'text output', 'sh', 'json'];

const run = promisify(execFile);
const blocks = documents().flatMap((path) =>
  codeBlocks(path, readFileSync(new URL(path, REPOSITORY), 'utf8')),
);
const programs = blocks.filter(({ info }) => info.startsWith('ts'));
const runnable = programs.filter(({ info }) => info === 'ts runnable');
const servers = programs.filter(({ info }) => info === 'ts server');
let compilerOutput = '';

beforeAll(async () => {
  await rm(BUILD, { recursive: true, force: true });
  await mkdir(BUILD, { recursive: true });
  // Blank lines in front: the compiler then names the line of the document.
  await Promise.all(
    programs.map(async (block) =>
      writeFile(new URL(`${nameOf(block)}.ts`, BUILD), `${'\n'.repeat(block.line - 1)}${block.text}`),
    ),
  );
  await writeFile(new URL('tsconfig.json', BUILD), JSON.stringify(COMPILER_CONFIGURATION));
  compilerOutput = await compile();
}, DEADLINE_MS);

test('every TypeScript block in the documents compiles', () => {
  expect(compilerOutput).toBe('');
});

test.each(runnable.map((block) => [`${block.document}:${block.line}`, block] as const))(
  '%s runs and prints what it says',
  async (_, block) => {
    const program = fileURLToPath(new URL(`js/${nameOf(block)}.js`, BUILD));

    const { stdout, stderr } = await run(process.execPath, [program]);

    expect(stderr).toBe('');
    if (block.output !== undefined) expect(stdout).toBe(block.output);
  },
);

test.each(servers.map((block) => [`${block.document}:${block.line}`, block] as const))(
  '%s is a server of at most 10 lines that limits its clients',
  async (_, block) => {
    const program = fileURLToPath(new URL(`js/${nameOf(block)}.js`, BUILD));

    const statuses = await statusesUntilRefusal(program, 500);

    expect(block.text.trimEnd().split('\n').length).toBeLessThanOrEqual(10);
    // At least: where the machine is slow, tokens come back meanwhile.
    expect(statuses.length).toBeGreaterThan(50);
    expect(new Set(statuses.slice(0, -1))).toEqual(new Set([200]));
    expect(statuses.at(-1)).toBe(429);
  },
);

test('the README shows a program that really runs, and says what it prints', () => {
  const [first] = blocks.filter(({ document, info }) => document === 'README.md' && info.startsWith('ts'));

  expect(first?.info).toBe('ts runnable');
  expect(first?.output).toBeDefined();
});

test('every block in the documents says what it is', () => {
  const unknown = blocks.filter(({ info }) => !KNOWN_INFOS.includes(info));

  expect(unknown.map(({ document, line, info }) => `${document}:${line} is marked "${info}"`)).toEqual([]);
});

const COMPILER_CONFIGURATION = {
  extends: '../../../tsconfig.base.json',
  compilerOptions: {
    rootDir: '.',
    outDir: 'js',
    composite: false,
    declaration: false,
    // As applications of NestJS have it.
    experimentalDecorators: true,
    // A document shows how a value is got; what is done with it is the reader's business.
    noUnusedLocals: false,
  },
  include: ['*.ts'],
};

function documents(): readonly string[] {
  const folders = ['', 'docs/', 'examples/', 'bench/', 'packages/limiter/', 'packages/gateway/'];
  return folders.flatMap((folder) =>
    readdirSync(new URL(folder === '' ? '.' : folder, REPOSITORY))
      .filter((name) => name.endsWith('.md'))
      .map((name) => folder + name),
  );
}

function nameOf({ document, line }: CodeBlock): string {
  return `${document.replace(/\.md$/, '').replaceAll('/', '-')}-${line}`;
}

async function compile(): Promise<string> {
  try {
    const { stdout } = await run(process.execPath, [COMPILER, '-p', fileURLToPath(BUILD)]);
    return stdout;
  } catch (error) {
    return error instanceof Error && 'stdout' in error ? String(error.stdout) : String(error);
  }
}
