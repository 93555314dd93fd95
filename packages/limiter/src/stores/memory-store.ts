import { decideWithoutSpending, NEVER, type AnyState } from '../algorithms/algorithm.ts';
import { readClock, systemClock, type Clock } from '../clock.ts';
import { LimiterError, show } from '../errors.ts';
import { costOf, type Limit, type Plan } from '../limit.ts';
import { requireOptionNames } from '../options.ts';
import {
  crowdGroup,
  crowdsOf,
  OverflowStates,
  ownGroup,
  type OverflowGroup,
} from './memory/overflow-states.ts';
import {
  MemoryVerdict,
  refuse,
  REFUSED_RETRY_US,
  requireMaxKeys,
  type DecidedLimit,
  type PlacedState,
} from './memory/memory-verdict.ts';
import { StateTable } from './memory/state-table.ts';
import { chargeDebt, chargeIn, giveBack } from './settlement.ts';
import type {
  AdjustedLimit,
  Adjustment,
  ReservedCharge,
  StoreHealth,
  StoreVerdict,
  SyncStore,
} from './store.ts';

export const DEFAULT_MAX_KEYS = 1_000_000;

/** Places looked at for every key that is added: a table is swept several times before it doubles. */
const SWEEP_ON_INSERT = 4;
/**
 * Looked at for a new key when the store is full: a few microseconds, then the key overflows. Several short sweeps,
 * because one ends early where a table ends.
 */
const SWEEPS_WHEN_FULL = 4;
const SWEEP_PLACES_WHEN_FULL = 64;
/**
 * While there is room, states stay this long after they equal "absent": an injected clock that steps back by less finds
 * them still there, and gets nothing twice.
 */
const CLOCK_STEP_GRACE_US = 60_000_000;

export interface MemoryStoreOptions {
  /**
   * How many keys are kept, over all policies. Default: 1,000,000. Only states that equal "never used" are ever
   * dropped; when there are none, further new keys share one overflow state per policy and rate until there is room
   * again.
   */
  readonly maxKeys?: number | undefined;
  /** Whole microseconds. Default: a monotonic clock. */
  readonly clock?: Clock | undefined;
}

/** The embedded store: exact, bounded, and without timers. One process's own limits. */
export function memoryStore(options: MemoryStoreOptions = {}): MemoryStore {
  return new MemoryStore(options);
}

export class MemoryStore implements SyncStore {
  private maxKeys: number;
  private readonly clock: Clock;
  private readonly tables = new Map<string, StateTable>();
  private readonly overflows = new OverflowStates();
  private recentPlan: Plan | undefined;
  private recentTable: StateTable | undefined;
  private keys = 0;
  /** Reused by every check of one limit: see `SyncStore`. */
  private readonly verdict = new MemoryVerdict();
  private readonly onlyVerdict: readonly StoreVerdict[] = [this.verdict];
  /** The tables still to be swept in this round. */
  private round: Iterator<[string, StateTable]> = this.tables.entries();
  private swept: [string, StateTable] | undefined;

  constructor(options: MemoryStoreOptions) {
    requireOptionNames('The options of memoryStore()', options, ['maxKeys', 'clock']);
    const { maxKeys = DEFAULT_MAX_KEYS, clock = systemClock } = options;
    requireMaxKeys(maxKeys);
    if (typeof clock !== 'function') {
      throw new LimiterError(
        'INVALID_OPTION',
        `clock is ${show(clock)}; expected a function that returns whole microseconds.`,
      );
    }
    this.maxKeys = maxKeys;
    this.clock = clock;
  }

  /**
   * Keeps so many keys from now on. Nothing is forgotten: states that are there stay, also where they are more than
   * that, and what new keys spent together while there was no room is owed by each of them that gets a state of its
   * own.
   *
   * @example
   * const store = memoryStore({ maxKeys: 1000 });
   * store.resize(100_000);
   */
  resize(maxKeys: number): void {
    requireMaxKeys(maxKeys);
    this.maxKeys = maxKeys;
    for (const table of this.tables.values()) table.allow(maxKeys);
  }

  checkSync(limits: readonly Limit[], cost: number): readonly StoreVerdict[] {
    return this.checkAt(limits, cost, readClock(this.clock));
  }

