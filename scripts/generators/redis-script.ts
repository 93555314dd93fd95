import { readFileSync } from 'node:fs';
import { join, posix } from 'node:path';
import { ALGORITHMS, type AlgorithmName } from '#limiter/algorithms/index.js';

const ALGORITHM_FOLDER = 'packages/limiter/src/algorithms';
const PRELUDE = `${ALGORITHM_FOLDER}/prelude.lua`;
const FRAME = 'packages/limiter/src/stores/redis/frame.lua';
const SCRIPTS = ['decide', 'refund', 'lease', 'settle'] as const;

/** In a twin, the file whose functions it calls. */
const NEEDS = /^--@needs (\S+)$/gm;
/** In a twin, what follows is only in the scripts that refund, or in the one that leases. */
const REFUND_MARK = '--@refund\n';
const LEASE_MARK = '--@lease\n';
/** In the frame, what follows is in every script but the one that decides. */
const BESIDE_DECIDE_MARK = '--@beside-decide\n';
/** In the frame, where the algorithms of a script are listed. */
const ALGORITHMS_MARK = '--@algorithms';
/** What stands between these two is only in scripts for limits that block keys; they stay in the module. */
const PENALTY_MARKS = ['--@penalty', '--@end'];
const PENALTY = `${ALGORITHM_FOLDER}/penalty/penalty.lua`;

/** Every file that the scripts are made of. */
export function redisScriptParts(root: string): readonly string[] {
  return [PRELUDE, ...allTwinPaths(root), PENALTY, FRAME, ...SCRIPTS.map(scriptPath)];
}

/** What the library puts scripts together from, as a module, so that it needs no files at run time. */
export function redisScriptModule(root: string): string {
  const [frame = '', besideDecide = ''] = readFileSync(join(root, FRAME), 'utf8').split(BESIDE_DECIDE_MARK);
  const [beforeAlgorithms = '', afterAlgorithms = ''] = frame.split(ALGORITHMS_MARK);
  return [
    '// Generated from the .lua files and the list of algorithms by `npm run generate`. Edit these instead.',
    ...constant('PRELUDE', readLua(root, PRELUDE)),
    '/** The frame: up to where the algorithms of a script are listed, after it, and what is in every script but one. */',
    ...constant('FRAME_HEAD', withoutComments(beforeAlgorithms)),
    ...constant('FRAME_TAIL', withoutComments(afterAlgorithms)),
    ...constant('BESIDE_DECIDE', withoutComments(besideDecide)),
    '/** What decides about blocks, in the scripts of limits that have them. */',
    ...constant('PENALTY', readLua(root, PENALTY)),
    ...SCRIPTS.flatMap((name) => constant(name.toUpperCase(), readLua(root, scriptPath(name)))),
    '/** The twins by file: what decides, what gives refunds, and what leases. */',
    "export const TWINS: Readonly<Record<string, Readonly<Record<'decide' | 'refund' | 'lease', string>>>> = {",
    ...allTwinPaths(root).map((path) => twinEntry(root, path)),
    '};',
    '',
    // By any name: this module has to compile before a new algorithm is in it, as it takes a build to write it.
    '/** The files of each algorithm, in the order of use: a local function has to stand before its callers. */',
    'export const TWINS_OF: Readonly<Record<string, readonly string[]>> = {',
    ...names().map((name) => `  ${name}: [${twinPaths(root, name).map(quoted).join(', ')}],`),
    '};',
    '',
  ].join('\n');
}

function names(): readonly AlgorithmName[] {
  return Object.values(ALGORITHMS).map(({ name }) => name);
}

function scriptPath(name: string): string {
  return `packages/limiter/src/stores/redis/${name}.lua`;
}

function allTwinPaths(root: string): readonly string[] {
  return [...new Set(names().flatMap((name) => twinPaths(root, name)))];
}

function twinPaths(root: string, name: AlgorithmName): readonly string[] {
  const paths = new Set<string>();
  const add = (path: string): void => {
    const text = readFileSync(join(root, path), 'utf8');
    for (const [, needed = ''] of text.matchAll(NEEDS)) add(posix.join(posix.dirname(path), needed));
    paths.add(path);
  };
  add(`${ALGORITHM_FOLDER}/${folderOf(name)}/${folderOf(name)}.lua`);
  return [...paths];
}

/** The folder of an algorithm: `slidingWindowLog` is in `sliding-window-log`. */
function folderOf(name: string): string {
  return name.replaceAll(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`);
}

function twinEntry(root: string, path: string): string {
  const [unleased = '', lease = ''] = readFileSync(join(root, path), 'utf8').split(LEASE_MARK);
  const [decide = '', refund = ''] = unleased.split(REFUND_MARK);
  return [
    `  ${quoted(path)}: {`,
    `    decide: ${literal(withoutComments(decide))},`,
    `    refund: ${literal(withoutComments(refund))},`,
    `    lease: ${literal(withoutComments(lease))},`,
    '  },',
  ].join('\n');
}

function constant(name: string, lua: string): string[] {
  return [`export const ${name}: string = ${literal(lua)};`, ''];
}

/** Paths within the folder of algorithms are enough of a name. */
function quoted(path: string): string {
  return `'${posix.relative(ALGORITHM_FOLDER, path)}'`;
}

function literal(lua: string): string {
  const escaped = lua.replaceAll('\\', '\\\\').replaceAll('`', '\\`').replaceAll('${', '\\${');
  return `\`\\\n${escaped}\``;
}

function readLua(root: string, path: string): string {
  return withoutComments(readFileSync(join(root, path), 'utf8'));
}

/** The server keeps the text of every script it was ever sent. */
function withoutComments(lua: string): string {
  return lua
    .split('\n')
    .filter((line) => line.trim() !== '' && (!line.trim().startsWith('--') || isPenaltyMark(line)))
    .map((line) => `${line}\n`)
    .join('');
}

function isPenaltyMark(line: string): boolean {
  return PENALTY_MARKS.includes(line.trim());
}
