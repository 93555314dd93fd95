// Reads the files of envoyproxy/ratelimit as that server does, with its messages.
import { parseDocument, type Document } from 'yaml';

/** A file cannot be used; the message is what the reference server says. */
export class DescriptorFileError extends Error {}

/** One entry of a file, and everything below it. */
export interface DescriptorNode {
  readonly key: string;
  /** Empty: every value. May contain `*`. */
  readonly value: string;
  readonly limit: FileLimit | undefined;
  readonly shadow: boolean;
  readonly quota: boolean;
  readonly shareThreshold: boolean;
  readonly metadata: Readonly<Record<string, unknown>> | undefined;
  readonly children: readonly DescriptorNode[];
}

export interface FileLimit {
  readonly name: string;
  readonly replaces: readonly string[];
  /** Undefined: not limited. */
  readonly rate: { readonly unit: LimitUnit; readonly requestsPerUnit: number } | undefined;
}

export interface DescriptorFile {
  readonly domain: string;
  readonly descriptors: readonly DescriptorNode[];
}

const KNOWN_KEYS: ReadonlySet<string> = new Set([
  'domain',
  'key',
  'value',
  'descriptors',
  'rate_limit',
  'unit',
  'requests_per_unit',
  'unlimited',
  'shadow_mode',
  'quota_mode',
  'name',
  'replaces',
  'detailed_metric',
  'value_to_metric',
  'share_threshold',
  'metadata',
]);
const MAX_UINT32 = 2 ** 32 - 1;
const MAX_DEPTH = 32;

type Tree = Readonly<Record<string, unknown>>;

export function readDescriptorFile(text: string): DescriptorFile {
  const document = parseDocument(text, { uniqueKeys: true });
  const [problem] = document.errors;
  if (problem !== undefined) throw unreadable(problem.message.split('\n')[0] ?? '');
  const root = valueOf(document);
  requireKnownKeys(root, 0);
  const { domain = '', descriptors } = treeOf(root);
  if (typeof domain !== 'string' || domain === '') throw fail('config file cannot have empty domain');
  return { domain, descriptors: nodesOf(descriptors, domain) };
}

function valueOf(document: Document): unknown {
  try {
    return document.toJS({ maxAliasCount: 100 });
  } catch (failure) {
    // An alias without an anchor, or too many of them.
    throw unreadable(failure instanceof Error ? failure.message : String(failure));
  }
}

export function nodeName({ key, value }: Pick<DescriptorNode, 'key' | 'value'>): string {
  return value === '' ? key : `${key}_${value}`;
}

function requireKnownKeys(value: unknown, depth: number): void {
  if (depth > MAX_DEPTH) throw unreadable(`descriptors nest deeper than ${MAX_DEPTH}`);
  if (Array.isArray(value)) {
    for (const item of value as readonly unknown[]) {
      if (!isTree(item)) {
        throw fail(`config error, yaml file contains list of type other than map: ${String(item)}`);
      }
      requireKnownKeys(item, depth + 1);
    }
    return;
  }
  if (!isTree(value)) return;
  for (const [key, inner] of Object.entries(value)) {
    if (/^-?\d+(?:\.\d+)?$/.test(key)) throw fail(`config error, key is not of type string: ${key}`);
    if (!KNOWN_KEYS.has(key)) throw fail(`config error, unknown key '${key}'`);
    if (key !== 'metadata') requireKnownKeys(inner, depth + 1);
  }
}

/** `path`: the composite key of what they stand below. */
function nodesOf(value: unknown, path: string): readonly DescriptorNode[] {
  if (value === undefined || value === null) return [];
  if (!Array.isArray(value)) throw unreadable('descriptors is not a list');
  const seen = new Set<string>();
  return value.map((item: unknown) => {
    const { key = '', value: wanted = '' } = treeOf(item);
    const node = { key: textOf('key', key), value: textOf('value', wanted) };
    if (node.key === '') throw fail('descriptor has empty key');
    const name = nodeName(node);
    const composite = `${path}.${name}`;
    if (seen.has(name)) throw fail(`duplicate descriptor composite key '${composite}'`);
    seen.add(name);
    return nodeOf(treeOf(item), node, composite);
  });
}

