import type { HeldLease, LeaseGrant, LeaseRest } from '../../algorithms/lease.ts';
import { costOf, stateName, type Limit } from '../../limit.ts';
import type { LeaseStatistics, StoreVerdict } from '../store.ts';
import { LEASED_PART } from './demand.ts';
import { LeaseHolder, type LocalAnswer } from './lease-holder.ts';
import { emptyTally, type LeaseTally } from './lease-tally.ts';
import { leasesOf } from './leased-plan.ts';
import { RecentMap } from './recent-map.ts';

/**
 * Keys whose demand is watched. Past it, those that were not used lately are forgotten. What they leased passes, or is
 * given back.
 */
const MAX_KEYS = 10_000;

/** What the store answered to the question for a lease. */
export interface LeaseAnswer {
  readonly grant: LeaseGrant | undefined;
  /** What it has left. */
  readonly left: number;
  readonly storeUs: number;
}

export interface LeaseSource {
  lease(limit: Limit, want: number): Promise<LeaseAnswer>;
  /** Whether the store took back what is left of it. */
  returnLease(limit: Limit, rest: LeaseRest): Promise<boolean>;
  /** This process's monotonic time. */
  nowUs(): number;
}

interface LeasedKey {
  readonly limit: Limit;
  readonly holder: LeaseHolder;
  /** While the store is being asked; never rejects. */
  arrival: Promise<void> | undefined;
  /** What comes now is not used: the limit has other numbers, or what it had spent was forgotten. */
  end: 'replaced' | 'forgotten' | undefined;
}

/** The leases of a process: which keys are worth one, what is left of each, and when to ask for the next. */
export class LeaseTable {
  private readonly source: LeaseSource;
  private readonly keys = new RecentMap<LeasedKey>(MAX_KEYS);
  /** Those that hold what stays charged until it is given back. */
  private readonly holding = new Set<LeasedKey>();
  private readonly tally: LeaseTally;

  constructor(source: LeaseSource, tally: LeaseTally = emptyTally()) {
    this.source = source;
    this.tally = tally;
  }

  /** What this process may decide alone; undefined where the store has to. */
  decide(limits: readonly Limit[], cost: number): readonly StoreVerdict[] | undefined {
    const [limit] = limits;
    if (limit === undefined || cost === 0 || !limits.every((each) => isLeasable(each, costOf(each, cost))))
      return undefined;
    const nowUs = this.source.nowUs();
    if (limits.length > 1) return this.decideTogether(limits, cost, nowUs);
    const leased = this.keyOf(limit, nowUs);
    const verdict = toVerdict(leased.holder.decide(costOf(limit, cost), nowUs));
    this.renew(leased, nowUs);
    return verdict === undefined ? undefined : [verdict];
  }

  /** Resolves when the lease that is on its way for this limit has come, or failed to. */
  arrivalFor(limits: readonly Limit[]): Promise<void> | undefined {
    const [limit] = limits;
    if (limits.length > 1 || limit === undefined || limit.policy.leases === false) return undefined;
    return this.keys.get(stateName(limit))?.arrival;
  }

  /** `decide` for a request about one limit that has waited for a lease. */
  decideAgain(limits: readonly Limit[], cost: number): readonly StoreVerdict[] | undefined {
    const [limit] = limits;
    if (limits.length > 1 || limit === undefined || !isLeasable(limit, costOf(limit, cost))) return undefined;
    const leased = this.keys.get(stateName(limit));
    if (leased?.limit.plan !== limit.plan) return undefined;
    const verdict = toVerdict(leased.holder.decideAgain(costOf(limit, cost), this.source.nowUs()));
    return verdict === undefined ? undefined : [verdict];
  }

  /** What the store had left after a decision of its own. */
  noteLeft(limits: readonly Limit[], verdicts: readonly StoreVerdict[]): void {
    limits.forEach((limit, at) => {
      const verdict = verdicts[at];
      if (limit.policy.leases === false || verdict === undefined) return;
      const leased = this.keys.get(stateName(limit));
      if (leased?.limit.plan === limit.plan) leased.holder.noteLeft(verdict.remaining);
    });
  }

  /** Nothing that was leased for these limits is handed out any more. */
  drop(limits: readonly Limit[]): void {
    for (const limit of limits) {
      const name = stateName(limit);
      const known = this.keys.get(name);
      // It may have been charged to what was forgotten: nothing of it is given back.
      if (known !== undefined) known.end = 'forgotten';
      this.keys.delete(name);
      for (const leased of this.holding) if (stateName(leased.limit) === name) this.holding.delete(leased);
    }
  }

  /** Gives back what is left of every lease, as far as the store can take it. */
  async close(): Promise<void> {
    const keys = [...new Set([...this.keys.values(), ...this.holding])];
    this.keys.clear();
    this.holding.clear();
    // What is on its way is given back, too.
    await Promise.all(keys.map(async ({ arrival }) => arrival));
    const nowUs = this.source.nowUs();
    // The latest first: of a bucket, only what lies at the end can be given back.
    await Promise.allSettled(
      keys.flatMap((leased) => this.giveBackAll(leased, leased.holder.release(nowUs).toReversed(), nowUs)),
    );
  }

