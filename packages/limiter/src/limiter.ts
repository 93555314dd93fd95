import {
  applyFailurePolicy,
  type FailureHandling,
  type Operation,
  type UndecidedCall,
} from './apply-failure-policy.ts';
import { acceptCost, acceptLimits, type CheckOptions } from './check-arguments.ts';
import { readClock, stopwatchMs, type Clock } from './clock.ts';
import { Deadline } from './deadline.ts';
import { toDecision, type Decision } from './decision.ts';
import { LimiterError, type ErrorCode } from './errors.ts';
import { Emitter, type LimiterEvent, type Listener } from './events.ts';
import { storeFailure } from './failure-policy.ts';
import type { Limit } from './limit.ts';
import { Outages, type Outage } from './outages.ts';
import { processWarning } from './process-warning.ts';
import { requireVerdicts } from './store-answer.ts';
import {
  isSyncStore,
  type Store,
  type StoreHealth,
  type StoreStatistics,
  type StoreVerdict,
  type SyncStore,
} from './stores/store.ts';

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
  /** What the store has done so far, where it reaches over a network; undefined for the embedded store. */
  statistics(): StoreStatistics | undefined;
  /** Releases the store. Afterwards every call is an error. */
  close(): Promise<void>;
  /** Listens to an event; returns the function that stops listening. */
  on<Event extends LimiterEvent>(event: Event, listener: Listener<Event>): () => void;
}

export interface LimiterParts extends FailureHandling {
  readonly store: Store;
  readonly deadlineMs: number;
  readonly clock: Clock;
}

const OVERFLOW_EVENT_INTERVAL_US = 1_000_000;
/**
 * For this long a failed call contradicts a store that reports itself up. Not until the next call succeeds: an instance
 * that gets no requests because it is not healthy would never be healthy again.
 */
const FAILURE_COUNTS_US = 1_000_000;

/** Whoever listens to one of these knows that the store fails. */
const WATCHED = ['storeError', 'undecided', 'nodeDown'] as const;
const LASTING_FAILURES = 5;
const LASTING_US = 1_000_000;

/** What may pass by itself is worth a warning only if it does not. */
function isLasting({ sinceUs, lastUs, failures }: Outage): boolean {
  return failures >= LASTING_FAILURES && lastUs - sinceUs >= LASTING_US;
}

export class StoreLimiter implements Limiter {
  private readonly parts: LimiterParts;
  private readonly syncStore: SyncStore | undefined;
  private readonly deadline: Deadline;
  private readonly emitter = new Emitter();
  private closed = false;
  private overflowSaidUs = -Infinity;
  private readonly outages = new Outages({
    onStart: (event) => this.emitter.emit('storeError', event),
    onEnd: (event) => this.emitter.emit('recovered', event),
  });
  private readonly warned = new Set<ErrorCode>();

  constructor(parts: LimiterParts) {
    this.parts = parts;
    this.deadline = new Deadline(parts.deadlineMs);
    this.syncStore = isSyncStore(parts.store) ? parts.store : undefined;
    parts.store.expectDeadline?.(parts.deadlineMs);
    parts.store.observe?.(({ type, ...detail }) => this.emitter.emit(type, detail));
  }

  check(limits: Limit | readonly Limit[], options?: CheckOptions): Promise<Decision> {
    return this.ask('check', limits, options);
  }

  checkSync(limits: Limit | readonly Limit[], options?: CheckOptions): Decision {
    if (this.syncStore === undefined) {
      throw new LimiterError(
        'SYNC_UNSUPPORTED',
        'checkSync() needs a store that decides at once, and this limiter has one that waits for a network: use await check().',
      );
    }
    return this.askSync(this.syncStore, 'check', limits, options);
  }

  peek(limits: Limit | readonly Limit[], options?: CheckOptions): Promise<Decision> {
    return this.ask('peek', limits, options);
  }

  async forget(limits: Limit | readonly Limit[]): Promise<void> {
    this.requireOpen();
    const list = acceptLimits(limits);
    this.parts.fallback?.forget(list);
    try {
      await this.deadline.within((caller) => this.parts.store.forget(list, caller));
    } catch (failure) {
      throw storeFailure(failure);
    }
  }

  async health(): Promise<StoreHealth> {
    this.requireOpen();
    try {
      const health = await this.deadline.within(() => this.parts.store.health());
      return health.status === 'up' ? this.doubt(health) : health;
    } catch (failure) {
      const detail = storeFailure(failure).message;
      return { status: 'down', nodes: [{ name: 'store', status: 'down', detail }] };
    }
  }

  statistics(): StoreStatistics | undefined {
    return this.parts.store.statistics?.();
  }

  async close(): Promise<void> {
    if (this.closed) return;
    this.closed = true;
    await this.parts.store.close();
  }

  on<Event extends LimiterEvent>(event: Event, listener: Listener<Event>): () => void {
    return this.emitter.on(event, listener);
  }

  private ask(
    operation: Operation,
    limits: Limit | readonly Limit[],
    options: CheckOptions | undefined,
  ): Promise<Decision> {
    return this.syncStore === undefined
      ? this.askAsync(operation, limits, options)
      : this.askSettled(this.syncStore, operation, limits, options);
  }

  /** Async without an await: the promise is settled at once, and a mistake in the arguments becomes a rejection. */
  private async askSettled(
    store: SyncStore,
    operation: Operation,
    limits: Limit | readonly Limit[],
    options: CheckOptions | undefined,
  ): Promise<Decision> {
    return this.askSync(store, operation, limits, options);
  }

