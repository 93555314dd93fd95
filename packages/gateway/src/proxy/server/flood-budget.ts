const MS_PER_S = 1000;

/** How much of something a client may do: so much at once, and then so much per second. */
export class FloodBudget {
  private readonly burst: number;
  private readonly perSecond: number;
  private left: number;
  private at: number;

  constructor(burst: number, perSecond: number, nowMs = performance.now()) {
    this.burst = burst;
    this.perSecond = perSecond;
    this.left = burst;
    this.at = nowMs;
  }

  /** False: that was one too many. The clock is looked at only when the burst is spent. */
  take(clock: () => number = now): boolean {
    if (this.left < 1) this.refill(clock());
    if (this.left < 1) return false;
    this.left -= 1;
    return true;
  }

  private refill(nowMs: number): void {
    this.left = Math.min(this.burst, this.left + ((nowMs - this.at) / MS_PER_S) * this.perSecond);
    this.at = nowMs;
  }
}

function now(): number {
  return performance.now();
}
