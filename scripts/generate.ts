// Usage: generate.js [--check]. Run from the root of the repository.
import { staleFiles, writeStaleFiles } from './generators/generated-files.ts';

const root = process.cwd();

if (process.argv.includes('--check')) {
  const stale = staleFiles(root);
  for (const path of stale) console.error(`${path} is stale; run: npm run generate`);
  if (stale.length === 0) console.log('All generated files are fresh.');
  process.exitCode = stale.length === 0 ? 0 : 1;
} else {
  const written = writeStaleFiles(root);
  for (const path of written) console.log(`wrote ${path}`);
  if (written.length === 0) console.log('All generated files were fresh.');
}
