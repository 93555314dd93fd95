import { readClock, type Clock } from './clock.ts';
import { answerWithin } from './deadline.ts';
import { toDecision, type Decision } from './decision.ts';
import { LimiterError, show } from './errors.ts';
import { Emitter, type LimiterEvent, type Listener } from './events.ts';
import { storeFailure, verdictsWithoutStore, type FailurePolicy } from './failure-policy.ts';
import { Limit } from './limit.ts';
import { isSyncStore, type Store, type StoreHealth, type SyncStore } from './stores/store.ts';

export const MAX_LIMITS_PER_CHECK = 32;

export interface CheckOptions {
  /** Units this request spends: an integer >= 0; 0 only looks. Default: 1. */
  readonly cost?: number | undefined;
  /** Gives up waiting for the store; the call then rejects with the signal's reason. */
  readonly signal?: AbortSignal | undefined;
}

/** The object an application holds. */
export interface Limiter {
  /** Decides and spends: all limits are charged, or none. Never rejects for a denial or an outage. */
  check(limits: Limit | readonly Limit[], options?: CheckOptions): Promise<Decision>;
  /** `check` without waiting, for stores that need nobody else to decide. */
  checkSync(limits: Limit | readonly Limit[], options?: CheckOptions): Decision;
  /** Decides as `check` would, and spends nothing. */
  peek(limits: Limit | readonly Limit[], options?: CheckOptions): Promise<Decision>;
  /** Makes the limits as if never used. Rejects if the store could not be reached: then nothing is certain. */
  forget(limits: Limit | readonly Limit[]): Promise<void>;
  health(): Promise<StoreHealth>;
  /** Releases the store. Afterwards every call is an error. */
  close(): Promise<void>;
  /** Listens to an event; returns the function that stops listening. */
  on<Event extends LimiterEvent>(event: Event, listener: Listener<Event>): () => void;
}

export interface LimiterParts {
  readonly store: Store;
  /** Decides while the store cannot; given exactly when the failure policy is `inMemoryFallback`. */
  readonly fallback: SyncStore | undefined;
  readonly failurePolicy: FailurePolicy;
  readonly deadlineMs: number;
  readonly clock: Clock;
}

const OVERFLOW_EVENT_INTERVAL_US = 1_000_000;

type Question = 'check' | 'peek';

export class StoreLimiter implements Limiter {
  private readonly parts: LimiterParts;
  private readonly syncStore: SyncStore | undefined;
  private readonly emitter = new Emitter();
  private closed = false;
  private overflowSaidUs = -Infinity;
  private outage: { readonly sinceUs: number; failures: number } | undefined;

  constructor(parts: LimiterParts) {
    this.parts = parts;
    this.syncStore = isSyncStore(parts.store) ? parts.store : undefined;
  }

  check(limits: Limit | readonly Limit[], options?: CheckOptions): Promise<Decision> {
    return this.syncStore === undefined
      ? this.ask('check', limits, options)
      : settled(() => this.checkSync(limits, options));
  }

  checkSync(limits: Limit | readonly Limit[], options?: CheckOptions): Decision {
    const list = this.accept(limits);
    const cost = costOf(options);
    options?.signal?.throwIfAborted();
    if (this.syncStore === undefined) {
      throw new LimiterError(
        'SYNC_UNSUPPORTED',
        'checkSync() needs a store that decides at once, and this limiter has one that waits for a network: use await check().',
      );
    }
    return this.announce(toDecision(list, this.syncStore.checkSync(list, cost)), cost);
  }

  peek(limits: Limit | readonly Limit[], options?: CheckOptions): Promise<Decision> {
    return this.ask('peek', limits, options);
  }

  async forget(limits: Limit | readonly Limit[]): Promise<void> {
    const list = this.accept(limits);
    this.parts.fallback?.forgetSync(list);
    try {
      await answerWithin(this.parts.store.forget(list), this.parts.deadlineMs, undefined);
    } catch (failure) {
      throw storeFailure(failure);
    }
  }

  async health(): Promise<StoreHealth> {
    this.requireOpen();
    return this.parts.store.health();
  }

  async close(): Promise<void> {
    if (this.closed) return;
    this.closed = true;
    await this.parts.store.close();
  }

  on<Event extends LimiterEvent>(event: Event, listener: Listener<Event>): () => void {
    return this.emitter.on(event, listener);
  }

  private async ask(
    question: Question,
    limits: Limit | readonly Limit[],
    options: CheckOptions | undefined,
  ): Promise<Decision> {
    const list = this.accept(limits);
    const cost = costOf(options);
    options?.signal?.throwIfAborted();
    const decision = await this.decide(question, list, cost, options?.signal);
    return question === 'check' ? this.announce(decision, cost) : decision;
  }