  private async askAsync(
    operation: Operation,
    limits: Limit | readonly Limit[],
    options: CheckOptions | undefined,
  ): Promise<Decision> {
    const startedMs = this.isMeasured(operation) ? stopwatchMs() : undefined;
    this.requireOpen();
    const list = acceptLimits(limits);
    const cost = acceptCost(options);
    const signal = options?.signal;
    let decision: Decision;
    try {
      const { store } = this.parts;
      const known = operation === 'check' ? store.checkLocally?.(list, cost) : undefined;
      const verdicts =
        known ?? (await this.deadline.within((caller) => store[operation](list, cost, caller), signal));
      requireVerdicts(verdicts, list.length);
      // What was known here says nothing about the servers.
      if (known === undefined) this.noteSuccess(list);
      decision = this.conclude(operation, list, verdicts);
    } catch (failure) {
      // The caller gave up: that says nothing about the store.
      signal?.throwIfAborted();
      decision = this.decideByFailurePolicy(
        { operation, limits: list, cost, failurePolicy: options?.failurePolicy },
        failure,
      );
    }
    if (startedMs !== undefined) this.announce(decision, cost, startedMs);
    return decision;
  }

  /** The same without a promise. */
  private askSync(
    store: SyncStore,
    operation: Operation,
    limits: Limit | readonly Limit[],
    options: CheckOptions | undefined,
  ): Decision {
    const startedMs = this.isMeasured(operation) ? stopwatchMs() : undefined;
    this.requireOpen();
    const list = acceptLimits(limits);
    const cost = acceptCost(options);
    let decision: Decision;
    try {
      const verdicts = operation === 'check' ? store.checkSync(list, cost) : store.peekSync(list, cost);
      this.noteSuccess(list);
      decision = this.conclude(operation, list, verdicts);
    } catch (failure) {
      decision = this.decideByFailurePolicy(
        { operation, limits: list, cost, failurePolicy: options?.failurePolicy },
        failure,
      );
    }
    if (startedMs !== undefined) this.announce(decision, cost, startedMs);
    return decision;
  }

  /** The store has decided. */
  private conclude(
    operation: Operation,
    limits: readonly Limit[],
    verdicts: readonly StoreVerdict[],
  ): Decision {
    const decision = toDecision(limits, verdicts);
    if (decision.source === 'overflow' && operation === 'check') this.announceOverflow(limits, verdicts);
    return decision;
  }

  /** The store could not decide: the failure policy does. */
  private decideByFailurePolicy(call: UndecidedCall, failure: unknown): Decision {
    const cause = storeFailure(failure);
    // A broken clock is a mistake in the program, not an outage.
    if (cause.code === 'INVALID_CLOCK') throw cause;
    this.noteFailure(call.limits, cause);
    this.emitter.emit('undecided', { error: cause });
    const { verdicts, source } = applyFailurePolicy(call, this.parts);
    // The fallback may be full, too.
    if (call.operation === 'check') this.announceOverflow(call.limits, verdicts);
    return toDecision(call.limits, verdicts, { source, cause });
  }

  private isMeasured(operation: Operation): boolean {
    return operation === 'check' && this.emitter.heard('decision');
  }

  private announce(decision: Decision, cost: number, startedMs: number): void {
    this.emitter.emit('decision', { decision, cost, tookMs: stopwatchMs() - startedMs });
  }

  private announceOverflow(limits: readonly Limit[], verdicts: readonly StoreVerdict[]): void {
    if (!this.emitter.heard('overflow')) return;
    const limit = limits.find((_, at) => verdicts[at]?.overflow === true);
    if (limit === undefined) return;
    const nowUs = readClock(this.parts.clock);
    if (nowUs - this.overflowSaidUs < OVERFLOW_EVENT_INTERVAL_US) return;
    this.overflowSaidUs = nowUs;
    this.emitter.emit('overflow', { policy: limit.policy.name, key: limit.key });
  }

  /**
   * An outage that nobody listens for would go unnoticed: limits are then kept per process, or not at all. Once per
   * cause.
   */
  private warnIfUnheard(error: LimiterError): void {
    if (WATCHED.some((event) => this.emitter.heard(event))) return;
    if (this.warned.has(error.code)) return;
    this.warned.add(error.code);
    processWarning(
      `${error.message.replace(/\.$/, '')}. The failure policy answers in place of the store. Listen to 'storeError' and 'recovered' to handle this yourself.`,
      `SPILLGATE_${error.code}`,
    );
  }

  private noteFailure(limits: readonly Limit[], error: LimiterError): void {
    const { store, clock } = this.parts;
    const outage = this.outages.noteFailure(error, store.servers?.(limits) ?? [], readClock(clock));
    if (error.errorClass === 'configuration' || isLasting(outage)) this.warnIfUnheard(error);
  }

  private noteSuccess(limits: readonly Limit[]): void {
    if (!this.outages.isAny) return;
    const { store, clock } = this.parts;
    this.outages.noteSuccess(store.servers?.(limits) ?? [], store.servers?.() ?? [], readClock(clock));
  }

  /** The health of a store that reports itself up while calls of this limiter fail. */
  private doubt(health: StoreHealth): StoreHealth {
    const outage = this.outages.latest();
    if (outage === undefined) return health;
    if (readClock(this.parts.clock) - outage.lastUs >= FAILURE_COUNTS_US) return health;
    const detail = `the failure policy answered the last ${outage.failures} calls: ${outage.lastError.message}`;
    return {
      status: 'degraded',
      nodes: [...health.nodes, { name: 'limiter', status: 'degraded', detail }],
    };
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
