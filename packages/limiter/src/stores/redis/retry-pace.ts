/** How soon attempts follow each other at first, while it may have been an accident. */
const FIRST_PAUSE_MS = 50;
/** From then on, for as long as it takes. */
const STEADY_PAUSE_MS = 1000;

/** Exponential with full jitter, so that a fleet does not come back to a restarted server all at once. */
export class ReconnectPace {
  private attempts = 0;

  nextPauseMs(): number {
    this.attempts += 1;
    return FIRST_PAUSE_MS + Math.random() * Math.min(STEADY_PAUSE_MS, FIRST_PAUSE_MS * 2 ** this.attempts);
  }

  reset(): void {
    this.attempts = 0;
  }
}
