// What the compiler leaves undone: the import paths of declarations, and the mark that the second build of the library is CommonJS.
import { readdirSync, readFileSync, statSync, utimesSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';

const FOLDERS: readonly string[] = ['packages/limiter/dist', 'packages/gateway/dist'];
const RELATIVE_SOURCE = /(\bfrom |\bimport\(|\bimport )(['"])(\.{1,2}\/[^'"]+)\.ts\2/g;

for (const folder of FOLDERS) {
  for (const name of readdirSync(folder, { recursive: true, encoding: 'utf8' })) {
    if (name.endsWith('.d.ts')) finishDeclaration(join(folder, name));
  }
}
// The package around it says "module".
writeFileSync('packages/limiter/dist/cjs/package.json', '{ "type": "commonjs" }\n');

/**
 * The compiler rewrites `./x.ts` to `./x.js` in JavaScript but not in declarations. TypeScript 5 and later understand both,
 * other readers of declarations (older compilers, bundlers, Deno) only `./x.js`.
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