  private checkAt(limits: readonly Limit[], cost: number, nowUs: number): readonly StoreVerdict[] {
    const first = limits[0];
    if (limits.length !== 1 || first === undefined) return this.checkTogether(limits, cost, nowUs);
    return cost === 0 ? [this.look(first, 0, nowUs)] : this.checkOne(first, cost, nowUs);
  }

  peekSync(limits: readonly Limit[], cost: number): readonly StoreVerdict[] {
    const nowUs = readClock(this.clock);
    return limits.map((limit) => this.look(limit, cost, nowUs));
  }

  forgetSync(limits: readonly Limit[]): void {
    for (const limit of limits) {
      if (this.tables.get(limit.plan.stateId)?.remove(limit.stateKey) === true) this.keys -= 1;
    }
  }

  releaseSync(limits: readonly Limit[]): void {
    for (const limit of limits) this.releaseOne(limit, readClock(this.clock));
  }

  async check(limits: readonly Limit[], cost: number): Promise<readonly StoreVerdict[]> {
    return this.checkSync(limits, cost).map((verdict) => ({ ...verdict }));
  }

  async reserve(
    limits: readonly Limit[],
    cost: number,
    onCharge: (charge: ReservedCharge) => void,
  ): Promise<readonly StoreVerdict[]> {
    const atUs = readClock(this.clock);
    const verdicts = this.checkAt(limits, cost, atUs);
    if (verdicts.every(({ allowed }) => allowed)) {
      limits.forEach((limit) => onCharge(this.chargeOf(limit, costOf(limit, cost), atUs)));
    }
    return verdicts.map((verdict) => ({ ...verdict }));
  }

  /** Never fails half-way, and so is never repeated: the id says nothing here. */
  async settle(_id: string, adjustments: readonly Adjustment[]): Promise<readonly AdjustedLimit[]> {
    const nowUs = readClock(this.clock);
    return adjustments.map((adjustment) => this.adjust(adjustment, nowUs));
  }

  async peek(limits: readonly Limit[], cost: number): Promise<readonly StoreVerdict[]> {
    return this.peekSync(limits, cost);
  }

  async forget(limits: readonly Limit[]): Promise<void> {
    this.forgetSync(limits);
  }

  async release(limits: readonly Limit[]): Promise<void> {
    this.releaseSync(limits);
  }

  async health(): Promise<StoreHealth> {
    const nowUs = readClock(this.clock);
    const overflowing = this.overflows.isLive('', nowUs);
    const status = overflowing ? 'degraded' : 'up';
    const detail = `${this.keys} of ${this.maxKeys} keys${overflowing ? '; new keys share an overflow state: raise maxKeys' : ''}`;
    return { status, nodes: [{ name: 'memory', status, detail }] };
  }

  async close(): Promise<void> {
    this.tables.clear();
    this.overflows.clear();
    this.recentTable = undefined;
    this.round = this.tables.entries();
    this.swept = undefined;
    this.keys = 0;
  }

  private checkOne(limit: Limit, cost: number, nowUs: number): readonly StoreVerdict[] {
    const table = this.tableOf(limit);
    const state = table.find(limit.stateKey) ?? this.overflowFor(limit, table, nowUs);
    const { verdict } = this;
    limit.plan.algorithm.decide(state, limit.plan.numbers, costOf(limit, cost), nowUs, verdict);
    verdict.overflow = !table.found && state !== undefined;
    const next = verdict.allowed ? verdict.spent : verdict.carried;
    if (next !== undefined) {
      if (table.found) table.update(next);
      else this.keepNew(limit, table, next, nowUs);
    }
    return this.onlyVerdict;
  }

  /** What was just charged, as the state now has it. */
  private chargeOf(limit: Limit, cost: number, atUs: number): ReservedCharge {
    const state = this.tableOf(limit).find(limit.stateKey);
    return state === undefined
      ? { limit, cost, atUs, absentAtUs: atUs, isShared: true }
      : chargeIn(state, { limit, cost, atUs });
  }

