import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { importsOf } from '../tidy/imports.ts';

/** Modules, below the package's folder, that run where Node.js does not. */
const EDGE_ENTRIES: readonly string[] = [
  'dist/index.js',
  'dist/http/index.js',
  'dist/adapters/fetch.js',
  'dist/adapters/hono.js',
];

/** Whatever an entry for edge runtimes pulls in and is not part of the package: a `node:` module, or a dependency. */
export function edgeProblems(folder: string): string[] {
  return EDGE_ENTRIES.flatMap((entry) =>
    existsSync(join(folder, entry)) ? foreignImports(folder, entry) : [`${entry} is missing`],
  );
}

function foreignImports(folder: string, entry: string): string[] {
  const problems: string[] = [];
  const waiting = [entry];
  const seen = new Set<string>();
  for (let path = waiting.pop(); path !== undefined; path = waiting.pop()) {
    if (seen.has(path)) continue;
    seen.add(path);
    for (const { specifier, target } of importsOf({ path, text: readFileSync(join(folder, path), 'utf8') })) {
      if (specifier.startsWith('.')) waiting.push(target);
      else problems.push(`${entry} pulls in ${specifier}, by ${path}: it has to run without Node.js`);
    }
  }
  return problems;
}
