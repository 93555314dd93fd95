// How operators call API keys: by their names, by the secrets themselves, or by the hashes of these.
import { createHash } from 'node:crypto';
import type { ApiKeyEntry } from './identity.ts';
import { hashedKey } from './key.ts';

/** Which API keys there are. */
export interface KeyNames {
  /** Whether a key has this name; undefined where nobody knows which keys there are. */
  has(name: string): boolean | undefined;
  /** The name behind a secret, or behind its hash as files of keys (64 digits) or logs (32) write it. */
  ownerOf(secretOrHash: string): string | undefined;
}

/** Where the keys are somewhere else. */
export const UNKNOWN_KEYS: KeyNames = { has: () => undefined, ownerOf: () => undefined };

/** The hash of a secret, 64 hexadecimal digits, and whose it is. */
export type OwnedHash = readonly [digits: string, name: string];

const HASH_START = 'sha256:';
const SHORT_HASH_LENGTH = 32;
const HASH = /^sha256:(?:[\da-f]{32}|[\da-f]{64})$/;

/** Reads what it is given when somebody asks for the first time: most gateways are never asked. */
export class OwnedKeys implements KeyNames {
  private readonly read: () => Iterable<OwnedHash>;
  private owners: ReadonlyMap<string, string> | undefined;
  private names: ReadonlySet<string> | undefined;

  constructor(read: () => Iterable<OwnedHash>) {
    this.read = read;
  }

  has(name: string): boolean {
    this.names ??= new Set([...this.read()].map(([, owner]) => owner));
    return this.names.has(name);
  }

  ownerOf(secretOrHash: string): string | undefined {
    this.owners ??= new Map(
      [...this.read()].map(([digits, owner]) => [digits.slice(0, SHORT_HASH_LENGTH), owner]),
    );
    const digits = HASH.test(secretOrHash) ? secretOrHash.slice(HASH_START.length) : digestOf(secretOrHash);
    return this.owners.get(digits.slice(0, SHORT_HASH_LENGTH));
  }
}

/** The names of these keys. */
export function keyNames(entries: readonly ApiKeyEntry[]): KeyNames {
  return new OwnedKeys(() =>
    entries.flatMap(({ name, hash, previous }) =>
      (previous === undefined ? [hash] : [hash, previous.hash]).map((one): OwnedHash => [
        one.slice(HASH_START.length),
        name,
      ]),
    ),
  );
}

/**
 * The name that an operator means, who may give the secret. What is nobody's stays as it is, unless it can only be a
 * secret: that is never shown, and nobody has its hash for a name.
 */
export function calledName(keys: KeyNames, text: string): string {
  if (keys.has(text) === true) return text;
  const owner = keys.ownerOf(text);
  if (owner !== undefined || !looksSecret(text)) return owner ?? text;
  return HASH.test(text) ? text.slice(0, HASH_START.length + SHORT_HASH_LENGTH) : hashedKey(text);
}

/** Whether a text is the secret of a key, or its hash, and not the name of one. */
export function isSecretOf(keys: KeyNames, text: string): boolean {
  return keys.has(text) !== true && keys.ownerOf(text) !== undefined;
}

/** As `spillgate api-keys` makes them, or no name at all. */
const MADE_SECRET = /^sg_[\w-]{16,}$/;
const NAME_OR_MARKED = /^(?:@|[A-Za-z0-9][\w.@-]{0,63}$)/;

/** Of a text that nobody has for a name. */
export function looksSecret(text: string): boolean {
  return MADE_SECRET.test(text) || !NAME_OR_MARKED.test(text);
}

/** As requests show it: Latin-1. */
function digestOf(secret: string): string {
  return createHash('sha256').update(secret, 'latin1').digest('hex');
}