  private adjust({ limit, refunds, debt, expiresAtUs }: Adjustment, nowUs: number): AdjustedLimit {
    const table = this.tableOf(limit);
    const own = table.find(limit.stateKey);
    if (debt > 0) {
      const { charged, spent } = chargeDebt(limit, own ?? this.overflowFor(limit, table, nowUs), debt, nowUs);
      if (spent !== undefined && table.found) table.update(spent);
      else if (spent !== undefined) this.keepNew(limit, table, spent, nowUs);
      return { charged, expired: false };
    }
    if (nowUs > expiresAtUs) return { charged: 0, expired: true };
    const left = own === undefined ? undefined : giveBack(limit.plan, own, refunds, nowUs);
    if (left !== undefined && left !== own) {
      if (limit.plan.algorithm.absentAtUs(left, limit.plan.numbers) > nowUs) table.update(left);
      else this.forgetSync([limit]);
    }
    return { charged: 0, expired: false };
  }

  /** All limits are charged, or none. */
  private checkTogether(limits: readonly Limit[], cost: number, nowUs: number): readonly StoreVerdict[] {
    const decided = this.decideTogether(limits, cost, nowUs);
    const admitted = decided.every(({ outcome }) => outcome.allowed);
    return decided.map(({ limit, outcome }) => {
      const next = admitted ? outcome.spent : outcome.carried;
      // A limit that had room, in a request that another limit denied: nothing was spent here.
      const verdict = admitted || !outcome.allowed ? outcome : this.look(limit, 0, nowUs);
      if (next !== undefined) {
        const table = this.tableOf(limit);
        table.find(limit.stateKey);
        // Nothing may be swept before all states are in place: each was decided on where its key stood then.
        this.placeFor({ limit, table, state: next, nowUs }, verdict);
      }
      return verdict;
    });
  }

  private decideTogether(limits: readonly Limit[], cost: number, nowUs: number): readonly DecidedLimit[] {
    this.sweep(SWEEP_ON_INSERT * limits.length, nowUs - CLOCK_STEP_GRACE_US, undefined);
    let room = this.roomFor(limits.length, nowUs, undefined);
    const sharing = new Map<string, number>();
    return limits.map((limit) => {
      const table = this.tableOf(limit);
      const state = table.find(limit.stateKey) ?? this.overflowFor(limit, table, nowUs);
      const own = costOf(limit, cost);
      let due = own;
      if (!table.found && (room === 0 || table.isCrowded)) {
        // New keys of one rate that overflow together spend from the same state: each adds to what is due there.
        const shared = `${this.groupFor(limit, table, nowUs).name}/${limit.plan.rateId}`;
        due += sharing.get(shared) ?? 0;
        sharing.set(shared, due);
      } else if (!table.found) room -= 1;
      const outcome = new MemoryVerdict();
      outcome.overflow = !table.found && state !== undefined;
      limit.plan.algorithm.decide(state, limit.plan.numbers, due, nowUs, outcome);
      // Together they never fit into one shared state, but each would fit into one of its own.
      if (outcome.retryAfterUs === NEVER && due > limit.limit && own <= limit.limit)
        outcome.retryAfterUs = REFUSED_RETRY_US;
      return { limit, outcome };
    });
  }

  private releaseOne(limit: Limit, nowUs: number): void {
    const { algorithm, numbers, stateId } = limit.plan;
    const table = this.tables.get(stateId);
    const state = table?.find(limit.stateKey);
    if (table !== undefined && state !== undefined) {
      const left = algorithm.slots?.release(state, numbers) ?? state;
      if (left !== state) table.update(left);
    }
    // It was taken while there was no room, and its key may have got a place since: then the slot stands in both.
    if (this.overflows.isEmpty) return;
    const groups = [
      ownGroup(limit),
      stateId,
      ...(table === undefined ? [] : [crowdGroup(limit.plan, table)]),
    ];
    for (const group of groups) this.overflows.release(group, limit.plan, nowUs);
  }

  private look(limit: Limit, cost: number, nowUs: number): MemoryVerdict {
    const { stateId, algorithm, numbers } = limit.plan;
    const table = this.tables.get(stateId);
    const own = table?.find(limit.stateKey);
    const state = own ?? this.overflowFor(limit, table, nowUs);
    const verdict = new MemoryVerdict();
    decideWithoutSpending({ algorithm, numbers, cost: costOf(limit, cost), nowUs }, state, verdict);
    verdict.overflow = own === undefined && state !== undefined;
    return verdict;
  }

