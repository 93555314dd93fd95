import { decideWithoutSpending, Outcome } from '../algorithms/algorithm.ts';
import type { AnyState } from '../algorithms/index.ts';
import { readClock, systemClock, type Clock } from '../clock.ts';
import { LimiterError, show } from '../errors.ts';
import type { Limit, Plan } from '../limit.ts';
import { requireOptionNames } from '../options.ts';
import { StateTable } from './memory/state-table.ts';
import type { StoreHealth, StoreVerdict, SyncStore } from './store.ts';

export const DEFAULT_MAX_KEYS = 1_000_000;
const MAX_MAX_KEYS = 100_000_000;

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
   * How many keys are kept, over all policies. Default: 1,000,000. Only states that equal "never used" are ever dropped;
   * when there are none, further new keys share one overflow state per policy until there is room again.
   */
  readonly maxKeys?: number | undefined;
  /** Whole microseconds. Default: a monotonic clock. */
  readonly clock?: Clock | undefined;
}

/** An outcome that can say that it came from the overflow state. */
class MemoryVerdict extends Outcome<AnyState> {
  overflow = false;
}

/** A limit of a check and what its algorithm said. */
interface Decided {
  readonly limit: Limit;
  readonly outcome: MemoryVerdict;
}

/** The embedded store: exact, bounded, and without timers. One process's own limits. */
export function memoryStore(options: MemoryStoreOptions = {}): MemoryStore {
  return new MemoryStore(options);
}

export class MemoryStore implements SyncStore {
  private readonly maxKeys: number;
  private readonly clock: Clock;
  private readonly tables = new Map<string, StateTable>();
  private recentPlan: Plan | undefined;
  private recentTable: StateTable | undefined;
  private keys = 0;
  /** Reused by every check of one limit: see `SyncStore`. */
  private readonly verdict = new MemoryVerdict();
  /** The tables still to be swept in this round. */
  private round: Iterator<[string, StateTable]> = this.tables.entries();
  private swept: [string, StateTable] | undefined;

  constructor(options: MemoryStoreOptions) {
    requireOptionNames('The options of memoryStore()', options, ['maxKeys', 'clock']);
    const { maxKeys = DEFAULT_MAX_KEYS, clock = systemClock } = options;
    if (!Number.isInteger(maxKeys) || maxKeys < 1 || maxKeys > MAX_MAX_KEYS) {
      throw new LimiterError(
        'INVALID_OPTION',
        `maxKeys is ${show(maxKeys)}; expected an integer from 1 to ${MAX_MAX_KEYS}: plan about 100 bytes per key.`,
      );
    }
    if (typeof clock !== 'function') {
      throw new LimiterError(
        'INVALID_OPTION',
        `clock is ${show(clock)}; expected a function that returns whole microseconds.`,
      );
    }
    this.maxKeys = maxKeys;
    this.clock = clock;
  }

