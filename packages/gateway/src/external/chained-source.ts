import type { LimitsSourceSnapshot } from '../telemetry/metric.ts';
import { type LimitsAnswer, compareLimits, holdsRaise, parseAnswer } from './answer.ts';
import type { ChangeLog } from './change-log.ts';
import type { LimitsCompiler } from './compiled-limits.ts';
import type { Freshness, FreshnessDefaults } from './freshness.ts';
import {
  type ExternalLimits,
  type LimitsQuestion,
  type LimitsSourceObserver,
  type ObservedLimitsSource,
  STATIC_LIMITS,
  type StepReason,
} from './limits-source.ts';
import {
  type CacheEntry,
  type KnownAnswer,
  LocalCache,
  type FoundAnswer,
  type SharedCache,
} from './answer-caches.ts';
import type { QuestionReader } from './question.ts';
import type { FetchedAnswer, CallFailure, LimitsServiceCaller } from './limits-service-caller.ts';

export interface ChainParts {
  readonly reader: QuestionReader;
  readonly caller: LimitsServiceCaller;
  readonly compiler: LimitsCompiler;
  /** Undefined: every gateway keeps its own answers. */
  readonly shared: SharedCache | undefined;
  readonly observer: LimitsSourceObserver;
  readonly changes: ChangeLog;
}

export interface ChainOptions {
  /** From the question to the limits, whatever happens. */
  readonly timeoutMs: number;
  readonly maxEntries: number;
  readonly defaults: FreshnessDefaults;
  /** Milliseconds of a clock that only goes forward. */
  readonly now: () => number;
  /** 0 to 1. */
  readonly random: () => number;
}

/** What a lookup came to. */
interface ResolvedLimits {
  readonly limits: ExternalLimits;
  readonly reason: StepReason;
}

/** Uses within one lifetime that make a key worth a refresh before a request has to wait. */
const HOT_HITS = 3;
/** The part of its life after which a hot answer is refreshed: not the same for all, or all would ask at once. */
const REFRESH_FROM = 0.75;
const REFRESH_SPREAD = 0.15;
/** How long a failure is remembered: longer with every one in a row. */
const MIN_QUIET_MS = 1000;
const MAX_QUIET_MS = 5000;

/**
 * Limits by the chain cache, service, stale copy, static limits. Questions about the same share one lookup, which ends
 * within the deadline; a caller who disconnects takes nothing down with it.
 */
export class ChainedSource implements ObservedLimitsSource {
  private readonly parts: ChainParts;
  private readonly options: ChainOptions;
  private readonly local: LocalCache;
  private readonly lookups = new Map<string, Promise<ResolvedLimits>>();
  private closed = false;

  constructor(parts: ChainParts, options: ChainOptions) {
    this.parts = parts;
    this.options = options;
    this.local = new LocalCache(options.maxEntries);
  }

  limitsFor(question: LimitsQuestion): ExternalLimits | Promise<ExternalLimits> {
    const identity = this.parts.reader.identityOf(question);
    const entry = this.local.get(identity);
    if (entry === undefined || this.closed) return this.find(identity, question);
    const now = this.options.now();
    const { known } = entry;
    if (known !== undefined && now < known.freshUntilMs) {
      entry.hits += 1;
      entry.recent = true;
      if (now >= known.refreshAtMs && entry.hits >= HOT_HITS) this.refresh(identity, question, entry);
      return this.told({ limits: known.cached, reason: 'local' });
    }
    if (now < entry.quietUntilMs) return this.told({ limits: standIn(known, now), reason: 'quiet' });
    return this.find(identity, question);
  }

  snapshot(): LimitsSourceSnapshot {
    return { ...this.parts.caller.snapshot(), entries: this.local.size };
  }

  async close(): Promise<void> {
    this.closed = true;
    await this.parts.caller.close();
    await Promise.allSettled(this.lookups.values());
    await this.parts.shared?.close();
  }

  private find(identity: string, question: LimitsQuestion): ExternalLimits | Promise<ExternalLimits> {
    if (this.closed) return this.told({ limits: STATIC_LIMITS, reason: 'closed' });
    // Requests with the same question wait for the same lookup.
    const outcome = this.lookups.get(identity) ?? this.tracked(identity, this.lookUp(identity, question));
    if (!(outcome instanceof Promise)) return this.told(outcome);
    return this.wait(outcome, question.signal);
  }

  private async wait(
    lookup: Promise<ResolvedLimits>,
    signal: AbortSignal | undefined,
  ): Promise<ExternalLimits> {
    return this.told(await (signal === undefined ? lookup : endedBy(signal, lookup)));
  }

  private tracked(
    identity: string,
    lookup: ResolvedLimits | Promise<ResolvedLimits>,
  ): ResolvedLimits | Promise<ResolvedLimits> {
    if (!(lookup instanceof Promise)) return lookup;
    const tracked = lookup
      // Only a mistake of ours gets here; it must not become the caller's.
      .catch((error: unknown) => this.withMistake(error))
      .finally(() => this.lookups.delete(identity));
    this.lookups.set(identity, tracked);
    return tracked;
  }

