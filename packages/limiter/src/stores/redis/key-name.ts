import { Buffer } from 'node:buffer';
import { hash } from 'node:crypto';
import type { Limit } from '../../limit.ts';

/** Letters of SHA-256 in base64 kept of a key: 132 bits, so that nobody finds two keys with one name. */
const KEY_HASH_LETTERS = 22;

/**
 * The name of a limit's state in Redis: prefix, version of the state format, the hashed key as the cluster's hash tag,
 * and what the state's meaning depends on. Keys are always hashed: they may be secrets or addresses, and no byte of a
 * client's can form a separator or a hash tag.
 */
export function keyName(prefix: string, limit: Limit): string {
  return `${prefix}${STATE_VERSION}{${hashed(limit.stateKey)}}${limit.plan.stateId}`;
}

/** A name in the same slot as a key of ours, which no limit can have. */
export function probeKeyName(prefix: string, key: string): string {
  return `${prefix}${STATE_VERSION}${tagOf(key)}:probe`;
}

/** The part of a name that says whose state it is: all states of one key live together. */
export function tagOf(key: string): string {
  return key.slice(key.indexOf('{'), key.indexOf('}') + 1);
}

/** Raised whenever a packed state changes its meaning: old states are then left to expire. */
const STATE_VERSION = '2';

/** Keys whose hashes are remembered, at most twice as many: those of clients that are asking now. */
const REMEMBERED = 4096;
let recent = new Map<string, string>();
let older = new Map<string, string>();

/** Most keys are checked again soon, and remembering a name is many times faster than hashing. */
function hashed(stateKey: string): string {
  const known = recent.get(stateKey);
  if (known !== undefined) return known;
  const found = older.get(stateKey) ?? hashOf(stateKey);
  if (recent.size >= REMEMBERED) {
    older = recent;
    recent = new Map<string, string>();
  }
  recent.set(stateKey, found);
  return found;
}

function hashOf(stateKey: string): string {
  // UTF-16, because two keys that differ only in a lone surrogate are the same bytes in UTF-8.
  return hash('sha256', Buffer.from(stateKey, 'utf16le'), 'base64url').slice(0, KEY_HASH_LETTERS);
}
