import { startCountdown, type Countdown, type CountdownListener } from './countdown.ts';

/** Who a request waits for. */
export type Awaited = 'client' | 'upstream' | 'reader';
/** Who took too long; `body` and `request` are the whole of it. */
export type Overdue = Awaited | 'body' | 'request';

/** The clocks of one request. A time of 0 is no limit. */
export class Patience implements CountdownListener {
  private readonly expired: (overdue: Overdue) => void;
  private awaited: Awaited | undefined;
  private countdown: Countdown | undefined;
  private body: NodeJS.Timeout | undefined;
  private request: NodeJS.Timeout | undefined;

  constructor(expired: (overdue: Overdue) => void) {
    this.expired = expired;
  }

  /** From now on, or anew. */
  waitFor(awaited: Awaited, ms: number): void {
    if (this.awaited === awaited && this.countdown !== undefined) {
      this.countdown.restart();
      return;
    }
    this.countdown?.cancel();
    this.awaited = awaited;
    this.countdown = ms > 0 ? startCountdown(ms, this) : undefined;
  }

  waitForNobody(): void {
    this.countdown?.cancel();
    this.countdown = undefined;
    this.awaited = undefined;
  }

  /** Whoever was awaited did nothing. */
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