  private lookUp(identity: string, question: LimitsQuestion): ResolvedLimits | Promise<ResolvedLimits> {
    if (this.parts.shared === undefined) return this.fromService(identity, question, this.options.timeoutMs);
    return this.lookUpShared(identity, question);
  }

  private async lookUpShared(identity: string, question: LimitsQuestion): Promise<ResolvedLimits> {
    const startedMs = this.options.now();
    const found = await this.fromShared(identity);
    const now = this.options.now();
    if (found !== undefined && now < found.freshUntilMs) return { limits: found.cached, reason: 'shared' };
    return this.fromService(identity, question, this.options.timeoutMs - (now - startedMs));
  }

  private fromService(
    identity: string,
    question: LimitsQuestion,
    timeoutMs: number,
  ): ResolvedLimits | Promise<ResolvedLimits> {
    const fetched = this.parts.caller.ask(this.parts.reader.requestOf(question), {
      timeoutMs,
      defaults: this.options.defaults,
      parse: (value) => this.read(value, question.key),
    });
    if (!(fetched instanceof Promise)) return this.withoutAnswer(identity, fetched);
    return this.afterCall(identity, question.key, fetched);
  }

  private async afterCall(
    identity: string,
    key: string,
    pending: Promise<FetchedAnswer | CallFailure>,
  ): Promise<ResolvedLimits> {
    const fetched = await pending;
    if ('failed' in fetched) return this.withoutAnswer(identity, fetched);
    return { limits: atStep(this.accept(identity, key, fetched), 'service'), reason: 'answered' };
  }

  /** The answer, parsed and compiled: both may find it wrong. */
  private read(value: unknown, key: string): Pick<FetchedAnswer, 'answer' | 'limits'> {
    const answer = parseAnswer(value);
    const { limits, refused } = this.parts.compiler.compile(answer);
    for (const { field, why } of refused) {
      this.parts.observer.refused(field);
      this.parts.changes.refused(key, field, why);
    }
    return { answer, limits };
  }

  /** Takes an answer over, unless it is a raise that has to wait; tells what holds now. */
  private accept(identity: string, key: string, fetched: FetchedAnswer): ExternalLimits {
    const now = this.options.now();
    const before = this.local.get(identity)?.known;
    const { used, loweredAtMs } = this.weighed(key, before, fetched);
    if (fetched.freshness.freshMs + fetched.freshness.staleMs === 0) {
      this.local.delete(identity);
      // Also what was said before: it would be taken for the last word.
      void this.parts.shared?.remove(identity);
      return used.limits;
    }
    const { freshness } = fetched;
    this.keep(identity, { ...used, freshness, lifeMs: freshness.freshMs, loweredAtMs, now });
    void this.parts.shared?.write(identity, { wire: used.wire, freshness: fetched.freshness });
    return used.limits;
  }

  private weighed(
    key: string,
    before: KnownAnswer | undefined,
    fetched: FetchedAnswer,
  ): { readonly used: AcceptedAnswer; readonly loweredAtMs: number } {
    const { changes, observer } = this.parts;
    const now = this.options.now();
    if (before === undefined) {
      const { tenantKey } = fetched.answer;
      if (tenantKey !== undefined && tenantKey !== key) changes.tenantNamed(key, tenantKey);
      return { used: fetched, loweredAtMs: -Infinity };
    }
    const change = compareLimits(before.answer, fetched.answer);
    if (change === 'same') {
      // Said again to be that low, after someone said otherwise: the time that a raise waits starts again.
      return { used: fetched, loweredAtMs: before.contradicted ? now : before.loweredAtMs };
    }
    if (change === 'higher' && holdsRaise(before.loweredAtMs, fetched.freshness.freshMs, now)) {
      observer.changed('held');
      return {
        used: { answer: before.answer, limits: before.cached, wire: before.wire, contradicted: true },
        loweredAtMs: before.loweredAtMs,
      };
    }
    observer.changed(change);
    changes.limitsChanged(key, change, { from: before.answer, to: fetched.answer });
    return { used: fetched, loweredAtMs: change === 'lower' ? now : before.loweredAtMs };
  }

  private keep(identity: string, kept: KeptAnswer): KnownAnswer {
    const { freshness, now } = kept;
    const freshUntilMs = now + freshness.freshMs;
    const known: KnownAnswer = {
      answer: kept.answer,
      wire: kept.wire,
      cached: kept.limits,
      stale: atStep(kept.limits, 'stale'),
      freshUntilMs,
      staleUntilMs: freshUntilMs + freshness.staleMs,
      // Counted from when it was new, not from when this gateway heard of it: else nobody would ever be the one to ask.
      refreshAtMs: freshUntilMs - kept.lifeMs * (1 - REFRESH_FROM - REFRESH_SPREAD * this.options.random()),
      loweredAtMs: kept.loweredAtMs,
      contradicted: kept.contradicted ?? false,
    };
    this.local.set(identity, { known, quietUntilMs: 0, hits: 0, recent: false });
    return known;
  }

