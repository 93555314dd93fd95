/** Who a request waits for. */
export type Awaited = 'client' | 'upstream' | 'reader';
/** Who took too long; `body` and `request` are the whole of it. */
export type Overdue = Awaited | 'body' | 'request';

/** The clocks of one request. A time of 0 is no limit. */
export class Patience {
  private readonly expired: (overdue: Overdue) => void;
  private awaited: Awaited | undefined;
  private timer: NodeJS.Timeout | undefined;
  private body: NodeJS.Timeout | undefined;
  private request: NodeJS.Timeout | undefined;

  constructor(expired: (overdue: Overdue) => void) {
    this.expired = expired;
  }

  /** From now on, or anew. */
  waitFor(awaited: Awaited, ms: number): void {
    if (this.awaited === awaited && this.timer !== undefined) {
      this.timer.refresh();
      return;
    }
    clearTimeout(this.timer);
    this.awaited = awaited;
    this.timer = ms > 0 ? setTimeout(this.expired, ms, awaited) : undefined;
  }

  waitForNobody(): void {
    clearTimeout(this.timer);
    this.timer = undefined;
    this.awaited = undefined;
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
