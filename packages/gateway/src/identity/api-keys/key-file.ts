import { parseDocument, type Document } from 'yaml';
import { z } from 'zod';
import type { Config } from '../../config/config.ts';
import { pathText, type Path } from '../../config/path.ts';
import { SettingError } from '../../config/problem.ts';
import { apiKeyEntry, MAX_API_KEYS, type ApiKeyEntry } from '../../config/schema/identity.ts';
import { keyNames, UNKNOWN_KEYS, type KeyNames } from '../../config/schema/key-names.ts';
import { list } from '../../config/schema/fields.ts';

const KEY_FILE: Path = ['identity', 'api_keys', 'file'];
const MAX_FILE_BYTES = 64 * 2 ** 20;

const keyFile = z.strictObject({ keys: list(apiKeyEntry, MAX_API_KEYS).default([]) });

/** A file of keys that cannot be used, and why. */
export class KeyFileError extends Error {}

/** The keys in a file: YAML, or JSON, with a list `keys`. Throws a `KeyFileError`. */
export function readKeys(text: string): readonly ApiKeyEntry[] {
  return entriesOf(keyDocument(text));
}

/** The same as a document that can be changed and keeps its comments. */
export function keyDocument(text: string): Document {
  if (text.length > MAX_FILE_BYTES) {
    throw new KeyFileError(`has ${text.length} characters; expected at most ${MAX_FILE_BYTES}`);
  }
  const document = parseDocument(text, { prettyErrors: false });
  const [error] = document.errors;
  // Not what the parser says: it quotes the text.
  if (error !== undefined) throw new KeyFileError(`is not YAML (at character ${error.pos[0]})`);
  return document;
}

/** Checks them, one by one and together. */
export function entriesOf(document: Document): readonly ApiKeyEntry[] {
  const parsed = keyFile.safeParse(valueOf(document));
  if (!parsed.success) {
    const [issue] = parsed.error.issues;
    throw new KeyFileError(
      `${issue?.path.join('.') ?? ''} ${issue?.message ?? 'is not a list of keys'}`.trim(),
    );
  }
  const problem = repeatedKey(parsed.data.keys);
  if (problem !== undefined) throw new KeyFileError(problem);
  return parsed.data.keys;
}

/** Two keys that would be taken for each other; undefined if there are none. */
function repeatedKey(entries: readonly ApiKeyEntry[]): string | undefined {
  const names = new Set<string>();
  const hashes = new Map<string, string>();
  for (const { name, hash, previous } of entries) {
    if (names.has(name)) return `has two keys named ${name}`;
    names.add(name);
    for (const one of previous === undefined ? [hash] : [hash, previous.hash]) {
      const other = hashes.get(one);
      if (other !== undefined) return `has the same hash for ${other} and ${name}`;
      hashes.set(one, name);
    }
  }
  return undefined;
}

/** All keys; throws a `SettingError` if they cannot be used. */
export function apiKeysOf(
  { identity }: Config,
  readFile: (path: string, encoding: 'utf8') => string,
): readonly ApiKeyEntry[] {
  const { file, keys = [] } = identity.api_keys ?? {};
  if (file === undefined) return keys;
  const fail = (what: string, cause?: unknown): SettingError =>
    new SettingError(
      KEY_FILE,
      `${pathText(KEY_FILE)}: ${file} ${what}`,
      'Write it with spillgate api-keys, or correct it.',
      { cause },
    );
  let read;
  try {
    read = readKeys(readFile(file, 'utf8'));
  } catch (failure) {
    if (failure instanceof KeyFileError) throw fail(failure.message, failure);
    throw fail('cannot be read', failure);
  }
  const all = [...keys, ...read];
  const repeated = repeatedKey(all);
  if (repeated !== undefined) throw fail(`and the configuration together: ${repeated}`);
  return all;
}

/** Which keys there are, for operators; unknown where the file cannot be read. */
export function keyNamesOf(config: Config, readFile: (path: string, encoding: 'utf8') => string): KeyNames {
  try {
    return keyNames(apiKeysOf(config, readFile));
  } catch (failure) {
    if (failure instanceof SettingError) return UNKNOWN_KEYS;
    throw failure;
  }
}

/** A key whose plan is not in the configuration; undefined if there is none. It meets the policies of the rules. */
export function unknownPlan(
  entries: readonly ApiKeyEntry[],
  plans: Config['identity']['plans'],
): string | undefined {
  const found = entries.find(({ plan }) => plan !== undefined && !Object.hasOwn(plans, plan));
  return found === undefined
    ? undefined
    : `the key ${found.name} has the plan ${found.plan ?? ''}, which is not in identity.plans`;
}

function valueOf(document: Document): unknown {
  try {
    return document.toJS({ maxAliasCount: 0 }) ?? {};
  } catch {
    throw new KeyFileError('has aliases, which are not expected in a list of keys');
  }
}