  checkSync(limits: readonly Limit[], cost: number): readonly StoreVerdict[] {
    const nowUs = readClock(this.clock);
    const first = limits[0];
    return limits.length === 1 && first !== undefined
      ? [this.checkOne(first, cost, nowUs)]
      : this.checkTogether(limits, cost, nowUs);
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

  async check(limits: readonly Limit[], cost: number): Promise<readonly StoreVerdict[]> {
    return this.checkSync(limits, cost).map((verdict) => ({ ...verdict }));
  }

  async peek(limits: readonly Limit[], cost: number): Promise<readonly StoreVerdict[]> {
    return this.peekSync(limits, cost);
  }

  async forget(limits: readonly Limit[]): Promise<void> {
    this.forgetSync(limits);
  }

  async health(): Promise<StoreHealth> {
    const nowUs = readClock(this.clock);
    const overflowing = [...this.tables.values()].some((table) => table.overflowAt(nowUs) !== undefined);
    const status = overflowing ? 'degraded' : 'up';
    const detail = `${this.keys} of ${this.maxKeys} keys${overflowing ? '; new keys share an overflow state: raise maxKeys' : ''}`;
    return { status, nodes: [{ name: 'memory', status, detail }] };
  }

  async close(): Promise<void> {
    this.tables.clear();
    this.recentTable = undefined;
    this.round = this.tables.entries();
    this.swept = undefined;
    this.keys = 0;
  }

  private checkOne(limit: Limit, cost: number, nowUs: number): StoreVerdict {
    if (cost === 0) return this.look(limit, 0, nowUs);
    const table = this.tableOf(limit.plan);
    const state = table.find(limit.stateKey) ?? table.overflowAt(nowUs);
    const { verdict } = this;
    limit.plan.algorithm.decide(state, limit.plan.numbers, cost, nowUs, verdict);
    const next = verdict.allowed ? verdict.spent : verdict.carried;
    verdict.overflow =
      next === undefined
        ? !table.found && state !== undefined
        : !this.keep(table, limit.stateKey, next, nowUs);
    return verdict;
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
        const table = this.tableOf(limit.plan);
        table.find(limit.stateKey);
        // Nothing may be swept before all states are in place: each was decided on where its key stood then.
        verdict.overflow = !this.place(table, limit.stateKey, next);
      }
      return verdict;
    });
  }

  private decideTogether(limits: readonly Limit[], cost: number, nowUs: number): readonly Decided[] {
    this.sweep(SWEEP_ON_INSERT * limits.length, nowUs - CLOCK_STEP_GRACE_US, undefined);
    let room = this.roomFor(limits.length, nowUs, undefined);
    const sharing = new Map<StateTable, number>();
    return limits.map((limit) => {
      const table = this.tableOf(limit.plan);
      const state = table.find(limit.stateKey) ?? table.overflowAt(nowUs);
      let due = cost;
      if (!table.found && room === 0) {
        // New keys of one policy that overflow together spend from the same state: each adds to what is due there.
        due += sharing.get(table) ?? 0;
        sharing.set(table, due);
      } else if (!table.found) room -= 1;
      const outcome = new MemoryVerdict();
      outcome.overflow = !table.found && state !== undefined;
      limit.plan.algorithm.decide(state, limit.plan.numbers, due, nowUs, outcome);
      return { limit, outcome };
    });
  }

  private look(limit: Limit, cost: number, nowUs: number): MemoryVerdict {
    const { stateId, algorithm, numbers } = limit.plan;
    const table = this.tables.get(stateId);
    const own = table?.find(limit.stateKey);
    const state = own ?? table?.overflowAt(nowUs);
    const verdict = new MemoryVerdict();
    decideWithoutSpending({ algorithm, numbers, cost, nowUs }, state, verdict);
    verdict.overflow = own === undefined && state !== undefined;
    return verdict;
  }

  /**
   * Keeps the state of the key that `table.find` was last asked for, after making room for it if it is new; false if it
   * had to go into the overflow state.
   */
  private keep(table: StateTable, stateKey: string, state: AnyState, nowUs: number): boolean {
    if (table.found) return this.place(table, stateKey, state);
    // Sweeping may move what `find` looked at, so it comes first, and then the key is looked up again.
    this.sweep(SWEEP_ON_INSERT, nowUs - CLOCK_STEP_GRACE_US, table);
    this.roomFor(1, nowUs, table);
    table.find(stateKey);
    return this.place(table, stateKey, state);
  }

  private place(table: StateTable, stateKey: string, state: AnyState): boolean {
    if (table.found) {
      table.update(state);
      return true;
    }
    if (this.keys >= this.maxKeys || !table.insert(stateKey, state)) {
      table.overflow = state;
      return false;
    }
    this.keys += 1;
    return true;
  }

  /** How many keys may still be added, after looking for some to drop if it were fewer than wanted. */
  private roomFor(wanted: number, nowUs: number, busy: StateTable | undefined): number {
    for (let sweeps = 0; sweeps < SWEEPS_WHEN_FULL && this.maxKeys - this.keys < wanted; sweeps += 1) {
      this.sweep(SWEEP_PLACES_WHEN_FULL, nowUs, busy);
    }
    return this.maxKeys - this.keys;
  }

  private tableOf(plan: Plan): StateTable {
    // Most checks are of the same policy as the one before.
    if (plan === this.recentPlan && this.recentTable !== undefined) return this.recentTable;
    let table = this.tables.get(plan.stateId);
    if (table === undefined) {
      table = new StateTable(plan, this.maxKeys);
      this.tables.set(plan.stateId, table);
    }
    this.recentPlan = plan;
    this.recentTable = table;
    return table;
  }

  /** Looks at the next few places, table after table, and drops what equaled "absent" then. `busy` stays even if empty. */
  private sweep(places: number, asOfUs: number, busy: StateTable | undefined): void {
    this.swept ??= this.nextTable();
    if (this.swept === undefined) return;
    const [stateId, table] = this.swept;
    const before = table.size;
    const done = table.sweep(places, asOfUs);
    this.keys -= before - table.size;
    if (!done) return;
    if (table.size === 0 && table !== busy && table.overflowAt(asOfUs) === undefined) this.drop(stateId);
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
