import { oneLine, type Breaker, type BreakerPermit } from 'spillgate/internal';
import type { LimitsSourceSnapshot } from '../telemetry/metric.ts';
import type { LimitsAnswer } from './answer.ts';
import type { ChangeLog } from './change-log.ts';
import { freshnessOf, type Freshness, type FreshnessDefaults } from './freshness.ts';
import type { KeyBreakers } from './key-breakers.ts';
import type { ExternalLimits, LimitsSourceObserver, StepReason } from './limits-source.ts';
import { bounded } from './question.ts';
import {
  type ServiceRequest,
  type ServiceAnswer,
  type ServiceClient,
  ServiceFailure,
} from './service/service.ts';

export interface FetchedAnswer {
  readonly answer: LimitsAnswer;
  readonly limits: ExternalLimits;
  readonly wire: unknown;
  readonly freshness: Freshness;
}

/** Why there is not an answer, and how often in a row there was none for the key. */
export interface CallFailure {
  readonly failed: StepReason;
  readonly failuresInARow: number;
}

export interface CallTerms {
  readonly timeoutMs: number;
  readonly defaults: FreshnessDefaults;
  /** Throws a `ServiceFailure`. */
  readonly parse: (value: unknown) => Pick<FetchedAnswer, 'answer' | 'limits'>;
}

export interface CallerParts {
  readonly service: ServiceClient;
  readonly slots: Slots;
  /** By key. */
  readonly breakers: KeyBreakers;
  /** Of the service as a whole. */
  readonly globalBreaker: Breaker;
  readonly observer: LimitsSourceObserver;
  readonly changes: ChangeLog;
  readonly now: () => number;
}

interface Permits {
  readonly key: string;
  readonly own: BreakerPermit;
  readonly shared: BreakerPermit;
}

interface PermittedRequest extends CallTerms {
  readonly permits: Permits;
}

/** A call that gets less of the time would fail for having waited, which says nothing about the service. */
const MIN_SHARE = 0.1;
const MAX_MESSAGE_LENGTH = 300;

/**
 * Calls the service: never more often at once than it can take, not while it fails, and not for longer than allowed.
 */
export class LimitsServiceCaller {
  private readonly parts: CallerParts;
  private readonly calls = new Set<AbortController>();
  private closed = false;

  constructor(parts: CallerParts) {
    this.parts = parts;
  }

  get hasRoom(): boolean {
    return this.parts.slots.hasRoom;
  }

  snapshot(): Omit<LimitsSourceSnapshot, 'entries'> {
    const { slots, breakers, globalBreaker, now } = this.parts;
    const nowMs = now();
    return {
      inFlight: slots.inFlight,
      queued: slots.queued,
      breakers: breakers.size,
      openBreakers: breakers.openCount,
      globalBreaker: globalBreaker.state(nowMs),
    };
  }

  /** Never rejects; says at once if nobody will be asked. */
  ask(request: ServiceRequest, options: CallTerms): CallFailure | Promise<FetchedAnswer | CallFailure> {
    if (this.closed) return notAsked('closed');
    if (options.timeoutMs <= 0) return notAsked('timeout');
    const permits = this.enter(request.key);
    if (typeof permits === 'string') return notAsked(permits);
    const slot = this.parts.slots.acquire(request.key);
    if (slot !== 'full') return this.askWith(slot, request, { ...options, permits });
    this.abandon(permits);
    return notAsked('overflow');
  }

  async close(): Promise<void> {
    this.closed = true;
    for (const call of this.calls) call.abort();
    this.parts.slots.clear();
    await this.parts.service.close();
  }

  private enter(asked: string): Permits | 'breakerOpen' | 'globalBreakerOpen' {
    const { breakers, globalBreaker, now } = this.parts;
    const key = bounded(asked);
    const own = breakers.enter(key, now());
    if (own === undefined) return 'breakerOpen';
    const shared = globalBreaker.enter(now());
    if (shared !== undefined) return { key, own, shared };
    breakers.abandoned(key, own);
    return 'globalBreakerOpen';
  }

