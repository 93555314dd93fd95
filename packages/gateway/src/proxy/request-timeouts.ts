import type { Delay } from 'spillgate/http';
import { startTimeout, type QueuedDeadline, type TimeoutListener } from 'spillgate/internal';

/** Who a request waits for. */
export type Awaited = 'client' | 'upstream';
/** Who took too long; `body` and `request` are the whole of it. */
export type Overdue = Awaited | 'body' | 'request';

/** The clocks of a request that is forwarded. A time of 0 is no limit. */
export class RequestTimeouts implements TimeoutListener {
  private readonly expired: (overdue: Overdue) => void;
  private awaited: Awaited | undefined;
  private countdown: QueuedDeadline | undefined;
  private body: NodeJS.Timeout | undefined;
  private request: NodeJS.Timeout | undefined;

  constructor(expired: (overdue: Overdue) => void) {
    this.expired = expired;
  }

  /** From now on, or again. */
  waitFor(awaited: Awaited, ms: number): void {
    if (this.awaited === awaited && this.countdown !== undefined) {
      this.countdown.restart();
      return;
    }
    this.countdown?.cancel();
    this.awaited = awaited;
    this.countdown = ms > 0 ? startTimeout(ms, this) : undefined;
  }

  waitForNobody(): void {
    this.countdown?.cancel();
    this.countdown = undefined;
    this.awaited = undefined;
  }

  /** The side that was awaited did nothing. */
  timeUp(): void {
    const { awaited } = this;
    this.countdown = undefined;
    if (awaited !== undefined) this.expired(awaited);
  }

  wholeRequest(ms: number): void {
    if (ms > 0) this.request = setTimeout(this.expired, ms, 'request');
  }

  wholeBody(ms: number): void {
    if (ms > 0) this.body = setTimeout(this.expired, ms, 'body');
  }

  bodyComplete(): void {
    clearTimeout(this.body);
  }

  end(): void {
    this.waitForNobody();
    clearTimeout(this.body);
    clearTimeout(this.request);
  }
}

/** The time that a request spends with the rules: until they have decided, and until its turn comes. */
export class RuleWait {
  private readonly startedAt: number;
  private readonly expired: () => void;
  private timer: NodeJS.Timeout | undefined;
  private turn: Delay | undefined;

  constructor(startedAt: number, expired: () => void) {
    this.startedAt = startedAt;
    this.expired = expired;
  }

  /** From the beginning of the request on; 0 is no limit. */
  atMost(ms: number): void {
    // Who waits for a turn already knows better.
    if (this.turn === undefined) this.limit(ms);
  }

  forTurn(turn: Delay, atMostMs: number): void {
    this.turn = turn;
    this.limit(atMostMs);
  }

  /** The wait is over, or pointless. */
  end(): void {
    clearTimeout(this.timer);
    this.turn?.cancel();
  }

  private limit(ms: number): void {
    clearTimeout(this.timer);
    if (ms === 0) return;
    const leftMs = this.startedAt + ms - performance.now();
    this.timer = setTimeout(() => this.expire(), Math.max(0, leftMs));
  }

  private expire(): void {
    this.expired();
    this.turn?.cancel();
  }
}

/** A slow start is forgiven: connections need a few round trips until they are fast. */
const SLOW_START_MS = 10_000;
const MS_PER_S = 1000;

/** Whether a client sends, or takes, fast enough for the time that it keeps us waiting. A rate of 0 is no limit. */
export class TransferRate {
  private readonly bytesPerS: number;
  private waitedMs = 0;
  private waitingSince: number | undefined;

  constructor(bytesPerS: number) {
    this.bytesPerS = bytesPerS;
  }

  wait(nowMs: number): void {
    this.waitingSince ??= nowMs;
  }

  /** Ends the wait; false if all that came so far is too little for all the time that was waited. */
  arrived(totalBytes: number, nowMs: number): boolean {
    if (this.waitingSince !== undefined) this.waitedMs += nowMs - this.waitingSince;
    this.waitingSince = undefined;
    if (this.bytesPerS === 0) return true;
    return this.waitedMs <= SLOW_START_MS + (totalBytes / this.bytesPerS) * MS_PER_S;
  }
}

/** While a client does not take its response, it is looked at so often within the time that it may take nothing. */
const LOOKS = 4;
const MAX_LOOK_MS = 5000;

export interface ReaderWatchOptions {
  /** How long it may take nothing. */
  readonly timeoutMs: number;
  /** What it has to take per second while it is waited for. 0: no limit. */
  readonly bytesPerS: number;
  /** Grows with every byte that it takes. */
  readonly taken: () => number;
  readonly tooSlow: () => void;
}

/**
 * Watches a client that does not take its response as fast as it comes. Only what it takes while it is waited for
 * counts: what the system has buffered before says nothing about it. A slow one is judged when something was taken,
 * because systems report that in large steps.
 */
export class ReaderWatch {
  private readonly options: ReaderWatchOptions;
  private readonly rate: TransferRate;
  private timer: NodeJS.Timeout | undefined;
  private seen = 0;
  private taken = 0;
  private quietSince = 0;

  constructor(options: ReaderWatchOptions) {
    this.options = options;
    this.rate = new TransferRate(options.bytesPerS);
  }

  /** From now on it is waited for. */
  stalled(): void {
    if (this.timer !== undefined) return;
    const nowMs = performance.now();
    this.seen = this.options.taken();
    this.quietSince = nowMs;
    this.rate.wait(nowMs);
    this.lookAgain();
  }

  /** It has taken everything. */
  goesOn(): void {
    if (this.timer === undefined) return;
    this.end();
    if (!this.isFastEnough(performance.now())) this.options.tooSlow();
  }

  end(): void {
    clearTimeout(this.timer);
    this.timer = undefined;
  }

  private lookAgain(): void {
    this.timer = setTimeout(this.look, Math.min(this.options.timeoutMs / LOOKS, MAX_LOOK_MS));
  }

  private readonly look = (): void => {
    const nowMs = performance.now();
    this.timer = undefined;
    if (!this.isFastEnough(nowMs)) {
      this.options.tooSlow();
      return;
    }
    this.rate.wait(nowMs);
    this.lookAgain();
  };

  private isFastEnough(nowMs: number): boolean {
    const { taken, timeoutMs } = this.options;
    const now = taken();
    if (now <= this.seen) return nowMs - this.quietSince < timeoutMs;
    this.taken += now - this.seen;
    this.seen = now;
    this.quietSince = nowMs;
    return this.rate.arrived(this.taken, nowMs);
  }
}
