// What the compiler leaves undone: the import paths of declarations, the mark that the second build of the library is
// CommonJS, and the dashboard, which is bundled into the gateway.
import { createHash } from 'node:crypto';
import { existsSync, readdirSync, readFileSync, statSync, utimesSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { build } from 'vite';

const FOLDERS: readonly string[] = ['packages/limiter/dist', 'packages/gateway/dist'];
const DASHBOARD = 'packages/dashboard';
const BUNDLED_FROM = 'packages/gateway/dist/dashboard/sources.sha256';
const RELATIVE_SOURCE = /(\bfrom |\bimport\(|\bimport )(['"])(\.{1,2}\/[^'"]+)\.ts\2/g;

for (const folder of FOLDERS) {
  for (const name of readdirSync(folder, { recursive: true, encoding: 'utf8' })) {
    if (name.endsWith('.d.ts')) finishDeclaration(join(folder, name));
  }
}
// The package around it says "module".
finishManifest('packages/limiter/dist/cjs/package.json', '{ "type": "commonjs" }\n');
await buildDashboard();

/**
 * The compiler rewrites `./x.ts` to `./x.js` in JavaScript but not in declarations. TypeScript 5 and later understand
 * both, other readers of declarations (older compilers, bundlers, Deno) only `./x.js`.
 */
function finishDeclaration(path: string): void {
  const emitted = readFileSync(path, 'utf8');
  const finished = emitted.replaceAll(RELATIVE_SOURCE, '$1$2$3.js$2');
  if (finished === emitted) return;

  const { atime, mtime } = statSync(path);
  writeFileSync(path, finished);
  // A newer declaration would make the next incremental build repeat every project that imports the library.
  utimesSync(path, atime, mtime);
}

/** A build that changes nothing writes nothing: programs that run may be reading it. */
function finishManifest(path: string, text: string): void {
  if (!existsSync(path) || readFileSync(path, 'utf8') !== text) writeFileSync(path, text);
}

/** Bundles it if anything that it is made of has changed. */
async function buildDashboard(): Promise<void> {
  const sources = digestOf([
    ...['package.json', 'vite.config.ts', 'index.html'].map((name) => join(DASHBOARD, name)),
    ...['src', 'public'].flatMap((folder) => filesBelow(join(DASHBOARD, folder))),
  ]);
  if (existsSync(BUNDLED_FROM) && readFileSync(BUNDLED_FROM, 'utf8') === sources) return;
  await build({ configFile: join(DASHBOARD, 'vite.config.ts') });
  writeFileSync(BUNDLED_FROM, sources);
}

function filesBelow(folder: string): readonly string[] {
  return readdirSync(folder, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map((entry) => join(entry.parentPath, entry.name))
    .toSorted();
}

function digestOf(paths: readonly string[]): string {
  const hash = createHash('sha256');
  for (const path of paths) hash.update(path).update(readFileSync(path));
  return hash.digest('hex');
}
