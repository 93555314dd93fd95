import type { AnyState } from '../../algorithms/algorithm.ts';
import type { Limit, Plan } from '../../limit.ts';
import { StateTable } from './state-table.ts';

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

/** A table per policy, and how many keys they have together. */
export class StateTables {
  /** How many keys there are. */
  keys = 0;
  maxKeys: number;
  /** Whether a table without keys has to stay: its hashes have a seed of their own. */
  private readonly isNeeded: (stateId: string, asOfUs: number) => boolean;
  private readonly tables = new Map<string, StateTable>();
  private recentPlan: Plan | undefined;
  private recentTable: StateTable | undefined;
  /** The tables still to be swept in this round. */
  private round: Iterator<[string, StateTable]> = this.tables.entries();
  private swept: [string, StateTable] | undefined;

  constructor(maxKeys: number, isNeeded: (stateId: string, asOfUs: number) => boolean) {
    this.maxKeys = maxKeys;
    this.isNeeded = isNeeded;
  }

  get hasRoom(): boolean {
    return this.keys < this.maxKeys;
  }

  /** The table that the limit has, or gets. */
  of(limit: Limit): StateTable {
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

  /** The table of a policy, if it has one. */
  find(stateId: string): StateTable | undefined {
    return this.tables.get(stateId);
  }

  /** Adds the key that `table.find` did not find; false if there is no place for it. */
  insert(table: StateTable, key: string, state: AnyState): boolean {
    if (!this.hasRoom || !table.insert(key, state)) return false;
    this.keys += 1;
    return true;
  }

  remove({ plan, stateKey }: Limit): void {
    if (this.tables.get(plan.stateId)?.remove(stateKey) === true) this.keys -= 1;
  }

  resize(maxKeys: number): void {
    this.maxKeys = maxKeys;
    for (const table of this.tables.values()) table.allow(maxKeys);
  }

  clear(): void {
    this.tables.clear();
    this.recentTable = undefined;
    this.round = this.tables.entries();
    this.swept = undefined;
    this.keys = 0;
  }

  /**
   * How many keys may be added, after looking for some to drop, harder if it were fewer than wanted. What `find` looked
   * at may have moved; `busy` stays even if empty.
   */
  makeRoom(wanted: number, nowUs: number, busy: StateTable | undefined): number {
    this.sweep(SWEEP_ON_INSERT * wanted, nowUs - CLOCK_STEP_GRACE_US, busy);
    for (let sweeps = 0; sweeps < SWEEPS_WHEN_FULL && this.maxKeys - this.keys < wanted; sweeps += 1) {
      this.sweep(SWEEP_PLACES_WHEN_FULL, nowUs, busy);
    }
    return Math.max(0, this.maxKeys - this.keys);
  }

  /** Looks at the next few places, table after table, and drops what equaled "absent" then. */
  private sweep(places: number, asOfUs: number, busy: StateTable | undefined): void {
    this.swept ??= this.nextTable();
    if (this.swept === undefined) return;
    const [stateId, table] = this.swept;
    const before = table.size;
    const done = table.sweep(places, asOfUs);
    this.keys -= before - table.size;
    if (!done) return;
    if (table.size === 0 && table !== busy && !this.isNeeded(stateId, asOfUs)) this.drop(stateId);
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
