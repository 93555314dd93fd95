import { posix } from 'node:path';
import { importsOf } from './imports.ts';
import type { Check, RepositoryFile } from './tree.ts';

const FOLDER = 'packages/limiter/src/algorithms';
const DOCUMENT = 'docs/algorithms.md';

/**
 * `index.ts` is the one list. Every algorithm that it imports lies in a folder of its own with a twin that decides and
 * gives refunds, a table of hand-picked moments, an exact model, and a row in the documentation.
 */
export const everyAlgorithmIsWhole: Check = (files) => {
  const texts = new Map(files.map(({ path, text }) => [path, text]));
  const index = files.find(({ path }) => path === `${FOLDER}/index.ts`);
  if (index === undefined) return [`${FOLDER}/index.ts is missing`];
  const algorithms = listedIn(index);
  if (algorithms.length === 0) return [`${index.path} lists no algorithm`];
  return algorithms.flatMap((path) => problemsOf(path, texts));
};

function listedIn(index: RepositoryFile): readonly string[] {
  return importsOf(index)
    .filter(({ target, typeOnly }) => target.startsWith(`${FOLDER}/`) && !typeOnly)
    .map(({ target }) => target);
}

/** Everything that goes by the name of a folder: `token-bucket`, `tokenBucket`, `decideTokenBucket`. */
function problemsOf(path: string, texts: ReadonlyMap<string, string>): readonly string[] {
  const folder = posix.basename(path, '.ts');
  const name = folder.replaceAll(/-(\w)/g, (_, letter: string) => letter.toUpperCase());
  const luaName = name.charAt(0).toUpperCase() + name.slice(1);
  if (path !== `${FOLDER}/${folder}/${folder}.ts`) return [`${path} is not in a folder of its own name`];
  const has = (file: string, what: string): readonly string[] =>
    texts.get(file)?.includes(what) === true ? [] : [`${file} has no ${what}`];
  const exists = (file: string): readonly string[] => (texts.has(file) ? [] : [`${file} is missing`]);
  const twin = `${FOLDER}/${folder}/${folder}.lua`;
  return [
    ...(texts.has(twin)
      ? [...has(twin, `decide${luaName}`), ...has(twin, `refund${luaName}`)]
      : exists(twin)),
    ...exists(`${FOLDER}/${folder}/${folder}.cases.ts`),
    ...has(`${FOLDER}/cases.ts`, `${name}Cases`),
    ...exists(`packages/limiter/test/model/${folder}.ts`),
    ...has('packages/limiter/src/policy.ts', `export function ${name}(`),
    ...has(DOCUMENT, `| [\`${name}\`](#`),
    ...has(DOCUMENT, `\`${name}({`),
    // Generated from the schema of the gateway, which follows the list.
    ...has('docs/gateway-configuration.md', `\`${name}\``),
  ];
}
