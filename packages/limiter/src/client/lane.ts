import type { AnnouncedLimits, AnnouncedQuota } from './announced-limits.ts';
import type { Gate, GateTime, Passage, Visitor } from './gate.ts';
import { nextTurn, type KnownQuota } from './pace.ts';
import { Nap } from './sleep.ts';

/** Policies that one partition may have; what a server names beyond that is not paced by. */
const MAX_POLICIES = 32;

interface Waiter {
  readonly visitor: Visitor;
  nap: Nap;
}

/** The requests of one partition: they go one after the other, when the server will have something left for them. */
export class Lane implements Gate {
  private readonly time: GateTime;
  private readonly share: number;
  private readonly quotas = new Map<string, KnownQuota>();
  private readonly waiters: Waiter[] = [];
  private heldUntilMs = -Infinity;
  private silent = false;
  private inFlight = 0;
  private lastSentMs = -Infinity;
  private sent = 0;

  /** `share` is the part of a quota below which it is spread. */
  constructor(time: GateTime, share: number) {
    this.time = time;
    this.share = share;
  }

  /** Nothing of it would be missed but what it knows. */
  isIdle(): boolean {
    return this.inFlight === 0 && this.waiters.length === 0;
  }

  async enter(visitor: Visitor): Promise<Passage> {
    const waiter: Waiter = { visitor, nap: new Nap(this.time.sleep) };
    this.line(waiter);
    try {
      // Without an await when it may go at once: who comes in the same moment then finds nobody in line.
      if (this.turnOf(waiter, this.time.nowMs()) > this.time.nowMs()) await this.waitForTurn(waiter);
      return this.depart();
    } finally {
      this.waiters.splice(this.waiters.indexOf(waiter), 1);
      this.wakeFirst();
    }
  }

  private async waitForTurn(waiter: Waiter): Promise<void> {
    const { signal, place } = waiter.visitor;
    let nowMs = this.time.nowMs();
    for (;;) {
      const atMs = this.turnOf(waiter, nowMs);
      if (atMs <= nowMs || !place.take()) return;
      const timeHasCome = await waiter.nap.take(atMs - nowMs, signal);
      waiter.nap = new Nap(this.time.sleep);
      // What slept for a time is that much later, also by a clock that stands still.
      nowMs = timeHasCome ? Math.max(atMs, this.time.nowMs()) : this.time.nowMs();
    }
  }

  /** When this one goes if nothing else happens. Only the first in line looks at the traffic; it is woken when that changes. */
  private turnOf(waiter: Waiter, nowMs: number): number {
    const { notBeforeMs, deadlineMs } = waiter.visitor;
    if (this.waiters[0] !== waiter) return deadlineMs;
    const { atMs, firm } = nextTurn(this.traffic(), this.share, nowMs);
    // Waiting for as long as it may would not help it: it may as well hear now that it is refused.
    const usefulMs = firm && atMs > deadlineMs ? this.doomedTurnMs(nowMs) : atMs;
    return Math.max(Math.min(usefulMs, deadlineMs), notBeforeMs);
  }

  /** Requests that will be refused still go one at a time, each after the answer of the one before. */
  private doomedTurnMs(nowMs: number): number {
    const unknown = { ...this.traffic(), quotas: [], silent: false, heldUntilMs: -Infinity };
    return nextTurn(unknown, this.share, nowMs).atMs;
  }

  private traffic(): Parameters<typeof nextTurn>[0] {
    const { heldUntilMs, silent, inFlight, lastSentMs } = this;
    return { quotas: this.quotas.values(), heldUntilMs, silent, inFlight, lastSentMs };
  }

  private depart(): Passage {
    this.sent += 1;
    this.inFlight += 1;
    this.lastSentMs = this.time.nowMs();
    const order = this.sent;
    return {
      arrived: (limits, holdMs) => {
        this.inFlight -= 1;
        if (limits !== undefined) this.learn(limits, holdMs, order);
        this.wakeFirst();
      },
    };
  }

  private learn({ quotas }: AnnouncedLimits, holdMs: number | undefined, order: number): void {
    const nowMs = this.time.nowMs();
    if (holdMs !== undefined) this.heldUntilMs = Math.max(this.heldUntilMs, nowMs + holdMs);
    this.forgetOver(nowMs);
    let paced = holdMs !== undefined;
    for (const quota of quotas) {
      // Without a time there is nothing to spread over.
      if (quota.resetAfterMs === undefined || quota.resetAfterMs === 0) continue;
      paced = true;
      this.note(quota, nowMs + quota.resetAfterMs, order);
    }
    this.silent = !paced;
  }

  private note(
    { policy, partitionKey, remaining, limit }: AnnouncedQuota,
    resetAtMs: number,
    order: number,
  ): void {
    const name = `${partitionKey ?? ''};${policy}`;
    const known = this.quotas.get(name);
    // Answers overtake each other: an older one counts only when it leaves less. So does a second word in the same answer.
    if (known !== undefined && known.order >= order && known.remaining <= remaining) return;
    if (known === undefined && this.quotas.size >= MAX_POLICIES) return;
    this.quotas.set(name, { remaining, limit, resetAtMs, order: Math.max(order, known?.order ?? 0) });
  }

  private forgetOver(nowMs: number): void {
    for (const [name, { resetAtMs }] of this.quotas) if (resetAtMs <= nowMs) this.quotas.delete(name);
  }

  /** In the order of arrival; whoever is sent again stands before those who came later. */
  private line(waiter: Waiter): void {
    const before = this.waiters.findLastIndex(({ visitor }) => visitor.arrival <= waiter.visitor.arrival);
    this.waiters.splice(before + 1, 0, waiter);
  }

  private wakeFirst(): void {
    this.waiters[0]?.nap.wake();
  }
}
