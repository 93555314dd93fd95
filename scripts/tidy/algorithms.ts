import { posix } from 'node:path';
import { importsOf } from './imports.ts';
import type { Check } from './tree.ts';

const FOLDER = 'packages/limiter/src/algorithms';

/** `index.ts` is the one list: every algorithm it imports must have a table of hand-picked moments. */
export const everyAlgorithmHasItsCases: Check = (files) => {
  const paths = new Set(files.map(({ path }) => path));
  const index = files.find(({ path }) => path === `${FOLDER}/index.ts`);
  if (index === undefined) return [`${FOLDER}/index.ts is missing`];

  const algorithms = importsOf(index)
    .filter(({ target, typeOnly }) => posix.dirname(target) === FOLDER && !typeOnly)
    .map(({ target }) => target);
  if (algorithms.length === 0) return [`${index.path} lists no algorithm`];
  return algorithms
    .map((path) => path.replace(/\.ts$/, '.cases.ts'))
    .filter((path) => !paths.has(path))
    .map((path) => `${path} is missing`);
};