  private async askWith(
    slot: 'granted' | QueuedSlot,
    request: ServiceRequest,
    options: PermittedRequest,
  ): Promise<FetchedAnswer | CallFailure> {
    const { slots, now } = this.parts;
    const startedMs = now();
    if (slot !== 'granted' && !(await grantedIn(slot, options.timeoutMs))) {
      this.abandon(options.permits);
      return notAsked(this.closed ? 'closed' : 'timeout');
    }
    try {
      const timeoutMs = options.timeoutMs - (now() - startedMs);
      if (timeoutMs >= options.timeoutMs * MIN_SHARE)
        return await this.call(request, { ...options, timeoutMs });
      this.abandon(options.permits);
      return notAsked('timeout');
    } finally {
      slots.release(request.key);
    }
  }

  private async call(
    request: ServiceRequest,
    options: PermittedRequest,
  ): Promise<FetchedAnswer | CallFailure> {
    const { service, now } = this.parts;
    const { timeoutMs, permits } = options;
    const askedMs = now();
    const ending = new AbortController();
    const { signal } = ending;
    this.calls.add(ending);
    const timer = setTimeout(() => ending.abort(), timeoutMs);
    try {
      const answer = await inTime(signal, service.ask(request, { signal, timeoutMs }));
      return this.succeeded(permits, fetchedFrom(answer, options), askedMs);
    } catch (failure) {
      return this.failed(permits, failure, askedMs);
    } finally {
      clearTimeout(timer);
      this.calls.delete(ending);
    }
  }

  private succeeded({ key, own, shared }: Permits, fetched: FetchedAnswer, askedMs: number): FetchedAnswer {
    const { breakers, globalBreaker, observer, now } = this.parts;
    this.reportChanges(key, () => {
      breakers.succeeded(key, own);
      globalBreaker.succeeded(shared);
    });
    observer.asked('answered', now() - askedMs);
    return fetched;
  }

  private failed(permits: Permits, failure: unknown, askedMs: number): CallFailure {
    const { observer, changes, now } = this.parts;
    if (this.closed) {
      this.abandon(permits);
      return notAsked('closed');
    }
    const known = failure instanceof ServiceFailure ? failure : undefined;
    // Anything else is a mistake of ours: it must not take a request down, and it must be seen.
    const reason = known?.reason ?? 'invalid';
    const failuresInARow = this.count(permits, known);
    observer.asked(reason, now() - askedMs);
    if (failuresInARow === 1) changes.failed(permits.key, reason, messageOf(failure));
    return { failed: reason, failuresInARow };
  }

  private count({ key, own, shared }: Permits, failure: ServiceFailure | undefined): number {
    const { breakers, globalBreaker, now } = this.parts;
    const nowMs = now();
    const retryAfterMs = failure?.retryAfterMs ?? 0;
    let failuresInARow = 1;
    this.reportChanges(key, () => {
      if (failure?.reason === 'unknownKey') breakers.succeeded(key, own);
      else failuresInARow = breakers.failed(key, own, { nowMs, retryAfterMs });
      // A wrong answer to one question says that the service is there.
      if (failure?.isOutage === true) globalBreaker.failed(shared, nowMs, 0);
      else globalBreaker.succeeded(shared);
    });
    return failuresInARow;
  }

  private abandon({ key, own, shared }: Permits): void {
    this.parts.breakers.abandoned(key, own);
    this.parts.globalBreaker.abandoned(shared);
  }

  private reportChanges(key: string, act: () => void): void {
    const { breakers, globalBreaker, observer } = this.parts;
    const before = { own: breakers.isOpen(key), shared: globalBreaker.isOpen };
    act();
    const after = { own: breakers.isOpen(key), shared: globalBreaker.isOpen };
    if (before.own !== after.own) {
      observer.breaker('key', after.own ? 'open' : 'closed');
      if (after.own) this.parts.changes.breakerOpened('key');
    }
    if (before.shared !== after.shared) {
      observer.breaker('global', after.shared ? 'open' : 'closed');
      if (after.shared) this.parts.changes.breakerOpened('global');
    }
  }
}

