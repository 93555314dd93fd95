import { z } from 'zod';
import type { LimitsAnswer } from './answer.ts';
import type { Freshness } from './freshness.ts';
import type { LimitsSourceObserver, ExternalLimits } from './limits-source.ts';
import { sha256 } from './question.ts';

/** What the shared cache needs of a Redis client. It rejects in good time when Redis does not answer. */
export interface CacheClient {
  /** The value, and how long it still lives. */
  read(name: string): Promise<readonly [value: string | null, ttlMs: number]>;
  write(name: string, value: string, ttlMs: number): Promise<void>;
  remove(name: string): Promise<void>;
  close(): Promise<void>;
}

interface SharedAnswer {
  readonly wire: unknown;
  readonly freshness: Freshness;
}

/** An answer that some gateway got; of its times, what is left. */
export interface FoundAnswer extends SharedAnswer {
  /** How long it was fresh in all. */
  readonly lifeMs: number;
}

interface SharedCacheOptions {
  readonly client: CacheClient;
  readonly prefix: string;
  /** Which service answers: two of them may share a Redis. */
  readonly serviceId: string;
  readonly observer: LimitsSourceObserver;
  readonly now: () => number;
}

/** Counts up when what is stored changes its meaning: gateways of two versions may run side by side. */
const FORMAT = 1;
/** After a failure nobody waits for the cache for so long. */
const PAUSE_MS = 1000;
const MAX_VALUE_LENGTH = 2 ** 20;

const storedEntry = z.strictObject({
  format: z.literal(FORMAT),
  /** Whose answer this is: an entry that was copied to another name is not used. */
  question: z.string(),
  freshMs: z.int().min(0),
  staleMs: z.int().min(0),
  answer: z.unknown(),
});

/** Answers that all gateways share. It may fail at any time: then there is just no cache. */
export class SharedCache {
  private readonly options: SharedCacheOptions;
  private pausedUntilMs = 0;

  constructor(options: SharedCacheOptions) {
    this.options = options;
  }

  async read(identity: string): Promise<FoundAnswer | undefined> {
    const { client, observer, now } = this.options;
    if (now() < this.pausedUntilMs) return undefined;
    const name = this.nameOf(identity);
    try {
      const [text, ttlMs] = await client.read(name);
      if (text === null) {
        observer.sharedCache('read', 'miss');
        return undefined;
      }
      const found = parseEntry(text, name, ttlMs);
      const outcome = found === undefined ? 'corrupt' : found.freshness.freshMs > 0 ? 'hit' : 'stale';
      observer.sharedCache('read', outcome);
      return found;
    } catch {
      this.failed('read');
      return undefined;
    }
  }

  async write(identity: string, { wire, freshness }: SharedAnswer): Promise<void> {
    const { client, observer, now } = this.options;
    const freshMs = Math.floor(freshness.freshMs);
    const staleMs = Math.floor(freshness.staleMs);
    if (freshMs + staleMs < 1 || now() < this.pausedUntilMs) return;
    const name = this.nameOf(identity);
    const entry: z.input<typeof storedEntry> = {
      format: FORMAT,
      question: name,
      freshMs,
      staleMs,
      answer: wire,
    };
    try {
      await client.write(name, JSON.stringify(entry), freshMs + staleMs);
      observer.sharedCache('write', 'stored');
    } catch {
      this.failed('write');
    }
  }

  /** Does not wait, and does not mind: what is there runs out by itself. */
  async remove(identity: string): Promise<void> {
    if (this.options.now() < this.pausedUntilMs) return;
    try {
      await this.options.client.remove(this.nameOf(identity));
    } catch {
      this.failed('write');
    }
  }

  close(): Promise<void> {
    return this.options.client.close();
  }

  /** Letters and digits of a hash only: no byte of a client's gets into the name, and no limiter has one like it. */
  private nameOf(identity: string): string {
    return `${this.options.prefix}limits:${FORMAT}:${sha256(`${this.options.serviceId}\n${identity}`)}`;
  }

  private failed(operation: 'read' | 'write'): void {
    this.pausedUntilMs = this.options.now() + PAUSE_MS;
    this.options.observer.sharedCache(operation, 'failed');
  }
}

/** What is left is told by Redis, which counts time for everyone: clocks of gateways may disagree. */
function parseEntry(text: string, name: string, ttlMs: number): FoundAnswer | undefined {
  if (text.length > MAX_VALUE_LENGTH) return undefined;
  const parsed = storedEntry.safeParse(parseJson(text));
  if (!parsed.success || parsed.data.question !== name) return undefined;
  const { answer, freshMs, staleMs } = parsed.data;
  // An entry that never expires, or lives longer than it says, was not written by us.
  if (ttlMs < 0 || ttlMs > freshMs + staleMs) return undefined;
  return {
    wire: answer,
    lifeMs: freshMs,
    freshness: { freshMs: Math.max(0, ttlMs - staleMs), staleMs: Math.min(ttlMs, staleMs) },
  };
}

function parseJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

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
