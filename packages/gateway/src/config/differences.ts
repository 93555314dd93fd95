import { isDeepStrictEqual } from 'node:util';
import type { Config } from './config.ts';
import { encodedConfig, maskedTree } from './effective.ts';
import type { KeyNames } from './schema/key-names.ts';
import { isTree, pathText, type Path } from './path.ts';

/** One setting in two configurations; undefined where one of them has none. Secrets are masked. */
export interface SettingDifference {
  readonly path: string;
  readonly before?: unknown;
  readonly after?: unknown;
}

/** The first of all differences, and how many there are. */
export interface ConfigDifferences {
  readonly total: number;
  readonly items: readonly SettingDifference[];
}

const MAX_DIFFERENCES = 200;

/**
 * What another configuration changes, by the paths of settings. Items of a list that have names, such as rules, are
 * compared by name: one more in the middle is one difference, not one for every rule behind it.
 */
export function configDifferences(before: Config, after: Config, names?: KeyNames): ConfigDifferences {
  const old = leavesByPath(before, names);
  const next = leavesByPath(after, names);
  const all = [...new Set([...old.keys(), ...next.keys()])].flatMap((path) => {
    const was = old.get(path);
    const is = next.get(path);
    // A secret that changed looks the same: what is compared is not what is shown.
    return isDeepStrictEqual(was?.value, is?.value)
      ? []
      : [{ path, ...shownAs('before', was), ...shownAs('after', is) }];
  });
  return { total: all.length, items: all.slice(0, MAX_DIFFERENCES) };
}

interface Leaf {
  readonly value: unknown;
  readonly shown: unknown;
}

function shownAs(name: 'before' | 'after', leaf: Leaf | undefined): object {
  return leaf === undefined ? {} : { [name]: leaf.shown };
}

function leavesByPath(config: Config, names?: KeyNames): ReadonlyMap<string, Leaf> {
  const encoded = encodedConfig(config, names);
  const leaves = new Map<string, Leaf>();
  collect({ value: encoded, shown: maskedTree(encoded) }, [], leaves);
  return leaves;
}

function collect({ value, shown }: Leaf, path: Path, leaves: Map<string, Leaf>): void {
  if (value === undefined) return;
  const items = entriesOf(value);
  if (items.length === 0) {
    leaves.set(pathText(path), { value, shown });
    return;
  }
  const shownItems = new Map(entriesOf(shown).map(({ part, item }) => [part, item]));
  for (const { part, item } of items) {
    collect({ value: item, shown: shownItems.get(part) }, [...path, part], leaves);
  }
  const names = namesIn(value);
  // The first rule that matches decides: their order is a setting too.
  if (names !== undefined) leaves.set(`${pathText(path)} in order`, { value: names, shown: names });
}

function entriesOf(value: unknown): readonly { readonly part: string | number; readonly item: unknown }[] {
  if (isTree(value)) return Object.entries(value).map(([part, item]) => ({ part, item }));
  if (!Array.isArray(value) || !value.some(isTree)) return [];
  const names = namesIn(value);
  return value.map((item: unknown, at) => ({ part: names?.[at] ?? at, item }));
}

/** Of a list whose items all have one of their own. */
function namesIn(value: unknown): readonly string[] | undefined {
  if (!Array.isArray(value) || value.length === 0) return undefined;
  const names = value.map((item: unknown) => (isTree(item) ? item['name'] : undefined));
  const texts = names.filter((name) => typeof name === 'string');
  return new Set(texts).size === value.length ? texts : undefined;
}