  private async decide(
    question: Question,
    limits: readonly Limit[],
    cost: number,
    signal: AbortSignal | undefined,
  ): Promise<Decision> {
    const { store, deadlineMs } = this.parts;
    try {
      const answers = await answerWithin(store[question](limits, cost), deadlineMs, signal);
      this.noteSuccess();
      return toDecision(limits, answers);
    } catch (failure) {
      // The caller gave up: that says nothing about the store.
      signal?.throwIfAborted();
      const error = storeFailure(failure);
      this.noteFailure(error);
      return this.decideWithout(question, limits, cost, error);
    }
  }

  private decideWithout(
    question: Question,
    limits: readonly Limit[],
    cost: number,
    cause: LimiterError,
  ): Decision {
    const { fallback, failurePolicy } = this.parts;
    if (fallback === undefined) {
      return toDecision(limits, verdictsWithoutStore(failurePolicy, limits), {
        source: 'failurePolicy',
        cause,
      });
    }
    const answers = question === 'check' ? fallback.checkSync(limits, cost) : fallback.peekSync(limits, cost);
    return toDecision(limits, answers, { source: 'fallback', cause });
  }

  private noteFailure(error: LimiterError): void {
    this.outage ??= { sinceUs: readClock(this.parts.clock), failures: 0 };
    this.outage.failures += 1;
    this.emitter.emit('storeError', { error });
  }

  private noteSuccess(): void {
    if (this.outage === undefined) return;
    const { sinceUs, failures } = this.outage;
    this.outage = undefined;
    this.emitter.emit('recovered', { afterMs: (readClock(this.parts.clock) - sinceUs) / 1000, failures });
  }

  private announce(decision: Decision, cost: number): Decision {
    if (this.emitter.heard('decision')) this.emitter.emit('decision', { decision, cost });
    if (decision.source === 'overflow' && this.emitter.heard('overflow')) this.announceOverflow(decision);
    return decision;
  }

  private announceOverflow({ policy, key }: Decision): void {
    const nowUs = readClock(this.parts.clock);
    if (nowUs - this.overflowSaidUs < OVERFLOW_EVENT_INTERVAL_US) return;
    this.overflowSaidUs = nowUs;
    this.emitter.emit('overflow', { policy, key });
  }

  private accept(limits: Limit | readonly Limit[]): readonly Limit[] {
    this.requireOpen();
    return limits instanceof Limit ? [limits] : requireLimits(limits);
  }

  private requireOpen(): void {
    if (this.closed) {
      throw new LimiterError(
        'LIMITER_CLOSED',
        'The limiter is closed: close it only after everything that uses it has stopped.',
      );
    }
  }
}

/** Runs now; a programming error becomes a rejection, as in every asynchronous call. */
function settled<Value>(compute: () => Value): Promise<Value> {
  try {
    return Promise.resolve(compute());
  } catch (error) {
    // oxlint-disable-next-line typescript/prefer-promise-reject-errors -- passes on whatever was thrown, such as a signal's reason
    return Promise.reject(error);
  }
}

function costOf(options: CheckOptions | undefined): number {
  const cost = options?.cost;
  if (cost === undefined) return 1;
  if (Number.isSafeInteger(cost) && cost >= 0) return cost;
  throw new LimiterError(
    'INVALID_COST',
    `cost is ${show(cost)}; expected an integer from 0 to ${Number.MAX_SAFE_INTEGER}: round it before the call.`,
  );
}

function requireLimits(limits: unknown): readonly Limit[] {
  if (!isLimits(limits)) {
    throw new LimiterError(
      'INVALID_LIMITS',
      `The limits are ${show(limits)}; expected policy.for(key), or an array of these.`,
    );
  }
  if (limits.length < 1 || limits.length > MAX_LIMITS_PER_CHECK) {
    throw new LimiterError(
      'INVALID_LIMITS',
      `One call got ${limits.length} limits; expected 1 to ${MAX_LIMITS_PER_CHECK}: split the request or drop limits.`,
    );
  }
  for (const [at, limit] of limits.entries()) {
    const twin = limits.slice(0, at).some((other) => isSameState(limit, other));
    if (twin) {
      throw new LimiterError(
        'DUPLICATE_LIMIT',
        `Policy ${show(limit.policy.name)} stands twice for key ${show(limit.key)} in one call; name it once and raise the cost.`,
      );
    }
  }
  return limits;
}

function isLimits(limits: unknown): limits is readonly Limit[] {
  return Array.isArray(limits) && limits.every((limit) => limit instanceof Limit);
}

function isSameState(limit: Limit, other: Limit): boolean {
  return limit.stateKey === other.stateKey && limit.plan.stateId === other.plan.stateId;
}