  /** Gives back what is over, or has not been asked for in a while, where it would stay charged otherwise. */
  sweep(): void {
    const nowUs = this.source.nowUs();
    for (const leased of this.holding) {
      const { holder } = leased;
      const unused = holder.isIdle(nowUs) ? holder.release(nowUs) : holder.releaseOver(nowUs);
      if (!holder.holdsAny) this.holding.delete(leased);
      if (unused.length > 0) void Promise.allSettled(this.giveBackAll(leased, unused, nowUs));
    }
  }

  statistics(): LeaseStatistics {
    const nowUs = this.source.nowUs();
    const { granted, spent, returned, returning, clockErrorUs } = this.tally;
    let outstanding = returning;
    let clockBoundUs = 0;
    for (const { holder } of this.keys.values()) {
      outstanding += holder.leasedTokens(holder.latestUs(nowUs));
      clockBoundUs = Math.max(clockBoundUs, holder.clockBoundUs(nowUs));
    }
    const expired = granted - spent - returned - outstanding;
    return { granted, returned, expired, outstanding, clockBoundUs, clockErrorUs };
  }

  private giveBackAll(
    { limit, holder }: LeasedKey,
    leases: readonly HeldLease[],
    nowUs: number,
  ): readonly Promise<void>[] {
    const latestUs = holder.latestUs(nowUs);
    return leases.map((lease) => this.giveBack(limit, lease.rest, lease.returnable(latestUs)));
  }

  /** Ends the leases of a key. What is left passes by itself, or is given back; nobody waits for that. */
  private letGo(leased: LeasedKey, nowUs: number): void {
    if (leased.limit.plan.algorithm.leases?.passes === true) return;
    void Promise.allSettled(this.giveBackAll(leased, leased.holder.release(nowUs), nowUs));
  }

  private async giveBack(limit: Limit, rest: LeaseRest, tokens: number): Promise<void> {
    const { tally } = this;
    tally.returning += tokens;
    try {
      if (await this.source.returnLease(limit, rest)) tally.returned += tokens;
    } finally {
      tally.returning -= tokens;
    }
  }

  private decideTogether(
    limits: readonly Limit[],
    cost: number,
    nowUs: number,
  ): readonly StoreVerdict[] | undefined {
    const asked = limits.map((limit) => ({ leased: this.keyOf(limit, nowUs), due: costOf(limit, cost) }));
    const covered = asked.every(({ leased: { holder }, due }) => holder.canSpend(due, nowUs));
    const verdicts = asked.map(({ leased: { holder }, due }) =>
      covered ? toVerdict(holder.decide(due, nowUs)) : undefined,
    );
    if (!covered) for (const { leased, due } of asked) leased.holder.note(due, nowUs);
    for (const { leased } of asked) this.renew(leased, nowUs);
    return covered ? verdicts.filter((verdict) => verdict !== undefined) : undefined;
  }

  private renew(leased: LeasedKey, nowUs: number): void {
    const { holder } = leased;
    const want = holder.wanted(nowUs);
    if (want === 0) return;
    holder.asked();
    leased.arrival = this.ask(leased, want, nowUs);
  }

  private async ask(leased: LeasedKey, want: number, sentUs: number): Promise<void> {
    const { holder, limit } = leased;
    try {
      const { grant, left, storeUs } = await this.source.lease(limit, want);
      const heardUs = this.source.nowUs();
      holder.granted(want, grant, left, { storeUs, sentUs, heardUs });
      if (leased.end === 'replaced') this.letGo(leased, heardUs);
      else if (leased.end === undefined && !leasesOf(limit.plan).passes) this.holding.add(leased);
    } catch {
      // What the store may have granted passes by itself; the next request asks the store, which says what is wrong.
      holder.failed();
    } finally {
      leased.arrival = undefined;
    }
  }

  private keyOf(limit: Limit, nowUs: number): LeasedKey {
    const name = stateName(limit);
    const known = this.keys.get(name);
    if (known?.limit.plan === limit.plan) return known;
    // Other numbers are another limit: what was leased under the old ones is not used.
    if (known !== undefined) {
      known.end = 'replaced';
      this.letGo(known, nowUs);
    }
    const leased: LeasedKey = {
      limit,
      holder: new LeaseHolder(limit.plan, nowUs, {
        tally: this.tally,
        isCareful: limit.policy.leases === 'auto',
      }),
      arrival: undefined,
      end: undefined,
    };
    this.keys.set(name, leased);
    return leased;
  }
}

/** A larger cost is never leased: the store decides about it. */
function isLeasable({ policy, plan }: Limit, cost: number): boolean {
  return policy.leases !== false && cost * LEASED_PART <= plan.limit;
}

function toVerdict(answer: LocalAnswer): StoreVerdict | undefined {
  if (answer.kind === 'admitted') {
    const { remaining, resetAfterUs } = answer;
    return { allowed: true, remaining, retryAfterUs: 0, resetAfterUs, delayUs: 0, local: 'lease' };
  }
  if (answer.kind !== 'held') return undefined;
  const { retryAfterUs, resetAfterUs } = answer;
  return { allowed: false, remaining: 0, retryAfterUs, resetAfterUs, delayUs: 0, local: 'lease' };
}
