// A tool that checks nothing looks like a tool that found nothing. So every violation that a guard exists for is
// planted into a sandbox with the real configuration, and the real command must fail and name it.
import { readdirSync, renameSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { PLANTED_LINT_ERRORS } from './guards/planted-lint.ts';
import {
  CARELESS_PACKAGE,
  CHOSEN_TESTS,
  GOOD_PACKAGE,
  PLANTED_TESTS,
  UNPUBLISHABLE_PACKAGE,
  UNTYPED_PACKAGE,
  UNUSED_THINGS,
} from './guards/planted-packages.ts';
import { PLANTED_TYPE_ERRORS, TYPE_SUPPORT } from './guards/planted-types.ts';
import { type Outcome, type PlantedFile, Sandbox } from './guards/sandbox.ts';
import { redisScriptParts } from './generators/redis-script.ts';
import { contentProblems } from './package-check/tarball.ts';

const REPOSITORY = fileURLToPath(new URL('..', import.meta.url));
const DEADLINE_MS = 60_000;
const sandboxes: Sandbox[] = [];

afterAll(() => {
  for (const sandbox of sandboxes) sandbox.remove();
});

describe('npm run typecheck', () => {
  const outcome = once(async () => sandboxWith([...PLANTED_TYPE_ERRORS, ...TYPE_SUPPORT]).npm('typecheck'));

  test.each(PLANTED_TYPE_ERRORS)('fails for $guard', ({ path, code }) => {
    expect(outcome().exitCode).not.toBe(0);
    expect(outcome().lines).toContainEqual(expect.stringMatching(startOf(`${path}(`, `error ${code}`)));
  });
});

describe('npm run lint', () => {
  const outcome = once(async () => sandboxWith(PLANTED_LINT_ERRORS).npm('lint', '--format=unix'));

  test.each(PLANTED_LINT_ERRORS)('fails for $rule in $path', ({ path, rule }) => {
    expect(outcome().exitCode).not.toBe(0);
    expect(outcome().lines).toContainEqual(expect.stringMatching(startOf(`${path}:`, rule)));
  });
});

describe('npm run format:check', () => {
  const planted = [
    { path: 'scripts/formatted.ts', text: "export const a = 'b';\n" },
    { path: 'scripts/double-quotes.ts', text: 'export const a = "b";\n' },
    { path: 'examples/four-spaces.json', text: '{\n    "a": 1\n}\n' },
  ];
  const outcome = once(async () => sandboxWith(planted).npm('format:check'));

  test.each(['scripts/double-quotes.ts', 'examples/four-spaces.json'])('fails for %s', (path) => {
    expect(outcome().exitCode).not.toBe(0);
    expect(outcome().lines).toContainEqual(expect.stringMatching(startOf(path)));
  });

  test('accepts what is formatted', () => {
    expect(outcome().lines).not.toContainEqual(expect.stringContaining('scripts/formatted.ts'));
  });
});

describe('npm run knip', () => {
  const outcome = once(async () => sandboxWith(UNUSED_THINGS).npm('knip', '--reporter=compact'));

  test.each([
    ['an unused dependency', 'packages/limiter/package.json: unused-dependency'],
    ['a dependency that is not listed', 'packages/limiter/src/index.ts: unlisted-dependency'],
    ['an unused export', 'packages/limiter/src/part.ts: unusedExport'],
    ['an unused export in the scripts', 'scripts/parts/part.ts: unusedInScripts'],
    ['an unused file', 'packages/limiter/src/unused-file.ts'],
  ])('fails for %s', (_thing, line) => {
    expect(outcome().exitCode).not.toBe(0);
    expect(outcome().lines).toContainEqual(expect.stringMatching(startOf(line)));
  });
});

describe('npm run lint:package', () => {
  test.each([
    ['an entry point that does not exist', UNPUBLISHABLE_PACKAGE, 'missing.js'],
    ['declarations that do not resolve', UNTYPED_PACKAGE, 'Internal resolution error'],
  ])('fails for %s', { timeout: DEADLINE_MS }, async (_problem, files, report) => {
    const { exitCode, lines } = await lintPackage(files);

    expect(exitCode).not.toBe(0);
    expect(lines.join('\n')).toContain(report);
  });

  test('accepts a good package', { timeout: DEADLINE_MS }, async () => {
    const { exitCode, lines } = await lintPackage(GOOD_PACKAGE);

    expect({ exitCode, lines }).toMatchObject({ exitCode: 0 });
  });
});

test('npm run check:package rejects what must not be shipped', () => {
  const { root } = sandboxWith(CARELESS_PACKAGE.map((file) => ({ ...file, path: `installed/${file.path}` })));

  const problems = contentProblems(
    join(root, 'installed'),
    CARELESS_PACKAGE.map(({ path }) => path),
  );

  expect(problems).toEqual([
    'README.md is missing',
    'LICENSE is missing',
    'dist/cjs/package.json is missing',
    'package.json has "dependencies"',
    'package.json has "scripts"',
    "dist/index.d.ts imports './limiter.ts', which is not in the package",
    'dist/limiter.test.js is a test',
    'dist/no-longer-there.js has no source any more; remove dist/',
    'dist/tsconfig.tsbuildinfo has no business in the package',
    'src/index.ts has no business in the package',
  ]);
});

test('npm run generate:check fails for a stale file and names it', { timeout: DEADLINE_MS }, async () => {
  const sandbox = sandboxWith([
    { path: 'LICENSE', text: 'new' },
    { path: 'packages/limiter/LICENSE', text: 'old' },
    ...redisScriptParts(REPOSITORY).map((path) => ({ path, text: 'return 1\n' })),
  ]);

  const outcome = await sandbox.command(process.execPath, [
    join(REPOSITORY, 'build/scripts/generate.js'),
    '--check',
  ]);

  expect(outcome.exitCode).not.toBe(0);
  expect(outcome.lines).toContain('packages/limiter/LICENSE is stale; run: npm run generate');
  expect(outcome.lines).toContain('docs/errors.md is stale; run: npm run generate');
  expect(outcome.lines).toContain(
    'packages/limiter/src/stores/redis/script.generated.ts is stale; run: npm run generate',
  );
});

describe('vitest', () => {
  const outcome = once(async () =>
    sandboxWith(PLANTED_TESTS).command('npx', ['vitest', 'run', '--project', 'tests']),
  );

  test.each(['asserts-nothing', 'focuses', 'does-not-load'])('fails for a test that %s', (name) => {
    expect(outcome().exitCode).not.toBe(0);
    expect(outcome().lines).toContainEqual(
      expect.stringMatching(new RegExp(`FAIL .*scripts/${name}\\.test\\.ts`)),
    );
  });

  test('ends with the count of what passed and what did not', () => {
    expect(lastLine(outcome())).toBe('1 passed, 4 failed');
  });

  test.each([
    ['group wanted', '1 passed, 1 failed'],
    ['wanted$', '1 passed, 0 failed'],
  ])('counts with -t %j only what was asked for', { timeout: DEADLINE_MS }, async (pattern, count) => {
    const sandbox = sandboxWith(CHOSEN_TESTS);

    const chosen = await sandbox.command('npx', ['vitest', 'run', '--project', 'tests', '-t', pattern]);

    expect(lastLine(chosen)).toBe(count);
  });

  test('fails when it finds no test at all', { timeout: DEADLINE_MS }, async () => {
    const { exitCode } = await sandboxWith([]).command('npx', ['vitest', 'run', '--project', 'tests']);

    expect(exitCode).not.toBe(0);
  });
});

function sandboxWith(files: readonly PlantedFile[]): Sandbox {
  const sandbox = new Sandbox(REPOSITORY).plant(files);
  sandboxes.push(sandbox);
  return sandbox;
}

/** Runs a command once for all tests of a block. */
function once(command: () => Promise<Outcome>): () => Outcome {
  let outcome: Outcome | undefined;
  beforeAll(async () => {
    outcome = await command();
  }, DEADLINE_MS);
  return () => {
    if (outcome === undefined) throw new Error('the command has not run');
    return outcome;
  };
}

function lastLine({ lines }: Outcome): string | undefined {
  return lines.filter((line) => line !== '').at(-1);
}

async function lintPackage(files: readonly PlantedFile[]): Promise<Outcome> {
  const sandbox = sandboxWith(files);
  const packed = await sandbox
    .plant([{ path: 'build/package/.keep', text: '' }])
    .command('npm', ['pack', './packages/limiter', '--pack-destination', 'build/package']);
  if (packed.exitCode !== 0) return packed;
  const [name = ''] = readdirSync(join(sandbox.root, 'build/package')).filter((file) =>
    file.endsWith('.tgz'),
  );
  renameSync(join(sandbox.root, 'build/package', name), join(sandbox.root, 'build/package/spillgate.tgz'));
  return sandbox.npm('lint:package');
}

function startOf(text: string, then = ''): RegExp {
  return new RegExp(`^${escape(text)}.*${escape(then)}`);
}

function escape(text: string): string {
  return text.replaceAll(/[$()*+./?[\\\]^{|}-]/g, String.raw`\$&`);
}
