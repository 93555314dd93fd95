import { decideWithoutSpending, NEVER, type AnyState } from '../algorithms/algorithm.ts';
import { readClock, systemClock, type Clock } from '../clock.ts';
import { LimiterError, show } from '../errors.ts';
import { costOf, type Limit } from '../limit.ts';
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
import type { StateTable } from './memory/state-table.ts';
import { Penalties } from './memory/penalties.ts';
import { StateTables } from './memory/state-tables.ts';
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

/** A limit, the state by which it was decided, and what it was asked. */
interface JudgedLimit {
  readonly limit: Limit;
  readonly state: AnyState | undefined;
  readonly cost: number;
  readonly nowUs: number;
}

export class MemoryStore implements SyncStore {
  private readonly clock: Clock;
  private readonly tables: StateTables;
  private readonly overflows = new OverflowStates();
  private readonly penalties: Penalties;
  readonly keepsPenalties = true;
  /** Reused by every check of one limit: see `SyncStore`. */
  private readonly verdict = new MemoryVerdict();
  private readonly onlyVerdict: readonly StoreVerdict[] = [this.verdict];

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
    this.clock = clock;
    this.penalties = new Penalties(maxKeys);
    // A crowd that owes something is named by the hashes of its table.
    this.tables = new StateTables(maxKeys, (stateId, asOfUs) =>
      this.overflows.isLive(crowdsOf(stateId), asOfUs),
    );
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
    this.tables.resize(maxKeys);
    this.penalties.resize(maxKeys);
  }

  checkSync(limits: readonly Limit[], cost: number): readonly StoreVerdict[] {
    return this.checkAt(limits, cost, readClock(this.clock));
  }

  private checkAt(limits: readonly Limit[], cost: number, nowUs: number): readonly StoreVerdict[] {
    const first = limits[0];
    if (limits.length !== 1 || first === undefined) return this.checkTogether(limits, cost, nowUs);
    if (cost === 0) return [this.look(first, 0, nowUs)];
    if (first.plan.penalty !== undefined) return this.checkTogether(limits, cost, nowUs);
    return this.checkOne(first, cost, nowUs);
  }

  peekSync(limits: readonly Limit[], cost: number): readonly StoreVerdict[] {
    const nowUs = readClock(this.clock);
    return limits.map((limit) => this.look(limit, cost, nowUs));
  }

  forgetSync(limits: readonly Limit[]): void {
    for (const limit of limits) {
      this.tables.remove(limit);
      this.penalties.forget(limit);
    }
  }

  releaseSync(limits: readonly Limit[]): void {
    for (const limit of limits) this.releaseOne(limit, readClock(this.clock));
  }

  /** @internal What is kept for this limit alone. */
  stateOf(limit: Limit): AnyState | undefined {
    return this.tables.of(limit).find(limit.stateKey);
  }

  /** @internal Replaces it. False where nothing is kept for this limit alone. */
  replaceState(limit: Limit, state: AnyState): boolean {
    const table = this.tables.of(limit);
    if (table.find(limit.stateKey) === undefined) return false;
    if (limit.plan.algorithm.absentAtUs(state, limit.plan.numbers) > readClock(this.clock))
      table.update(state);
    else this.tables.remove(limit);
    return true;
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
    const { keys, maxKeys } = this.tables;
    const detail = `${keys} of ${maxKeys} keys${overflowing ? '; new keys share an overflow state: raise maxKeys' : ''}`;
    return { status, nodes: [{ name: 'memory', status, detail }] };
  }

  async close(): Promise<void> {
    this.tables.clear();
    this.overflows.clear();
    this.penalties.clear();
  }

  private checkOne(limit: Limit, cost: number, nowUs: number): readonly StoreVerdict[] {
    const table = this.tables.of(limit);
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
    const state = this.tables.of(limit).find(limit.stateKey);
    return state === undefined
      ? { limit, cost, atUs, absentAtUs: atUs, isShared: true }
      : // Nobody leases from this store: only a queue hands out moments.
        chargeIn(state, { limit, cost, atUs }, limit.plan.algorithm.name === 'leakyBucket');
  }

  private adjust({ limit, refunds, debt, expiresAtUs }: Adjustment, nowUs: number): AdjustedLimit {
    const table = this.tables.of(limit);
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
      else this.tables.remove(limit);
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
        const table = this.tables.of(limit);
        table.find(limit.stateKey);
        // Nothing may be swept before all states are in place: each was decided on where its key stood then.
        this.placeFor({ limit, table, state: next, nowUs }, verdict);
      }
      return verdict;
    });
  }

  private decideTogether(limits: readonly Limit[], cost: number, nowUs: number): readonly DecidedLimit[] {
    let room = this.tables.makeRoom(limits.length, nowUs, undefined);
    const sharing = new Map<string, number>();
    return limits.map((limit) => {
      const table = this.tables.of(limit);
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
      // What keys share while there is no room says nothing about one of them.
      const isOwn = !outcome.overflow && due === own;
      this.penalize({ limit, state, cost: own, nowUs }, outcome, isOwn && cost > 0);
      return { limit, outcome };
    });
  }

  private releaseOne(limit: Limit, nowUs: number): void {
    const { algorithm, numbers, stateId } = limit.plan;
    const table = this.tables.find(stateId);
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
    const table = this.tables.find(stateId);
    const own = table?.find(limit.stateKey);
    const state = own ?? this.overflowFor(limit, table, nowUs);
    const verdict = new MemoryVerdict();
    decideWithoutSpending({ algorithm, numbers, cost: costOf(limit, cost), nowUs }, state, verdict);
    verdict.overflow = own === undefined && state !== undefined;
    this.penalize({ limit, state, cost: costOf(limit, cost), nowUs }, verdict, false);
    return verdict;
  }

  private penalize({ limit, state, cost, nowUs }: JudgedLimit, out: MemoryVerdict, counts: boolean): void {
    const { algorithm, numbers, penalty } = limit.plan;
    if (penalty === undefined) return;
    this.penalties.apply({ limit, state, request: { algorithm, numbers, cost, nowUs } }, out, counts);
  }

  /** Keeps the state of a key that `table.find` did not find, after making room for it. */
  private keepNew(limit: Limit, table: StateTable, state: AnyState, nowUs: number): void {
    // That may move what `find` looked at, so it comes first, and then the key is looked up again.
    this.tables.makeRoom(1, nowUs, table);
    table.find(limit.stateKey);
    this.placeFor({ limit, table, state, nowUs }, this.verdict);
  }

  /** Puts a state where its key has its place, else into the overflow state, and says so in the verdict. */
  private placeFor({ limit, table, state, nowUs }: PlacedState, verdict: MemoryVerdict): void {
    verdict.overflow = false;
    if (table.found) {
      table.update(state);
    } else if (!this.tables.insert(table, limit.stateKey, state)) {
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
    const isCrowd = this.tables.hasRoom || this.overflows.find(crowd, plan, nowUs) !== undefined;
    return { name: isCrowd ? crowd : plan.stateId, isShared: true };
  }
}
