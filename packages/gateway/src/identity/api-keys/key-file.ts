import {
  chmodSync,
  chownSync,
  closeSync,
  fsyncSync,
  openSync,
  readFileSync,
  realpathSync,
  renameSync,
  rmSync,
  statSync,
  writeSync,
  type Stats,
} from 'node:fs';
import { LineCounter, parseDocument, type Document } from 'yaml';
import { z } from 'zod';
import type { Config } from '../../config/config.ts';
import { pathText, type Path } from '../../config/path.ts';
import { SettingError, whyUnreadable } from '../../config/problem.ts';
import { list } from '../../config/schema/fields.ts';
import { apiKeyEntry, MAX_API_KEYS, type ApiKeyEntry } from '../../config/schema/identity.ts';
import { keyNames, UNKNOWN_KEYS, type KeyNames } from '../../config/schema/key-names.ts';

const KEY_FILE: Path = ['identity', 'api_keys', 'file'];
const MAX_FILE_BYTES = 64 * 2 ** 20;

const keyFile = z.strictObject({ keys: list(apiKeyEntry, MAX_API_KEYS).default([]) });

/** A file of keys that cannot be used, and why; `mistakes` has all that is wrong with it. */
export class KeyFileError extends Error {
  readonly mistakes: readonly string[];

  constructor(mistakes: string | readonly string[], options?: ErrorOptions) {
    const all = typeof mistakes === 'string' ? [mistakes] : mistakes;
    super(`${all[0] ?? ''}${all.length > 1 ? ` (and ${all.length - 1} more)` : ''}`, options);
    this.mistakes = all;
  }
}

/** The keys in a file: YAML, or JSON, with a list `keys`. Throws a `KeyFileError`. */
export function readKeys(text: string): readonly ApiKeyEntry[] {
  return entriesOf(keyDocument(text));
}

/** The same as a document that can be changed and keeps its comments. */
function keyDocument(text: string): Document {
  if (text.length > MAX_FILE_BYTES) {
    throw new KeyFileError(`has ${text.length} characters; expected at most ${MAX_FILE_BYTES}`);
  }
  const lines = new LineCounter();
  const document = parseDocument(text, { prettyErrors: false, lineCounter: lines });
  const [error] = document.errors;
  // Not what the parser says: it quotes the text.
  if (error !== undefined) throw new KeyFileError(`is not YAML (${placeText(lines, error.pos[0])})`);
  return document;
}

function placeText(lines: LineCounter, offset: number): string {
  const { line, col } = lines.linePos(offset);
  return `line ${line}, column ${col}`;
}

/** Checks them, one by one and together. */
export function entriesOf(document: Document): readonly ApiKeyEntry[] {
  const value = valueOf(document);
  const parsed = keyFile.safeParse(value);
  if (parsed.success) {
    const repeated = repeatedKeys(parsed.data.keys);
    if (repeated.length > 0) throw new KeyFileError(repeated);
    return parsed.data.keys;
  }
  const issues = parsed.error.issues.map(({ path, message }) => `${path.join('.')} ${message}`.trim());
  throw new KeyFileError([...issues, ...repeatedKeys(readableEntries(value))]);
}

/** What can be told about a key whose other settings may be wrong. */
interface ReadableEntry {
  readonly name: string;
  readonly hash?: string | undefined;
  readonly plan?: string | undefined;
  readonly previous?: ApiKeyEntry['previous'];
}

const readableEntry = z.object({
  name: z.string(),
  hash: apiKeyEntry.shape.hash.optional().catch(undefined),
  plan: z.string().optional().catch(undefined),
});

function readableEntries(value: unknown): readonly ReadableEntry[] {
  const keys: unknown = typeof value === 'object' && value !== null ? Reflect.get(value, 'keys') : undefined;
  return (Array.isArray(keys) ? keys : []).flatMap((key: unknown) => {
    const { data } = readableEntry.safeParse(key);
    return data === undefined ? [] : [data];
  });
}

/** Keys that would be taken for each other. */
function repeatedKeys(entries: readonly ReadableEntry[]): readonly string[] {
  const names = new Set<string>();
  const hashes = new Map<string, string>();
  const repeated: string[] = [];
  for (const { name, hash, previous } of entries) {
    if (names.has(name)) repeated.push(`has two keys named ${name}`);
    names.add(name);
    for (const one of [hash, previous?.hash]) {
      if (one === undefined) continue;
      const other = hashes.get(one);
      if (other !== undefined) repeated.push(`has the same hash for ${other} and ${name}`);
      hashes.set(one, name);
    }
  }
  return repeated;
}

type ReadText = (path: string, encoding: 'utf8') => string;

/** All keys; throws a `SettingError` if they cannot be used. */
export function apiKeysOf({ identity }: Config, readFile: ReadText): readonly ApiKeyEntry[] {
  const { file, keys = [] } = identity.api_keys ?? {};
  if (file === undefined) return keys;
  let read;
  try {
    read = readKeys(readFile(file, 'utf8'));
  } catch (failure) {
    throw fileFailure(
      file,
      failure instanceof KeyFileError ? failure.message : whyUnreadable(failure),
      failure,
    );
  }
  const all = [...keys, ...read];
  const [repeated] = repeatedKeys(all);
  if (repeated !== undefined) throw fileFailure(file, `and the configuration together: ${repeated}`);
  return all;
}

