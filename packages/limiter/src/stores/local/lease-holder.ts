import type { HeldLease, LeaseGrant } from '../../algorithms/lease.ts';
import { Demand, LEASED_PART, leaseSize, type LeasedLimit, type LeaseSize } from './demand.ts';
import { emptyTally, type LeaseTally } from './lease-tally.ts';
import { leasesOf, type LeasedPlan } from './leased-plan.ts';
import { clockBoundUs, latestStoreTimeUs, type StoreMoment } from './store-clock.ts';

export type LocalAnswer =
  | { readonly kind: 'admitted'; readonly remaining: number; readonly resetAfterUs: number }
  /** Denied: this process got less than it wanted, and asks again only after a while. */
  | { readonly kind: 'held'; readonly retryAfterUs: number; readonly resetAfterUs: number }
  /** A lease is on its way: decide again when it has come. */
  | { readonly kind: 'wait' }
  /** The store has to decide. */
  | { readonly kind: 'ask' };

const WAIT: LocalAnswer = { kind: 'wait' };
const ASK: LocalAnswer = { kind: 'ask' };
const NONE: readonly HeldLease[] = [];
/** Who was not asked for so long gives back what stays charged otherwise. */
const IDLE_US = 500_000;

export interface HolderOptions {
  readonly tally?: LeaseTally;
  /** As under `leases: 'auto'`. */
  readonly isCareful?: boolean;
}

/**
 * One key's leases in one process: decides alone while a lease lasts, and says when the store has to be asked. It does
 * no input or output and reads no clock: `nowUs` is this process's monotonic time.
 */
export class LeaseHolder {
  readonly plan: LeasedPlan;
  private readonly pace: LeasedLimit;
  private readonly demand: Demand;
  private leases: HeldLease[] = [];
  /** Leases that are over, of which something can be given back. */
  private over: HeldLease[] = [];
  private lastAskedUs: number;
  private moment: StoreMoment = { storeUs: 0, sentUs: 0, heardUs: 0 };
  private readonly tally: LeaseTally;
  /** Leases only while at least half is left, and never denies by itself. */
  private readonly isCareful: boolean;
  /** What the store had left when it last granted something. */
  private leftInStore = 0;
  private renewing = false;
  private roundTripUs = 1000;
  private heldUntilUs = 0;
  /** When the bucket is full again, by the store's clock, as far as this process knows. */
  private fullAtUs = 0;

  constructor(
    plan: LeasedPlan,
    nowUs: number,
    { tally = emptyTally(), isCareful = false }: HolderOptions = {},
  ) {
    const { numbers } = plan;
    const { passes, ...operations } = leasesOf(plan);
    this.plan = plan;
    this.pace = { ...operations.pace(numbers), limit: numbers.limit, passes };
    this.lastAskedUs = nowUs;
    this.isCareful = isCareful;
    this.tally = tally;
    this.demand = new Demand(nowUs);
  }

  /** Counts a request that the store decides. */
  note(cost: number, nowUs: number): void {
    this.demand.note(cost, nowUs);
  }

  /** What the store had left after a decision of its own. */
  noteLeft(left: number): void {
    this.leftInStore = left;
  }

  /** Whether `cost` would be admitted from a lease now. Spends nothing. */
  canSpend(cost: number, nowUs: number): boolean {
    return this.current(cost, this.latestUs(nowUs)) !== undefined;
  }

  decide(cost: number, nowUs: number): LocalAnswer {
    this.demand.note(cost, nowUs);
    this.lastAskedUs = nowUs;
    return this.decideAgain(cost, nowUs);
  }

  /** `decide` for a request that has waited for a lease. */
  decideAgain(cost: number, nowUs: number): LocalAnswer {
    const latestUs = this.latestUs(nowUs);
    const lease = this.current(cost, latestUs);
    if (lease?.spend(cost, latestUs) === true) {
      this.tally.spent += cost;
      const remaining = this.leasedTokens(latestUs) + this.leftInStore;
      return { kind: 'admitted', remaining, resetAfterUs: Math.max(0, this.fullAtUs - latestUs) };
    }
    if (nowUs < this.heldUntilUs) {
      const retryAfterUs = this.heldUntilUs - nowUs;
      return { kind: 'held', retryAfterUs, resetAfterUs: Math.max(retryAfterUs, this.fullAtUs - latestUs) };
    }
    if (this.renewing) return WAIT;
    return ASK;
  }

