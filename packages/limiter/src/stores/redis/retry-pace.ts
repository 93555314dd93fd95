/** The first attempts follow each other quickly: mostly it was an accident, and the server is there. */
const FIRST_INTERVAL_MS = 50;
/** From then on, for as long as the outage lasts: little enough for any server, and soon enough after it. */
const STEADY_INTERVAL_MS = 1000;
/** A fleet that lost its server together must not come back to it together. */
const JITTER = 0.5;
/** What held for less long was no success. */
const MIN_SUCCESS_MS = 1000;

/**
 * The one rule for reconnects and probes. Attempts start 50 ms apart, then twice as far each time, and in a steady
 * outage 1 to 1.5 s; an attempt that takes longer than that is followed at once.
 */
export class RetryPace {
  private failures = 0;
  private startedAtMs = performance.now();
  private succeededAtMs: number | undefined;

  /** How long to wait before the next attempt, when one has failed or what it led to is over. */
  nextPauseMs(): number {
    const nowMs = performance.now();
    if (this.succeededAtMs !== undefined) {
      if (nowMs - this.succeededAtMs >= MIN_SUCCESS_MS) this.failures = 0;
      this.succeededAtMs = undefined;
    }
    // Nothing is due from the time before: what was running until now did not fail to start.
    const sinceStartMs = this.failures === 0 ? 0 : nowMs - this.startedAtMs;
    const intervalMs = Math.min(STEADY_INTERVAL_MS, FIRST_INTERVAL_MS * 2 ** this.failures);
    const pauseMs = Math.max(0, intervalMs * (1 + Math.random() * JITTER) - sinceStartMs);
    this.failures += 1;
    this.startedAtMs = nowMs + pauseMs;
    return pauseMs;
  }

  noteSuccess(): void {
    this.succeededAtMs = performance.now();
  }

  /** The next attempt is the first of a new row. */
  restart(): void {
    this.failures = 0;
  }
}
