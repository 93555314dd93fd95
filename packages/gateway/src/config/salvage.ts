// The part of a wrong configuration that can still be read: checks across settings run on it, so that one mistake does
// not hide the others.
import { configSchema, type Config } from './config.ts';
import { settingIssues } from './issues.ts';
import { isTree, pathText, type Path } from './path.ts';

export interface Readable {
  readonly config: Config | undefined;
  /** What was left out to make the rest readable: nothing can be said about it. */
  readonly left: PathSet;
}

/** Writing and compiling a function for each part of the schema takes longer than the only use of it saves. */
export const ONCE = { jitless: true };

/** Paths, and whether others are inside them or around them. */
export class PathSet {
  private readonly paths = new Set<string>();
  private readonly around = new Set<string>();

  add(path: Path): void {
    this.paths.add(pathText(path));
    for (let length = 0; length <= path.length; length += 1) this.around.add(pathText(path.slice(0, length)));
  }

  /** Whether the path is one of these, or lies inside one. */
  covers(path: Path): boolean {
    return [...path, ''].some((_, length) => this.paths.has(pathText(path.slice(0, length))));
  }

  touches(path: Path): boolean {
    return this.covers(path) || this.around.has(pathText(path));
  }
}

const MAX_SALVAGE_ROUNDS = 8;

/** Leaves out what is wrong, so that the checks across settings run on the rest. */
export function salvage(tree: unknown, wrong: readonly Path[]): Readable {
  let rest = tree;
  let paths = wrong;
  const left = new PathSet();
  for (let round = 0; round < MAX_SALVAGE_ROUNDS; round += 1) {
    // What is still refused although it is left out is missing: then its section goes.
    paths = paths.map((path) => wholeMatch(left.covers(path) ? path.slice(0, -1) : path));
    for (const path of paths) left.add(path);
    rest = without(rest, paths, []);
    const parsed = configSchema.safeParse(rest, ONCE);
    if (parsed.success) return { config: parsed.data, left };
    paths = settingIssues(parsed.error.issues, rest).map(({ path }) => path);
  }
  return { config: undefined, left };
}

/** The tree at `at` without what the paths name, which are relative to it. */
function without(tree: unknown, paths: readonly Path[], at: Path): unknown {
  if (paths.some((path) => path.length === 0)) return isRule(at) ? unreadableRule(at) : {};
  const byKey = new Map<string | number, Path[]>();
  for (const [key = '', ...inside] of paths) {
    const known = byKey.get(key);
    if (known === undefined) byKey.set(key, [inside]);
    else known.push(inside);
  }
  if (isRule([...at, 0]) && Array.isArray(tree)) {
    return tree.map((rule: unknown, index) => {
      const inside = byKey.get(index);
      return inside === undefined ? rule : without(rule, inside, [...at, index]);
    });
  }
  if (!isTree(tree)) return tree;
  const rest = Object.entries(tree).flatMap(([name, value]) => {
    const inside = byKey.get(name);
    if (inside === undefined) return [[name, value] as const];
    return goesWhole(inside, [...at, name]) ? [] : [[name, without(value, inside, [...at, name])] as const];
  });
  return Object.fromEntries([...rest, ...(isRule(at) ? standIns(at, byKey) : [])]);
}

/**
 * A list without one of its entries would count the others differently: it goes as a whole. Rules are replaced instead.
 */
function goesWhole(inside: readonly Path[], at: Path): boolean {
  if (inside.some((path) => path.length === 0)) return true;
  return inside.some(([next]) => typeof next === 'number') && !isRule([...at, 0]);
}

/** A rule without a part of its match would match more than it should: the match goes as a whole. */
function wholeMatch(path: Path): Path {
  return isRule(path.slice(0, 3)) && path[3] === 'match' ? path.slice(0, 4) : path;
}

function isRule(path: Path): boolean {
  return path.length === 3 && path[0] === 'rate_limit' && path[1] === 'rules';
}

/** Stands for a rule that cannot be read, so that the others keep their numbers. It matches nothing. */
function unreadableRule(at: Path): unknown {
  return Object.fromEntries(
    standIns(
      at,
      new Map([
        ['name', []],
        ['match', []],
      ]),
    ),
  );
}

/** What a rule cannot do without, where that is wrong. */
function standIns(
  at: Path,
  wrong: ReadonlyMap<string | number, unknown>,
): readonly (readonly [string, unknown])[] {
  return [
    ...(wrong.has('name') ? [['name', `unreadable.${Number(at[2])}`] as const] : []),
    ...(wrong.has('match') ? [['match', { host: 'unreadable.invalid' }] as const] : []),
  ];
}