  /** Reads the shared copy into local memory if it is better than what is there. */
  private async fromShared(identity: string): Promise<KnownAnswer | undefined> {
    const { shared } = this.parts;
    if (shared === undefined) return undefined;
    const found = await shared.read(identity);
    const before = this.local.get(identity)?.known;
    if (found === undefined) return before;
    return this.adopt(identity, found, before) ?? before;
  }

  private adopt(
    identity: string,
    found: FoundAnswer,
    before: KnownAnswer | undefined,
  ): KnownAnswer | undefined {
    const now = this.options.now();
    const { freshMs, staleMs } = found.freshness;
    const isNewer =
      before === undefined ||
      (freshMs > 0 ? now + freshMs > before.freshUntilMs : now + staleMs > before.staleUntilMs);
    if (!isNewer) return before;
    try {
      const answer = parseAnswer(found.wire);
      const { limits } = this.parts.compiler.compile(answer);
      const isLower = before !== undefined && compareLimits(before.answer, answer) === 'lower';
      const loweredAtMs = isLower ? now : (before?.loweredAtMs ?? -Infinity);
      const { wire, freshness, lifeMs } = found;
      return this.keep(identity, { answer, limits, wire, freshness, lifeMs, loweredAtMs, now });
    } catch {
      // Written by another program, or by a version that allowed more: treated as missing.
      this.parts.observer.sharedCache('read', 'corrupt');
      return undefined;
    }
  }

  /** The service did not answer: the last answer while it may stand in, else the static limits. Both for a while. */
  private withoutAnswer(identity: string, { failed: reason, failuresInARow }: CallFailure): ResolvedLimits {
    const now = this.options.now();
    const known = this.local.get(identity)?.known;
    const quietMs = Math.min(MAX_QUIET_MS, Math.max(1, failuresInARow) * MIN_QUIET_MS);
    if (reason !== 'closed') {
      const stays = known !== undefined && now < known.staleUntilMs ? known : undefined;
      this.local.set(identity, { known: stays, quietUntilMs: now + quietMs, hits: 0, recent: false });
    }
    return { limits: standIn(known, now), reason };
  }

  /** Asks again before the answer runs out, for nobody in particular: who fails here changes nothing. */
  private refresh(identity: string, question: LimitsQuestion, entry: CacheEntry): void {
    if (this.lookups.has(identity) || !this.parts.caller.hasRoom || this.options.now() < entry.quietUntilMs)
      return;
    void this.tracked(identity, this.refreshed(identity, question));
    this.parts.observer.refreshed();
  }

  private async refreshed(identity: string, question: LimitsQuestion): Promise<ResolvedLimits> {
    const startedMs = this.options.now();
    const before = this.local.get(identity)?.known;
    // Another gateway may have done it already.
    const found = await this.fromShared(identity);
    const now = this.options.now();
    if (found !== undefined && found !== before && found.refreshAtMs > now) {
      return { limits: found.cached, reason: 'shared' };
    }
    // Someone may wait for this by now, and not longer than for any other lookup.
    return this.fromService(identity, question, this.options.timeoutMs - (now - startedMs));
  }

  private withMistake(error: unknown): ResolvedLimits {
    this.parts.changes.mistake(error);
    return { limits: STATIC_LIMITS, reason: 'invalid' };
  }

  private told({ limits, reason }: ResolvedLimits): ExternalLimits {
    this.parts.observer.resolved(limits.step, reason);
    return limits;
  }
}

interface AcceptedAnswer {
  readonly answer: LimitsAnswer;
  readonly limits: ExternalLimits;
  readonly wire: unknown;
  readonly contradicted?: boolean;
}

interface KeptAnswer extends AcceptedAnswer {
  readonly freshness: Freshness;
  /** How long it was fresh in all. */
  readonly lifeMs: number;
  readonly loweredAtMs: number;
  readonly now: number;
}

function atStep(limits: ExternalLimits, step: ExternalLimits['step']): ExternalLimits {
  return { ...limits, step };
}

/** What holds while the service does not answer. */
function standIn(known: KnownAnswer | undefined, nowMs: number): ExternalLimits {
  if (known === undefined || nowMs >= known.staleUntilMs) return STATIC_LIMITS;
  return nowMs < known.freshUntilMs ? known.cached : known.stale;
}

async function endedBy(signal: AbortSignal, lookup: Promise<ResolvedLimits>): Promise<ResolvedLimits> {
  const cancelled: ResolvedLimits = { limits: STATIC_LIMITS, reason: 'cancelled' };
  if (signal.aborted) return cancelled;
  return new Promise((resolve, reject) => {
    const onAbort = (): void => resolve(cancelled);
    signal.addEventListener('abort', onAbort, { once: true });
    lookup.then(resolve, reject).finally(() => signal.removeEventListener('abort', onAbort));
  });
}
