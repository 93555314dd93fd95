import { createLocalJWKSet, type JWTVerifyGetKey } from 'jose';
import { publicKeysIn } from './jwk-set.ts';

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

/** The keys of a JWK Set. Throws a `KeySetError`. */
export function parseKeySet(text: string): KeySet {
  const keys = [...publicKeysIn(text)];
  return { find: createLocalJWKSet({ keys }), size: keys.length };
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
