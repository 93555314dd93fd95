import type { AnnouncedLimits, AnnouncedQuota } from './announced-limits.ts';
import { nextSendTime, type KnownQuota } from './send-time.ts';
import { WakeableSleep, type Sleep } from './sleep.ts';
import type { WaitSlot } from './wait-slots.ts';

/** A call that wants to send a request. */
export interface QueuedCall {
  /** The order in which calls were made: the first goes first, even when it is a retry. */
  readonly arrival: number;
  /** Never before that: the server said so to this very request. */
  readonly notBeforeMs: number;
  /** Later than that it goes in any case. */
  readonly deadlineMs: number;
  readonly signal: AbortSignal | undefined;
  readonly slot: WaitSlot;
}

/** A request on its way. */
export interface SentRequest {
  /** What its answer says, and for how long the server wants to hear nothing. Nothing at all when no answer came. */
  answered(limits: AnnouncedLimits | undefined, holdMs: number | undefined): void;
}

/** Decides when a request may be sent. */
export interface SendScheduler {
  /** Resolves when the request has to be sent, at once. Rejects with the reason of an aborted signal. */
  waitToSend(call: QueuedCall): Promise<SentRequest>;
}

export interface ClientTime {
  readonly nowMs: () => number;
  readonly sleep: Sleep;
}

/** Sends every request at once, except where the server said to wait. */
export class Unpaced implements SendScheduler {
  private readonly time: ClientTime;

  constructor(time: ClientTime) {
    this.time = time;
  }

  async waitToSend({ notBeforeMs, signal }: QueuedCall): Promise<SentRequest> {
    const waitMs = notBeforeMs - this.time.nowMs();
    if (waitMs > 0) await new WakeableSleep(this.time.sleep).take(waitMs, signal);
    return { answered: () => undefined };
  }
}

/** Policies that one partition may have; what a server names beyond that is not paced by. */
const MAX_POLICIES = 32;

interface PacedCall {
  readonly call: QueuedCall;
  sleep: WakeableSleep;
}

/** The requests of one partition: they go one after the other, when the server will have something left for them. */
export class Pacer implements SendScheduler {
  private readonly time: ClientTime;
  private readonly share: number;
  private readonly quotas = new Map<string, KnownQuota>();
  private readonly queue: PacedCall[] = [];
  private heldUntilMs = -Infinity;
  private silent = false;
  private inFlight = 0;
  private lastSentMs = -Infinity;
  private sent = 0;

  /** `share` is the part of a quota below which it is spread. */
  constructor(time: ClientTime, share: number) {
    this.time = time;
    this.share = share;
  }

  /** Nothing would be lost but what it has learned. */
  isIdle(): boolean {
    return this.inFlight === 0 && this.queue.length === 0;
  }

  async waitToSend(call: QueuedCall): Promise<SentRequest> {
    const pacedCall: PacedCall = { call, sleep: new WakeableSleep(this.time.sleep) };
    this.enqueue(pacedCall);
    try {
      // Without an await when it may go at once: a call made at the same moment then finds the queue empty.
      if (this.sendTimeOf(pacedCall, this.time.nowMs()) > this.time.nowMs())
        await this.sleepUntilSendTime(pacedCall);
      return this.send();
    } finally {
      this.queue.splice(this.queue.indexOf(pacedCall), 1);
      this.wakeFirst();
    }
  }

  private async sleepUntilSendTime(pacedCall: PacedCall): Promise<void> {
    const { signal, slot } = pacedCall.call;
    let nowMs = this.time.nowMs();
    for (;;) {
      const atMs = this.sendTimeOf(pacedCall, nowMs);
      if (atMs <= nowMs || !slot.take()) return;
      const timeHasCome = await pacedCall.sleep.take(atMs - nowMs, signal);
      pacedCall.sleep = new WakeableSleep(this.time.sleep);
      // What slept for a time is that much later, also by a clock that stands still.
      nowMs = timeHasCome ? Math.max(atMs, this.time.nowMs()) : this.time.nowMs();
    }
  }

  /**
   * When this call goes if nothing else happens. Only the first in the queue looks at the traffic; it is woken when
   * that changes.
   */
  private sendTimeOf(pacedCall: PacedCall, nowMs: number): number {
    const { notBeforeMs, deadlineMs } = pacedCall.call;
    if (this.queue[0] !== pacedCall) return deadlineMs;
    const { atMs, firm } = nextSendTime(this.traffic(), this.share, nowMs);
    // Waiting as long as it may would not help: it may as well be refused now.
    const usefulMs = firm && atMs > deadlineMs ? this.refusedSendMs(nowMs) : atMs;
    return Math.max(Math.min(usefulMs, deadlineMs), notBeforeMs);
  }

  /** Requests that will be refused still go one at a time, each after the answer of the one before. */
  private refusedSendMs(nowMs: number): number {
    const unknown = { ...this.traffic(), quotas: [], silent: false, heldUntilMs: -Infinity };
    return nextSendTime(unknown, this.share, nowMs).atMs;
  }

  private traffic(): Parameters<typeof nextSendTime>[0] {
    const { heldUntilMs, silent, inFlight, lastSentMs } = this;
    return { quotas: this.quotas.values(), heldUntilMs, silent, inFlight, lastSentMs };
  }

  private send(): SentRequest {
    this.sent += 1;
    this.inFlight += 1;
    this.lastSentMs = this.time.nowMs();
    const order = this.sent;
    return {
      answered: (limits, holdMs) => {
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
    // Answers overtake each other: an older one counts only when it leaves less. So does a second word in the same
    // answer.
    if (known !== undefined && known.order >= order && known.remaining <= remaining) return;
    if (known === undefined && this.quotas.size >= MAX_POLICIES) return;
    this.quotas.set(name, { remaining, limit, resetAtMs, order: Math.max(order, known?.order ?? 0) });
  }

  private forgetOver(nowMs: number): void {
    for (const [name, { resetAtMs }] of this.quotas) if (resetAtMs <= nowMs) this.quotas.delete(name);
  }

  /** In the order of arrival: a retry goes before calls that were made later. */
  private enqueue(pacedCall: PacedCall): void {
    const before = this.queue.findLastIndex(({ call }) => call.arrival <= pacedCall.call.arrival);
    this.queue.splice(before + 1, 0, pacedCall);
  }

  private wakeFirst(): void {
    this.queue[0]?.sleep.wake();
  }
}
