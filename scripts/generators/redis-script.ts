import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { join, posix } from 'node:path';
import { MAX_SENT_NUMBERS } from '#limiter/algorithms/algorithm.js';
import { ALGORITHMS, type AlgorithmName, type AnyAlgorithm } from '#limiter/algorithms/index.js';

const ALGORITHM_FOLDER = 'packages/limiter/src/algorithms';
const PRELUDE = `${ALGORITHM_FOLDER}/prelude.lua`;
const FRAME = 'packages/limiter/src/stores/redis/frame.lua';
const DECIDE = 'packages/limiter/src/stores/redis/decide.lua';
const REFUND = 'packages/limiter/src/stores/redis/refund.lua';
const LEASE = 'packages/limiter/src/stores/redis/lease.lua';
const DOUBLE_BYTES = 8;

/** In a twin, the file whose functions it calls. */
const NEEDS = /^--@needs (\S+)$/gm;
/** In a twin, what follows is only in the script that refunds. */
const REFUND_MARK = '--@refund\n';

/** The folder of an algorithm: `slidingWindowLog` is in `sliding-window-log`. */
function folderOf(name: string): string {
  return name.replaceAll(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`);
}

/** Every file that the scripts are made of. */
export function redisScriptParts(root: string): readonly string[] {
  return [PRELUDE, ...twinPaths(root, Object.values(ALGORITHMS)), FRAME, DECIDE, REFUND, LEASE];
}

/** The scripts that Redis runs, as a module, so that the library needs no files at run time. */
export function redisScriptModule(root: string): string {
  const algorithms = Object.values(ALGORITHMS);
  const twins = twinPaths(root, algorithms).map((path) => splitTwin(readFileSync(join(root, path), 'utf8')));
  const shared = [
    readLua(root, PRELUDE),
    ...twins.map(({ decide }) => decide),
    algorithmOfLua(algorithms),
    readLua(root, FRAME),
  ].join('');
  const refunds = [...twins.map(({ refund }) => refund), refundOfLua(algorithms)].join('');
  return [
    '// Generated from the .lua files and the list of algorithms by `npm run generate`. Edit these instead.',
    '',
    `const SHARED: string = \`\\`,
    `${escaped(shared)}\`;`,
    '',
    ...scriptLines('DECIDE', shared, readLua(root, DECIDE)),
    ...scriptLines('REFUND', shared, refunds + readLua(root, REFUND)),
    ...scriptLines('LEASE', shared, readLua(root, LEASE)),
  ].join('\n');
}

/** In the order of use: a local function has to stand before its callers. */
function twinPaths(root: string, algorithms: readonly AnyAlgorithm[]): readonly string[] {
  const paths = new Set<string>();
  const add = (path: string): void => {
    const text = readFileSync(join(root, path), 'utf8');
    for (const [, needed = ''] of text.matchAll(NEEDS)) add(posix.join(posix.dirname(path), needed));
    paths.add(path);
  };
  for (const { name } of algorithms) add(`${ALGORITHM_FOLDER}/${folderOf(name)}/${folderOf(name)}.lua`);
  return [...paths];
}

function splitTwin(lua: string): { readonly decide: string; readonly refund: string } {
  const [decide = '', refund = ''] = lua.split(REFUND_MARK);
  return { decide: withoutComments(decide), refund: withoutComments(refund) };
}

/** The function that decides, the bytes of a state (at least, and per further record), the least value of each number. */
function algorithmOfLua(algorithms: readonly AnyAlgorithm[]): string {
  const lines = algorithms.map(({ name, redis }) => {
    const least = Object.values<number>(redis.numbers);
    const bytes = [redis.leastDoubles * DOUBLE_BYTES, redis.recordDoubles * DOUBLE_BYTES];
    const values = [...bytes, ...least, ...Array<number>(MAX_SENT_NUMBERS - least.length).fill(0)];
    return `  if number == '${redis.number}' then return decide${luaName(name)}, ${values.join(', ')} end\n`;
  });
  return `local function algorithmOf(number)\n${lines.join('')}end\n`;
}

function refundOfLua(algorithms: readonly AnyAlgorithm[]): string {
  const lines = algorithms.map(
    ({ name }) => `  if decide == decide${luaName(name)} then return refund${luaName(name)} end\n`,
  );
  return `local function refundOf(decide)\n${lines.join('')}end\n`;
}

function luaName(name: AlgorithmName): string {
  return name.charAt(0).toUpperCase() + name.slice(1);
}

function scriptLines(name: string, shared: string, own: string): string[] {
  const sha1 = createHash('sha1')
    .update(shared + own)
    .digest('hex');
  return [
    `export const ${name}_SHA1 = '${sha1}';`,
    '',
    `export const ${name}_SCRIPT: string = \`\${SHARED}\\`,
    `${escaped(own)}\`;`,
    '',
  ];
}

function readLua(root: string, path: string): string {
  return withoutComments(readFileSync(join(root, path), 'utf8'));
}

function escaped(lua: string): string {
  return lua.replaceAll('\\', '\\\\').replaceAll('`', '\\`').replaceAll('${', '\\${');
}

/** The server keeps the text of every script it was ever sent. */
function withoutComments(lua: string): string {
  return lua
    .split('\n')
    .filter((line) => line.trim() !== '' && !line.trim().startsWith('--'))
    .map((line) => `${line}\n`)
    .join('');
}