function notAsked(failed: StepReason): CallFailure {
  return { failed, failuresInARow: 1 };
}

async function grantedIn(slot: QueuedSlot, timeoutMs: number): Promise<boolean> {
  const timer = setTimeout(() => slot.leave(), timeoutMs);
  try {
    return await slot.granted;
  } finally {
    clearTimeout(timer);
  }
}

function fetchedFrom(answer: ServiceAnswer, { defaults, parse }: CallTerms): FetchedAnswer {
  const parsed = parse(answer.value);
  // The wall clock: HTTP dates are told by it.
  const freshness = freshnessOf(answer.cacheHeaders, parsed.answer, { defaults, nowMs: Date.now() });
  return { ...parsed, wire: answer.value, freshness };
}

/** Even a client that does not listen to its signal keeps nobody waiting. */
async function inTime<Value>(signal: AbortSignal, pending: Promise<Value>): Promise<Value> {
  return new Promise((resolve, reject) => {
    const onAbort = (): void => reject(new ServiceFailure('timeout', 'the answer took too long'));
    signal.addEventListener('abort', onAbort, { once: true });
    pending.then(resolve, reject).finally(() => signal.removeEventListener('abort', onAbort));
  });
}

function messageOf(failure: unknown): string {
  return oneLine(failure instanceof Error ? failure.message : String(failure), MAX_MESSAGE_LENGTH);
}

export interface SlotsOptions {
  /** Calls in flight at once. */
  readonly max: number;
  /** Calls that wait for one of them. */
  readonly maxWaiting: number;
  /** Slots and places in the queue that one key may have: nobody can fill them alone. */
  readonly maxPerKey: number;
}

/** A place in the queue. */
export interface QueuedSlot {
  /** Whether it became a slot; then someone has to `release` it. */
  readonly granted: Promise<boolean>;
  /** Gives the place up; without effect once there is a slot. */
  leave(): void;
}

interface Place {
  readonly key: string;
  readonly resolve: (granted: boolean) => void;
}

/** How many calls may be in flight, how many may wait, and of whom. First come, first served. */
export class Slots {
  private readonly options: SlotsOptions;
  private taken = 0;
  private readonly waiting = new Set<Place>();
  private readonly perKey = new Map<string, number>();

  constructor(options: SlotsOptions) {
    this.options = options;
  }

  get inFlight(): number {
    return this.taken;
  }

  get queued(): number {
    return this.waiting.size;
  }

  get hasRoom(): boolean {
    return this.taken < this.options.max;
  }

  /** A slot now, a place to wait for one, or `full`: neither. */
  acquire(key: string): 'granted' | 'full' | QueuedSlot {
    const ofKey = this.perKey.get(key) ?? 0;
    const { max, maxWaiting, maxPerKey } = this.options;
    if (ofKey >= maxPerKey || (this.taken >= max && this.waiting.size >= maxWaiting)) return 'full';
    this.perKey.set(key, ofKey + 1);
    if (this.taken >= max) return this.wait(key);
    this.taken += 1;
    return 'granted';
  }

  release(key: string): void {
    this.forget(key);
    for (const next of this.waiting) {
      // The slot goes from hand to hand and is never free in between.
      this.waiting.delete(next);
      next.resolve(true);
      return;
    }
    this.taken -= 1;
  }

  /** Rejects every call that waits. */
  clear(): void {
    for (const place of this.waiting) this.leave(place);
  }

  private wait(key: string): QueuedSlot {
    let place: Place | undefined;
    const granted = new Promise<boolean>((resolve) => {
      place = { key, resolve };
      this.waiting.add(place);
    });
    return { granted, leave: () => place !== undefined && this.leave(place) };
  }

  private leave(place: Place): void {
    if (!this.waiting.delete(place)) return;
    this.forget(place.key);
    place.resolve(false);
  }

  private forget(key: string): void {
    const left = (this.perKey.get(key) ?? 0) - 1;
    if (left > 0) this.perKey.set(key, left);
    else this.perKey.delete(key);
  }
}