  /** Keeps the state of a key that `table.find` did not find, after making room for it. */
  private keepNew(limit: Limit, table: StateTable, state: AnyState, nowUs: number): void {
    // Sweeping may move what `find` looked at, so it comes first, and then the key is looked up again.
    this.sweep(SWEEP_ON_INSERT, nowUs - CLOCK_STEP_GRACE_US, table);
    this.roomFor(1, nowUs, table);
    table.find(limit.stateKey);
    this.placeFor({ limit, table, state, nowUs }, this.verdict);
  }

  /** Puts a state where its key has its place, else into the overflow state, and says so in the verdict. */
  private placeFor({ limit, table, state, nowUs }: PlacedState, verdict: MemoryVerdict): void {
    verdict.overflow = false;
    if (table.found) {
      table.update(state);
    } else if (this.keys < this.maxKeys && table.insert(limit.stateKey, state)) {
      this.keys += 1;
    } else {
      verdict.overflow = true;
      if (!this.overflows.keep(this.groupFor(limit, table, nowUs), limit.plan, state)) refuse(verdict);
    }
  }

  /**
   * What a key without a place has to start from: its own, what collides with it, or what its policy's new keys share.
   */
  private overflowFor(limit: Limit, table: StateTable | undefined, nowUs: number): AnyState | undefined {
    if (this.overflows.isEmpty) return undefined;
    const { plan } = limit;
    return (
      this.overflows.find(ownGroup(limit), plan, nowUs) ??
      (table === undefined ? undefined : this.overflows.find(crowdGroup(plan, table), plan, nowUs)) ??
      this.overflows.find(plan.stateId, plan, nowUs)
    );
  }

  /**
   * Who pays for a key without a place. A key whose rate was overridden pays for itself: there are only as many as
   * operators name. While there is room for keys, one lacks a place only because of those that collide with it, and the
   * others must not pay for that. Whoever owes something pays on in the same group.
   */
  private groupFor(limit: Limit, table: StateTable, nowUs: number): OverflowGroup {
    const { plan } = limit;
    const own = ownGroup(limit);
    const isOverridden = plan.rateId !== limit.usualPlan.rateId;
    if (isOverridden || this.overflows.find(own, plan, nowUs) !== undefined)
      return { name: own, isShared: false };
    const crowd = crowdGroup(plan, table);
    const isCrowd = this.keys < this.maxKeys || this.overflows.find(crowd, plan, nowUs) !== undefined;
    return { name: isCrowd ? crowd : plan.stateId, isShared: true };
  }

  /** How many keys may still be added, after looking for some to drop if it were fewer than wanted. */
  private roomFor(wanted: number, nowUs: number, busy: StateTable | undefined): number {
    for (let sweeps = 0; sweeps < SWEEPS_WHEN_FULL && this.maxKeys - this.keys < wanted; sweeps += 1) {
      this.sweep(SWEEP_PLACES_WHEN_FULL, nowUs, busy);
    }
    return Math.max(0, this.maxKeys - this.keys);
  }

  private tableOf(limit: Limit): StateTable {
    const { plan } = limit;
    // Most checks are of the same policy as the one before.
    if (plan === this.recentPlan && this.recentTable !== undefined) return this.recentTable;
    let table = this.tables.get(plan.stateId);
    if (table === undefined) {
      // Laid out for the policy's own numbers, which most keys have, whichever key comes first.
      const own = limit.usualPlan;
      table = new StateTable(own.stateId === plan.stateId ? own : plan, this.maxKeys);
      this.tables.set(plan.stateId, table);
    }
    this.recentPlan = plan;
    this.recentTable = table;
    return table;
  }

  /**
   * Looks at the next few places, table after table, and drops what equaled "absent" then. `busy` stays even if empty.
   */
  private sweep(places: number, asOfUs: number, busy: StateTable | undefined): void {
    this.swept ??= this.nextTable();
    if (this.swept === undefined) return;
    const [stateId, table] = this.swept;
    const before = table.size;
    const done = table.sweep(places, asOfUs);
    this.keys -= before - table.size;
    if (!done) return;
    if (table.size === 0 && table !== busy && !this.overflows.isLive(crowdsOf(stateId), asOfUs))
      this.drop(stateId);
    this.swept = this.nextTable();
  }

  private drop(stateId: string): void {
    this.tables.delete(stateId);
    this.recentTable = undefined;
  }

  private nextTable(): [string, StateTable] | undefined {
    const next = this.round.next();
    if (next.done !== true) return next.value;
    this.round = this.tables.entries();
    return undefined;
  }
}
