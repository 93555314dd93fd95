import type { Delay } from 'spillgate/http';

/** The time that a request spends at the gate: for its ruling, and for its turn. */
export class GateWait {
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
