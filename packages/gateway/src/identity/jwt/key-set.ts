import { createLocalJWKSet, type JWTVerifyGetKey } from 'jose';
import { z } from 'zod';
import { jsonTrap } from '../../external/strict-json.ts';

/** Keys of an issuer. Another object as soon as one of them changes. */
export interface KeySet {
  readonly find: JWTVerifyGetKey;
  readonly size: number;
}

/** Where keys come from. */
export interface KeySource {
  /** Those in use; undefined if there are none, or they are too old. */
  current(): KeySet | undefined;
  /** Others than the given ones, if that is possible without waiting longer than a request may. Never rejects. */
  newer(than: KeySet | undefined): KeySet | undefined | Promise<KeySet | undefined>;
  close(): void;
}

const MAX_KEYS = 100;
/** RFC 7517 §4, and RFC 7518 §6: what a private or a shared key has. */
const PRIVATE_MEMBERS = ['d', 'p', 'q', 'dp', 'dq', 'qi', 'oth', 'k', 'priv'];

const jwkSet = z.object({
  keys: z.array(z.looseObject({ kty: z.string() })).max(MAX_KEYS, `has more than ${MAX_KEYS} keys`),
});

/** Keys that cannot be used, and why. The message continues "the key set ...". */
class KeySetError extends Error {}

/** Reads a JWK Set (RFC 7517 §5). Throws a `KeySetError`. */
export function parseKeySet(text: string): KeySet {
  const parsed = jwkSet.safeParse(jsonIn(text));
  if (!parsed.success) throw new KeySetError('is not a JWK Set: expected {"keys": [...]}');
  const { keys } = parsed.data;
  if (keys.length === 0) throw new KeySetError('has no keys');
  if (keys.some((key) => PRIVATE_MEMBERS.some((member) => Object.hasOwn(key, member)))) {
    throw new KeySetError('has a private or a shared key; expected public keys only');
  }
  return { find: createLocalJWKSet({ keys }), size: keys.length };
}

function jsonIn(text: string): unknown {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch (cause) {
    throw new KeySetError('is not JSON', { cause });
  }
  const trap = jsonTrap(text);
  if (trap !== undefined) throw new KeySetError(trap);
  return value;
}

/** Keys that somebody puts in place, such as those of a file. */
export class PlacedKeys implements KeySource {
  private keys: KeySet;
  private text: string;

  /** Throws a `KeySetError`. */
  constructor(text: string) {
    this.text = text;
    this.keys = parseKeySet(text);
  }

  /** Throws a `KeySetError` and keeps the old ones. */
  replace(text: string): void {
    if (text === this.text) return;
    this.keys = parseKeySet(text);
    this.text = text;
  }

  current(): KeySet {
    return this.keys;
  }

  newer(than: KeySet | undefined): KeySet | undefined {
    return this.keys === than ? undefined : this.keys;
  }

  close(): void {
    // Whoever places keys stops doing so.
  }
}