function fileFailure(file: string, what: string, cause?: unknown): SettingError {
  return new SettingError(
    KEY_FILE,
    `${pathText(KEY_FILE)}: ${file} ${what}`,
    'Write it with spillgate api-keys, or correct it.',
    { cause },
  );
}

const MAX_PROBLEMS = 20;

/** Everything that is wrong with the file of keys, or with it and the configuration together. */
export function keyFileProblems(config: Config, readFile: ReadText): readonly SettingError[] {
  const { file, keys = [] } = config.identity.api_keys ?? {};
  if (file === undefined) return [];
  let entries: readonly ReadableEntry[] = [];
  let mistakes: readonly string[] = [];
  try {
    const document = keyDocument(readFile(file, 'utf8'));
    entries = readableEntries(valueOf(document));
    entriesOf(document);
  } catch (failure) {
    mistakes = failure instanceof KeyFileError ? failure.mistakes : [whyUnreadable(failure)];
  }
  const together = mistakes.length > 0 ? [] : repeatedKeys([...keys, ...entries]);
  const found = [
    ...mistakes.map((what) => fileFailure(file, what)),
    ...together.map((what) => fileFailure(file, `and the configuration together: ${what}`)),
    ...unknownPlans(entries, config.identity.plans).map(
      (what) =>
        new SettingError(
          KEY_FILE,
          `${pathText(KEY_FILE)}: ${file}: ${what}`,
          'Add the plan, or correct the key.',
        ),
    ),
  ];
  return found.slice(0, MAX_PROBLEMS);
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

/** Keys whose plan is not in the configuration. */
export function unknownPlans(
  entries: readonly ReadableEntry[],
  plans: Config['identity']['plans'],
): readonly string[] {
  return entries.flatMap(({ name, plan }) =>
    plan === undefined || Object.hasOwn(plans, plan)
      ? []
      : [`the key ${name} has the plan ${plan}, which is not in identity.plans`],
  );
}

/** The keys as they hold: a plan that is not in the configuration gives nothing, and nobody is told of it. */
export function withKnownPlans(
  entries: readonly ApiKeyEntry[],
  plans: Config['identity']['plans'],
): readonly ApiKeyEntry[] {
  return entries.map((entry) =>
    entry.plan === undefined || Object.hasOwn(plans, entry.plan) ? entry : { ...entry, plan: undefined },
  );
}

function valueOf(document: Document): unknown {
  try {
    return document.toJS({ maxAliasCount: 0 }) ?? {};
  } catch {
    throw new KeyFileError('has aliases, which are not expected in a list of keys');
  }
}

/** Only who runs the gateway has to read it. */
const MODE = 0o600;

/**
 * Changes a file of keys: checks what is there, what comes out of it, and replaces the file as a whole, so that no
 * gateway reads half of it. Comments stay. Of two changes at a time none is lost: the second one fails. Throws a
 * `KeyFileError`, or what the system says.
 */
export function changeKeyFile(file: string, change: (document: Document) => void): void {
  const before = statOf(file);
  // A link stays a link.
  const path = before === undefined ? file : realpathSync(file);
  locked(`${path}.lock`, () => {
    const document = keyDocument(before === undefined ? 'keys: []\n' : readFileSync(path, 'utf8'));
    entriesOf(document);
    change(document);
    entriesOf(document);
    replace(path, document.toString(), before);
  });
}

function locked(lock: string, act: () => void): void {
  let descriptor: number;
  try {
    descriptor = openSync(lock, 'wx', MODE);
  } catch (cause) {
    if (!hasCode(cause, 'EEXIST')) throw cause;
    throw new KeyFileError(`is being changed by another command; if that is not so, remove ${lock}`, {
      cause,
    });
  }
  closeSync(descriptor);
  try {
    act();
  } finally {
    rmSync(lock, { force: true });
  }
}

function replace(path: string, text: string, before: Stats | undefined): void {
  const next = `${path}.new`;
  rmSync(next, { force: true });
  const descriptor = openSync(next, 'wx', MODE);
  try {
    writeSync(descriptor, text);
    fsyncSync(descriptor);
  } finally {
    closeSync(descriptor);
  }
  if (before !== undefined) {
    // Whoever could read it can still do so: else a gateway would go on with keys that were revoked.
    chmodSync(next, before.mode & 0o777);
    keepOwner(next, before);
  }
  renameSync(next, path);
}

function keepOwner(path: string, { uid, gid }: Stats): void {
  const now = statSync(path);
  if (now.uid !== uid || now.gid !== gid) chownSync(path, uid, gid);
}

function statOf(file: string): Stats | undefined {
  return statSync(file, { throwIfNoEntry: false });
}

function hasCode(failure: unknown, code: string): boolean {
  return failure instanceof Error && 'code' in failure && failure.code === code;
}