  /** How many tokens to ask the store for now; 0 while a lease is not worth it, lasts, or is being asked for. */
  wanted(nowUs: number): number {
    if (this.renewing || nowUs < this.heldUntilUs) return 0;
    const { limit, passes, refillPerUs } = this.pace;
    const tokens = this.leasedTokens(this.latestUs(nowUs));
    // They pass no faster than that: for nearly every request this is all that has to be known.
    if (tokens > this.untilAnswer(Math.max(this.demand.rateAt(nowUs), refillPerUs))) return 0;
    if (this.isCareful && this.leftInStore * 2 < limit) return 0;
    // What one process holds of a window is not there for the next: the last of it is decided one by one.
    if (!passes && this.leftInStore * LEASED_PART < limit) return 0;
    const { want, passPerUs } = this.size(nowUs);
    if (want === 0) return 0;
    return tokens > Math.min(want, this.untilAnswer(passPerUs)) ? 0 : want;
  }

  asked(): void {
    this.renewing = true;
  }

  /** The store granted something, or nothing (`grant` undefined). */
  granted(want: number, grant: LeaseGrant | undefined, left: number, moment: StoreMoment): void {
    this.renewing = false;
    this.noteClock(moment);
    this.moment = moment;
    this.leftInStore = left;
    this.roundTripUs = moment.heardUs - moment.sentUs;
    // Less than was asked for comes from a bucket that is nearly empty, or has passed on the way.
    const isScarce = (grant?.tokens ?? 0) < want && left * 4 < this.pace.limit;
    if (isScarce && !this.isCareful && this.pace.passes) this.holdOff(moment.heardUs);
    if (grant === undefined) return;
    this.leases.push(leasesOf(this.plan).hold(this.plan.numbers, grant));
    this.tally.granted += grant.tokens;
    this.fullAtUs = grant.end.us + 1;
  }

  /** The store did not answer: whatever it may have granted passes by itself. */
  failed(): void {
    this.renewing = false;
  }

  /** Gives up every lease and returns those of which something can be given back. */
  release(nowUs: number): readonly HeldLease[] {
    const latestUs = this.latestUs(nowUs);
    const left = this.over.concat(this.leases.filter((lease) => lease.returnable(latestUs) > 0));
    this.leases = [];
    this.over = [];
    return left;
  }

  /** The same for those that are over. */
  releaseOver(nowUs: number): readonly HeldLease[] {
    if (this.pace.passes) return NONE;
    this.current(1, this.latestUs(nowUs));
    if (this.over.length === 0) return NONE;
    const { over } = this;
    this.over = [];
    return over;
  }

  /** Whether it holds units that stay charged, and nobody has asked for them in a while. */
  isIdle(nowUs: number): boolean {
    return !this.pace.passes && this.leases.length > 0 && nowUs - this.lastAskedUs >= IDLE_US;
  }

  /** Leases, used up or not, that nobody has let go. */
  get holdsAny(): boolean {
    return this.leases.length > 0 || this.over.length > 0;
  }

  leasedTokens(latestUs: number): number {
    let tokens = 0;
    for (const lease of this.leases) tokens += lease.remaining(latestUs);
    return tokens;
  }

  latestUs(nowUs: number): number {
    return latestStoreTimeUs(this.moment, nowUs);
  }

  /** How far off the time may be by which the leases of this key are decided; 0 while it holds none. */
  clockBoundUs(nowUs: number): number {
    return this.leasedTokens(this.latestUs(nowUs)) === 0 ? 0 : clockBoundUs(this.moment, nowUs);
  }

  private noteClock({ storeUs, heardUs }: StoreMoment): void {
    if (this.moment.storeUs === 0) return;
    const aheadUs = storeUs - this.latestUs(heardUs);
    this.tally.clockErrorUs = Math.max(this.tally.clockErrorUs, aheadUs);
  }

  private current(cost: number, latestUs: number): HeldLease | undefined {
    while (this.leases.length > 0) {
      const [lease] = this.leases;
      const remaining = lease?.remaining(latestUs) ?? 0;
      if (remaining >= cost) return lease;
      // What is left of it may still serve a smaller cost, unless a later lease serves this one.
      if (remaining > 0 && this.leases.length === 1) return undefined;
      this.leases.shift();
      if (!this.pace.passes && lease !== undefined && lease.returnable(latestUs) > 0) this.over.push(lease);
    }
    return undefined;
  }

  /** How many tokens pass until the next lease is there. */
  private untilAnswer(passPerUs: number): number {
    return 2 * this.roundTripUs * passPerUs;
  }

  private size(nowUs: number): LeaseSize {
    return leaseSize(this.demand.rateAt(nowUs), this.pace, this.leftInStore);
  }

  /** Others need tokens too: a process that asks again at once would take one token per call. */
  private holdOff(nowUs: number): void {
    const { want, lifeUs } = this.size(nowUs);
    if (want > 0) this.heldUntilUs = nowUs + Math.ceil(Math.min(lifeUs, 32 / this.demand.rateAt(nowUs)));
  }
}
