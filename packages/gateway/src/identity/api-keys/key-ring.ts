import { createHash, timingSafeEqual } from 'node:crypto';
import type { ApiKeyEntry } from '../../config/schema/identity.ts';
import { OwnedKeys, type KeyNames } from '../../config/schema/key-names.ts';
import type { AcceptedKey } from '../identity.ts';

/** Why a key is not accepted. Only logs and metrics tell which: to the client all are the same. */
export type KeyRejection = 'unknown' | 'disabled' | 'expired';

/** Longer than any key, and short enough to be hashed in no time. */
const MAX_SECRET_LENGTH = 512;

/** What is known of a secret by its hash. */
interface KnownSecret {
  readonly digest: Buffer;
  readonly key: AcceptedKey;
  readonly disabled: boolean;
  /** Milliseconds since 1970; infinite if it does not expire. */
  readonly untilMs: number;
}

/** Compared with where nothing is known, so that it takes as long. */
const NOBODYS: KnownSecret = {
  digest: Buffer.alloc(32),
  key: { name: '', plan: undefined },
  disabled: true,
  untilMs: -Infinity,
};

/** The keys of one moment, by their hashes. */
export class KeyRing {
  private readonly byHash = new Map<string, KnownSecret>();
  /** Also of those that are not accepted. */
  readonly names: KeyNames = new OwnedKeys(() =>
    [...this.byHash].map(([digits, { key }]) => [digits, key.name] as const),
  );

  constructor(entries: readonly ApiKeyEntry[]) {
    for (const entry of entries) {
      const untilMs = entry.expires === undefined ? Infinity : Date.parse(entry.expires);
      this.add(entry, entry.hash, untilMs);
      const { previous } = entry;
      if (previous !== undefined) {
        this.add(entry, previous.hash, Math.min(untilMs, Date.parse(previous.until)));
      }
    }
  }

  /**
   * The same work for every secret, known or not. What is looked up is a hash that the client cannot steer towards
   * that of a key, and what is found is compared without telling how much of it fits.
   */
  find(secret: string, nowMs: number): AcceptedKey | KeyRejection {
    const bytes = Buffer.from(secret.slice(0, MAX_SECRET_LENGTH), 'latin1');
    const digest = createHash('sha256').update(bytes).digest();
    const known = this.byHash.get(digest.toString('hex')) ?? NOBODYS;
    const fits = timingSafeEqual(known.digest, digest) && secret.length <= MAX_SECRET_LENGTH;
    const expired = nowMs >= known.untilMs;
    if (!fits) return 'unknown';
    if (known.disabled) return 'disabled';
    return expired ? 'expired' : known.key;
  }

  private add({ name, plan, disabled }: ApiKeyEntry, hash: string, untilMs: number): void {
    const hex = hash.slice('sha256:'.length);
    this.byHash.set(hex, { digest: Buffer.from(hex, 'hex'), key: { name, plan }, disabled, untilMs });
  }
}

/** A key as files keep it. */
export function hashOfKey(secret: string): string {
  return `sha256:${createHash('sha256').update(secret, 'latin1').digest('hex')}`;
}
