import { acceptAcquire, requireRelease, slotLimits, type AcquireOptions } from './acquire.ts';
import {
  applyFailurePolicy,
  type FailureHandling,
  type Operation,
  type UndecidedCall,
} from './apply-failure-policy.ts';
import { blockedVerdicts } from './blocked.ts';
import { acceptCost, acceptLimits, requireNoSlots, type CheckOptions } from './check-arguments.ts';
import { readClock, stopwatchMs, type Clock } from './clock.ts';
import { Deadline, requireVerdicts } from './store-answer.ts';
import { requireNoPenalties } from './policy-block.ts';
import { toDecision, type Decision } from './decision.ts';
import { LimiterError } from './errors.ts';
import { Emitter, type LimiterEvent, type Listener } from './events.ts';
import { storeFailure } from './failure-policy.ts';
import type { Limit } from './limit.ts';
import { Outages } from './outages.ts';
import { PendingCall, type AskedCall, type CallAnswers } from './pending-call.ts';
import { reservable, reserve, type Reservation, type ReserveOptions } from './reservation.ts';
import { HeldSlots, type Slot } from './slot.ts';
import {
  isSyncStore,
  type AdjustedLimit,
  type Adjustment,
  type ReservedCharge,
  type Caller,
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
  /**
   * `check` that also takes a slot of every limit of `concurrency()`: all limits or none. The slot is held, and
   * renewed, until `release()`; never rejects for a denial or an outage.
   *
   * @example
   * await using slot = await limiter.acquire(inFlight.for(user));
   * if (!slot.allowed) return tooManyRequests(slot.decision);
   */
  acquire(limits: Limit | readonly Limit[], options?: AcquireOptions): Promise<Slot>;
  /**
   * `check` for a cost that is known only afterwards: charges the estimate, to be settled with what was used. Never
   * rejects for a denial or an outage.
   */
  reserve(limits: Limit | readonly Limit[], options?: ReserveOptions): Promise<Reservation>;
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
export class StoreLimiter implements Limiter {
  private readonly parts: LimiterParts;
  private readonly syncStore: SyncStore | undefined;
  private readonly deadline: Deadline;
  private readonly emitter = new Emitter();
  private closed = false;
  private overflowSaidUs = -Infinity;
  private readonly outages: Outages;
  private readonly slots: HeldSlots;
  private readonly keepsPenalties: boolean;
  private readonly nowUs = (): number => readClock(this.parts.clock);

  constructor(parts: LimiterParts) {
    this.parts = parts;
    this.outages = new Outages(parts, this.emitter);
    this.deadline = new Deadline(parts.deadlineMs);
    this.slots = new HeldSlots(parts, this.deadline);
    this.keepsPenalties = parts.store.keepsPenalties === true;
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

  async acquire(limits: Limit | readonly Limit[], options?: AcquireOptions): Promise<Slot> {
    const { id, check } = acceptAcquire(options);
    requireRelease(this.parts.store);
    const { all, held } = slotLimits(acceptLimits(limits), id, check?.cost ?? 1);
    return this.slots.hold(await this.ask('check', all, check), held, check?.failurePolicy);
  }

  async reserve(limits: Limit | readonly Limit[], options?: ReserveOptions): Promise<Reservation> {
    const list = acceptLimits(limits);
    reservable(this.parts.store, list);
    return reserve({
      limits: list,
      options,
      check: (asked, chosen, onCharge) => this.askAsync('check', asked, chosen, onCharge),
      settle: (id, adjustments) => this.settle(id, adjustments),
    });
  }

  private async settle(id: string, adjustments: readonly Adjustment[]): Promise<readonly AdjustedLimit[]> {
    this.requireOpen();
    try {
      return await this.deadline.within((caller) =>
        reservable(this.parts.store).settle(id, adjustments, caller),
      );
    } catch (failure) {
      throw storeFailure(failure);
    }
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
      return health.status === 'up' ? this.outages.doubt(health) : health;
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
    await this.slots.close();
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

  /** Not an async function: that would keep as much again for every call that is under way. */
  private askAsync(
    operation: Operation,
    limits: Limit | readonly Limit[],
    options: CheckOptions | undefined,
    onCharge?: (charge: ReservedCharge) => void,
  ): Promise<Decision> {
    try {
      const startedMs = this.isMeasured(operation) ? stopwatchMs() : undefined;
      this.requireOpen();
      const list = acceptLimits(limits);
      if (operation === 'check') requireNoSlots(list);
      if (!this.keepsPenalties) requireNoPenalties(list);
      const cost = acceptCost(options);
      const { failurePolicy, signal } = options ?? {};
      return this.decide({ operation, limits: list, cost, failurePolicy, signal, onCharge, startedMs });
    } catch (mistake) {
      return rejected(mistake);
    }
  }

  private decide(call: AskedCall): Promise<Decision> {
    let known: readonly StoreVerdict[] | undefined;
    try {
      known = this.decideHere(call);
    } catch (failure) {
      return Promise.resolve(this.undecided(call, failure));
    }
    if (known !== undefined) return Promise.resolve(this.decided(call, known, true));
    return new Promise((resolve, reject) => {
      const asker = new PendingCall(this.answers, call, resolve, reject);
      this.deadline.wait((caller) => this.askStore(call, caller), asker, call.signal);
    });
  }

  /** What needs no store: the key is blocked, or the store has said enough. */
  private decideHere({ operation, limits, cost, onCharge }: AskedCall): readonly StoreVerdict[] | undefined {
    // What a reservation charges has to be in the store: that is where it is settled.
    const mayBeLocal = operation === 'check' && onCharge === undefined;
    return (
      blockedVerdicts(limits, this.nowUs) ??
      (mayBeLocal ? this.parts.store.checkLocally?.(limits, cost) : undefined)
    );
  }

  private askStore(
    { operation, limits, cost, onCharge }: AskedCall,
    caller: Caller,
  ): Promise<readonly StoreVerdict[]> {
    const { store } = this.parts;
    return onCharge === undefined
      ? store[operation](limits, cost, caller)
      : reservable(store).reserve(limits, cost, onCharge, caller);
  }

  private readonly answers: CallAnswers = {
    decided: (call, verdicts) => this.decided(call, verdicts, false),
    undecided: (call, failure) => this.undecided(call, failure),
  };

  private decided(call: AskedCall, verdicts: readonly StoreVerdict[], here: boolean): Decision {
    const { operation, limits, cost, startedMs } = call;
    let decision: Decision;
    try {
      requireVerdicts(verdicts, limits.length);
      // What was known here says nothing about the servers.
      if (!here && this.outages.isAny) this.outages.noteSuccess(limits);
      decision = this.conclude(operation, limits, verdicts);
    } catch (failure) {
      return this.undecided(call, failure);
    }
    if (startedMs !== undefined) this.announce(decision, cost, startedMs);
    return decision;
  }

  private undecided(call: AskedCall, failure: unknown): Decision {
    // The caller gave up: that says nothing about the store.
    call.signal?.throwIfAborted();
    const decision = this.decideByFailurePolicy(call, failure);
    if (call.startedMs !== undefined) this.announce(decision, call.cost, call.startedMs);
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
    if (operation === 'check') requireNoSlots(list);
    if (!this.keepsPenalties) requireNoPenalties(list);
    const cost = acceptCost(options);
    let decision: Decision;
    try {
      const known = blockedVerdicts(list, this.nowUs);
      const verdicts =
        known ?? (operation === 'check' ? store.checkSync(list, cost) : store.peekSync(list, cost));
      if (known === undefined && this.outages.isAny) this.outages.noteSuccess(list);
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
    if (!decision.allowed && verdicts.some(({ penaltyBegan }) => penaltyBegan === true))
      this.announcePenalties(decision);
    return decision;
  }

  /** The store could not decide: the failure policy does. */
  private decideByFailurePolicy(call: UndecidedCall, failure: unknown): Decision {
    const cause = storeFailure(failure);
    // A broken clock is a mistake in the program, not an outage.
    if (cause.code === 'INVALID_CLOCK') throw cause;
    this.outages.noteFailure(call.limits, cause);
    this.emitter.emit('undecided', { error: cause });
    const { verdicts, source } = applyFailurePolicy(call, this.parts);
    // The fallback may be full, too.
    if (call.operation === 'check') this.announceOverflow(call.limits, verdicts);
    const decision = toDecision(call.limits, verdicts, { source, cause });
    if (!decision.allowed) this.announcePenalties(decision);
    return decision;
  }

  private isMeasured(operation: Operation): boolean {
    return operation === 'check' && this.emitter.heard('decision');
  }

  private announce(decision: Decision, cost: number, startedMs: number): void {
    this.emitter.emit('decision', { decision, cost, tookMs: stopwatchMs() - startedMs });
  }

  private announcePenalties({ verdicts }: Decision): void {
    if (!this.emitter.heard('penalty')) return;
    for (const { policy, key, penalty } of verdicts) {
      if (penalty?.began !== true) continue;
      const { endsInMs, reason } = penalty;
      this.emitter.emit('penalty', { policy, key, endsInMs, reason });
    }
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

  private requireOpen(): void {
    if (this.closed) {
      throw new LimiterError(
        'LIMITER_CLOSED',
        'The limiter is closed: close it only after everything that uses it has stopped.',
      );
    }
  }
}

function rejected(error: unknown): Promise<never> {
  // oxlint-disable-next-line typescript/prefer-promise-reject-errors -- passes on whatever was thrown
  return Promise.reject(error);
}
