import { LimiterError, show } from './errors.ts';
import { sha256Hex } from './sha256.ts';

/** Longer keys are kept as a hash, so that no client decides how much memory one key takes. */
export const MAX_PLAIN_KEY_LENGTH = 128;
export const MAX_KEY_LENGTH: number = 2 ** 20;

const HASH_MARK = '~';
const HASH_MARK_CODE = HASH_MARK.charCodeAt(0);

/**
 * The text under which a store keeps the state of a key: the key itself when it is short, else `~` and its SHA-256.
 * Short keys that start with `~` are hashed too, so nobody can spell the hash of someone else's long key.
 */
export function toStateKey(key: string): string {
  if (typeof key !== 'string') {
    throw new LimiterError(
      'INVALID_KEY',
      `The key is ${show(key)}; it has to be a string: convert ids with String(id).`,
    );
  }
  if (key.length === 0) {
    throw new LimiterError(
      'INVALID_KEY',
      "The key is empty (''); a key has 1 to 1048576 characters. Decide what a missing value means first: '' would be one bucket for all of them.",
    );
  }
  if (key.length <= MAX_PLAIN_KEY_LENGTH && key.charCodeAt(0) !== HASH_MARK_CODE) return key;
  if (key.length > MAX_KEY_LENGTH) {
    throw new LimiterError(
      'INVALID_KEY',
      `The key is ${show(key)}; at most ${MAX_KEY_LENGTH} characters are accepted: shorten it.`,
    );
  }
  return HASH_MARK + sha256Hex(key);
}