function nodeOf(
  tree: Tree,
  { key, value }: Pick<DescriptorNode, 'key' | 'value'>,
  path: string,
): DescriptorNode {
  const shareThreshold = flag(tree, 'share_threshold');
  if (shareThreshold && !value.includes('*')) {
    throw fail(
      `share_threshold can only be used with wildcard values (containing '*'), but found key '${nodeName({ key, value })}'`,
    );
  }
  const { metadata, rate_limit: limit } = tree;
  return {
    key,
    value,
    limit: limit === undefined || limit === null ? undefined : limitOf(treeOf(limit)),
    shadow: flag(tree, 'shadow_mode'),
    quota: flag(tree, 'quota_mode'),
    shareThreshold,
    metadata: isTree(metadata) ? metadata : undefined,
    children: nodesOf(tree['descriptors'], path),
  };
}

function limitOf(tree: Tree): FileLimit {
  const { unit = '', requests_per_unit: requests = 0, name = '', replaces = [] } = tree;
  const own = textOf('name', name);
  const replaced = replacesOf(replaces, own);
  if (flag(tree, 'unlimited')) {
    if (unit !== '') throw fail('should not specify rate limit unit when unlimited');
    return { name: own, replaces: replaced, rate: undefined };
  }
  const known = unitNamed(textOf('unit', unit));
  if (known === undefined) throw fail(`invalid rate limit unit '${String(unit)}'`);
  if (typeof requests !== 'number' || !Number.isInteger(requests) || requests < 0 || requests > MAX_UINT32) {
    throw unreadable(`requests_per_unit is ${String(requests)}; expected an integer from 0 to ${MAX_UINT32}`);
  }
  return { name: own, replaces: replaced, rate: { unit: known, requestsPerUnit: requests } };
}

function replacesOf(value: unknown, own: string): readonly string[] {
  if (value === null) return [];
  if (!Array.isArray(value)) throw unreadable('replaces is not a list');
  return value.map((item: unknown) => {
    const name = textOf('name', treeOf(item)['name'] ?? '');
    if (name === '') throw fail('should not have an empty replaces entry');
    if (name === own) throw fail('replaces should not contain name of same descriptor');
    return name;
  });
}

function flag(tree: Tree, name: string): boolean {
  const value = tree[name] ?? false;
  if (typeof value !== 'boolean') throw unreadable(`${name} is not true or false`);
  return value;
}

/** YAML reads `value: 1` as a number; the reference server takes it for a text. */
function textOf(name: string, value: unknown): string {
  if (typeof value === 'string') return value;
  if (typeof value === 'number' || typeof value === 'boolean') return String(value);
  if (value === null) return '';
  throw unreadable(`${name} is not a text`);
}

function treeOf(value: unknown): Tree {
  if (isTree(value)) return value;
  throw unreadable('a map was expected');
}

function isTree(value: unknown): value is Tree {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

function fail(message: string): DescriptorFileError {
  return new DescriptorFileError(message);
}

function unreadable(why: string): DescriptorFileError {
  return new DescriptorFileError(`error loading config file: ${why}`);
}

/** The units of Envoy's protocol, by their numbers there. */
export const LIMIT_UNITS = ['unknown', 'second', 'minute', 'hour', 'day', 'month', 'year', 'week'] as const;

export type LimitUnit = Exclude<(typeof LIMIT_UNITS)[number], 'unknown'>;

const SECOND_MS = 1000;
const DAY_MS = 86_400 * SECOND_MS;

/** A month has 30 days and a year 365, as Envoy reads them. */
const LENGTHS_MS: Readonly<Record<LimitUnit, number>> = {
  second: SECOND_MS,
  minute: 60 * SECOND_MS,
  hour: 3600 * SECOND_MS,
  day: DAY_MS,
  week: 7 * DAY_MS,
  month: 30 * DAY_MS,
  year: 365 * DAY_MS,
};

export function unitMs(unit: LimitUnit): number {
  return LENGTHS_MS[unit];
}

function unitNamed(name: string): LimitUnit | undefined {
  const lower = name.toLowerCase();
  return LIMIT_UNITS.find((unit): unit is LimitUnit => unit === lower && unit !== 'unknown');
}

/** The unit that is exactly so long, if there is one. */
export function unitOfLength(ms: number): LimitUnit | undefined {
  return LIMIT_UNITS.find((unit): unit is LimitUnit => unit !== 'unknown' && LENGTHS_MS[unit] === ms);
}

export function unitNumber(unit: LimitUnit | undefined): number {
  return unit === undefined ? 0 : LIMIT_UNITS.indexOf(unit);
}

/** What a request may ask for itself: the protocol has no week there. */
export function overrideUnit(number: number): LimitUnit | undefined {
  const unit = LIMIT_UNITS[number];
  return unit === undefined || unit === 'unknown' || unit === 'week' ? undefined : unit;
}
