import type { AnyNumbers } from '../algorithms/algorithm.ts';
import type { LeaseRest } from '../algorithms/lease.ts';
import type { Clock } from '../clock.ts';
import { LimiterError } from '../errors.ts';
import { planOf, underPlan, type Limit, type Plan } from '../limit.ts';
import { chargeLease } from '../stores/local/lease-grant.ts';
import { leasesOf } from '../stores/local/leased-plan.ts';
import { LeaseTable, type LeaseAnswer, type LeaseSource } from '../stores/local/lease-table.ts';
import type { MemoryStore } from '../stores/memory-store.ts';
import type { Store, StoreHealth, StoreStatistics, StoreVerdict, SyncStore } from '../stores/store.ts';

/** What all instances of a fleet share, as they would share a Redis. */
export interface SharedStates {
  readonly store: MemoryStore;
  /** The clock of the store. */
  readonly nowUs: Clock;
  /** Nobody reaches the store now. */
  readonly isAway: () => boolean;
}

/** How one instance reaches the store that it shares: at once, while it is there. */
export class SimulatedStore implements SyncStore {
  readonly keepsPenalties = true;
  protected readonly shared: SharedStates;
  private readonly longer = new WeakMap<Plan, Plan>();

  constructor(shared: SharedStates) {
    this.shared = shared;
  }

  checkSync(limits: readonly Limit[], cost: number): readonly StoreVerdict[] {
    return this.reached().checkSync(this.outlasting(limits), cost);
  }

  peekSync(limits: readonly Limit[], cost: number): readonly StoreVerdict[] {
    return this.reached().peekSync(limits, cost);
  }

  forgetSync(limits: readonly Limit[]): void {
    this.reached().forgetSync(limits);
  }

  releaseSync(limits: readonly Limit[]): void {
    // A slot that cannot be released now is no longer renewed either: it would end a little later.
    this.shared.store.releaseSync(limits);
  }

  async check(limits: readonly Limit[], cost: number): Promise<readonly StoreVerdict[]> {
    return this.reached().check(this.outlasting(limits), cost);
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
    const status = this.shared.isAway() ? 'down' : 'up';
    return { status, nodes: [{ name: 'simulated', status, detail: `the simulated store is ${status}` }] };
  }

  async close(): Promise<void> {
    // The others still use it.
  }

  protected reached(): MemoryStore {
    if (!this.shared.isAway()) return this.shared.store;
    throw new LimiterError('STORE_UNAVAILABLE', 'The simulated store is away: the simulation says so.');
  }

  /** Timers renew slots by the real time, which says nothing here: a slot is held until it is released. */
  private outlasting(limits: readonly Limit[]): readonly Limit[] {
    return limits.some(hasSlots) ? limits.map((limit) => this.longLasting(limit)) : limits;
  }

  private longLasting(limit: Limit): Limit {
    if (!hasSlots(limit)) return limit;
    const { plan } = limit;
    let longer = this.longer.get(plan);
    if (longer === undefined) {
      const numbers: AnyNumbers = { ...plan.numbers, ...HELD };
      longer = planOf(plan.algorithm, numbers, plan.stateId, plan.penalty);
      this.longer.set(plan, longer);
    }
    return underPlan(limit, longer);
  }
}

/** Ten years. */
const HELD = { holdUs: 10 * 365 * 86_400 * 1_000_000 };

function hasSlots({ plan }: Limit): boolean {
  return plan.algorithm.slots !== undefined;
}

/** The same for an instance that leases tokens of busy keys. Questions and answers take no time. */
export class LeasingStore implements Store {
  readonly keepsPenalties = true;
  private readonly direct: SimulatedStore;
  private readonly leases: LeaseTable;
  private calls = 0;

  /** `nowUs` is the instance's own clock. */
  constructor(shared: SharedStates, nowUs: Clock) {
    this.direct = new SimulatedStore(shared);
    const source: LeaseSource = {
      lease: async (limit, want) => {
        this.calls += 1;
        return grantLease(shared, limit, want);
      },
      returnLease: async (limit, rest) => takeBackLease(shared, limit, rest),
      nowUs,
    };
    this.leases = new LeaseTable(source);
  }

  checkLocally(limits: readonly Limit[], cost: number): readonly StoreVerdict[] | undefined {
    return this.leases.decide(limits, cost);
  }

  async check(limits: readonly Limit[], cost: number): Promise<readonly StoreVerdict[]> {
    const arrival = this.leases.arrivalFor(limits);
    if (arrival !== undefined) {
      await arrival;
      const decided = this.leases.decideAgain(limits, cost);
      if (decided !== undefined) return decided;
    }
    this.calls += 1;
    const verdicts = await this.direct.check(limits, cost);
    this.leases.noteLeft(limits, verdicts);
    return verdicts;
  }

  peek(limits: readonly Limit[], cost: number): Promise<readonly StoreVerdict[]> {
    return this.direct.peek(limits, cost);
  }

  async forget(limits: readonly Limit[]): Promise<void> {
    await this.direct.forget(limits);
    this.leases.drop(limits);
  }

  release(limits: readonly Limit[]): Promise<void> {
    return this.direct.release(limits);
  }

  health(): Promise<StoreHealth> {
    return this.direct.health();
  }

  statistics(): StoreStatistics {
    return { calls: this.calls, leases: this.leases.statistics() };
  }

  /** What a timer of the Redis store does. */
  sweep(): void {
    this.leases.sweep();
  }

  async close(): Promise<void> {
    await this.leases.close();
  }
}

/** As the Redis store grants them. */
function grantLease({ store, nowUs, isAway }: SharedStates, limit: Limit, want: number): LeaseAnswer {
  if (isAway()) throw new LimiterError('STORE_UNAVAILABLE', 'The simulated store is away: no lease.');
  const storeUs = nowUs();
  const charged = chargeLease(store.stateOf(limit), limit.plan, want, storeUs);
  const isCharged = charged !== undefined && store.replaceState(limit, charged.spent);
  const [{ remaining } = { remaining: 0 }] = store.peekSync([limit], 0);
  if (charged === undefined || !isCharged) return { grant: undefined, left: remaining, storeUs };
  return { grant: { tokens: charged.tokens, end: charged.end }, left: remaining, storeUs };
}

/** As the Redis store takes them back. */
function takeBackLease({ store, nowUs, isAway }: SharedStates, limit: Limit, rest: LeaseRest): boolean {
  const state = isAway() ? undefined : store.stateOf(limit);
  if (state === undefined) return false;
  const { plan } = limit;
  const left = leasesOf(plan).takeBack(state, plan.numbers, rest, nowUs());
  return left !== state && store.replaceState(limit, left);
}
