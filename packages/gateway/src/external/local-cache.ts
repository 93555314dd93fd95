import type { LimitsAnswer } from './answer.ts';
import type { ExternalLimits } from './limits-source.ts';

/** What this process knows about one question. Times are those of a clock that only goes forward. */
export interface CacheEntry {
  /** The last answer, with the moments until which it holds; undefined if there never was one that may be kept. */
  readonly known: KnownAnswer | undefined;
  /** Until then the service is not asked again: it has just failed. */
  readonly quietUntilMs: number;
  /** Uses since it was fetched. */
  hits: number;
  /** Used since the cache last looked for something to drop. */
  recent: boolean;
}

export interface KnownAnswer {
  readonly answer: LimitsAnswer;
  /** As it was said, for those who have to read it again. */
  readonly wire: unknown;
  /** The same limits under each step that can serve them. */
  readonly cached: ExternalLimits;
  readonly stale: ExternalLimits;
  readonly freshUntilMs: number;
  readonly staleUntilMs: number;
  /** From then on a use of it starts a refresh in the background. */
  readonly refreshAtMs: number;
  /** When limits were last lowered, or said again to be that low. */
  readonly loweredAtMs: number;
  /** A higher one was said since and had to wait. */
  readonly contradicted: boolean;
}

/** A bounded map that drops what was not used lately: first in, first out, with a second chance. */
export class LocalCache {
  private readonly max: number;
  private readonly entries = new Map<string, CacheEntry>();

  constructor(max: number) {
    this.max = max;
  }

  get size(): number {
    return this.entries.size;
  }

  get(identity: string): CacheEntry | undefined {
    return this.entries.get(identity);
  }

  set(identity: string, entry: CacheEntry): void {
    if (!this.entries.delete(identity) && this.entries.size >= this.max) this.dropOne();
    this.entries.set(identity, entry);
  }

  delete(identity: string): void {
    this.entries.delete(identity);
  }

  private dropOne(): void {
    for (const [identity, entry] of this.entries) {
      this.entries.delete(identity);
      if (!entry.recent) return;
      // This ends: an entry that comes round a second time is no longer recent.
      entry.recent = false;
      this.entries.set(identity, entry);
    }
  }
}
