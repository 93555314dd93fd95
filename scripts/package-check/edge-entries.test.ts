import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import { edgeProblems } from './edge-entries.ts';

/** A package with these modules, and empty ones where an entry for edge runtimes is left out. */
async function packageWith(modules: Readonly<Record<string, string>>): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), 'spillgate-edge-'));
  onTestFinished(() => rm(folder, { recursive: true }));
  const entries = ['index', 'http/index', 'adapters/fetch', 'adapters/hono'];
  const empty = Object.fromEntries(entries.map((entry) => [`dist/${entry}.js`, '']));
  for (const [path, text] of Object.entries({ ...empty, ...modules })) {
    await mkdir(dirname(join(folder, path)), { recursive: true });
    await writeFile(join(folder, path), text);
  }
  return folder;
}

test('entries that import only the package itself, also in a circle, are fine', async () => {
  const folder = await packageWith({
    'dist/index.js': "export * from './limiter.js';",
    'dist/limiter.js': "import './index.js';",
    'dist/adapters/node.js': "import 'node:http';",
  });

  expect(edgeProblems(folder)).toEqual([]);
});

test('what an entry pulls in from elsewhere is found, however far away', async () => {
  const folder = await packageWith({
    'dist/adapters/hono.js': "import { a } from '../http/a.js';\nexport const b = a;",
    'dist/http/a.js': "export { a } from './deep/a.js';",
    'dist/http/deep/a.js': "import { hash } from 'node:crypto';\nexport const a = await import('hono');",
  });

  expect(edgeProblems(folder)).toEqual([
    'dist/adapters/hono.js pulls in node:crypto, by dist/http/deep/a.js: it has to run without Node.js',
    'dist/adapters/hono.js pulls in hono, by dist/http/deep/a.js: it has to run without Node.js',
  ]);
});

test('an entry that is not there is found', async () => {
  const folder = await packageWith({});
  await rm(join(folder, 'dist/adapters/fetch.js'));

  expect(edgeProblems(folder)).toEqual(['dist/adapters/fetch.js is missing']);
});
