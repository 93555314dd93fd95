import type { LoggedRequest } from './logged-request.ts';

/** So many requests are held back, because logs list requests in the order in which they ended. */
const HELD = 20_000;

/** Puts the requests of several logs in the order of their arrival, within bounded memory. */
export class ArrivalOrder {
  private readonly wholeSeconds: boolean;
  private held: LoggedRequest[] = [];
  private lastMs = -Infinity;
  private late = 0;

  constructor(wholeSeconds: boolean) {
    this.wholeSeconds = wholeSeconds;
  }

  /**
   * Requests that came so late in the log that others which arrived after them were decided already. They count as
   * arriving now.
   */
  get lateRequests(): number {
    return this.late;
  }

  add(requests: readonly LoggedRequest[]): void {
    for (const request of requests) this.held.push(request);
  }

  /** Those whose turn it is: no log will bring one that arrived before `untilMs`. */
  ready(untilMs: number): readonly LoggedRequest[] {
    if (this.held.length < 2 * HELD) return NONE;
    this.sort();
    let count = Math.min(this.held.length - HELD, this.arrivedBefore(untilMs));
    // Requests of one second are spread over it, so they go together, unless that second fills the memory.
    const next = this.held[count]?.atMs;
    if (this.wholeSeconds && this.held.length < 4 * HELD) {
      while (count > 0 && this.held[count - 1]?.atMs === next) count -= 1;
    }
    return this.take(count);
  }

  /** All that are left. */
  rest(): readonly LoggedRequest[] {
    this.sort();
    return this.take(this.held.length);
  }

  private sort(): void {
    this.held.sort((one, other) => one.atMs - other.atMs);
  }

  private arrivedBefore(untilMs: number): number {
    let [low, high] = [0, this.held.length];
    while (low < high) {
      const middle = (low + high) >>> 1;
      if ((this.held[middle]?.atMs ?? Infinity) < untilMs) low = middle + 1;
      else high = middle;
    }
    return low;
  }

  private take(count: number): readonly LoggedRequest[] {
    const taken = this.held.slice(0, count);
    this.held = this.held.slice(count);
    if (this.wholeSeconds) spreadSeconds(taken);
    for (const request of taken) {
      if (request.atMs < this.lastMs) {
        this.late += 1;
        request.atMs = this.lastMs;
      } else this.lastMs = request.atMs;
    }
    return taken;
  }
}

const NONE: readonly LoggedRequest[] = [];
const SECOND_MS = 1000;

/** A log with whole seconds does not say when within one a request came: evenly is the best guess. */
function spreadSeconds(requests: readonly LoggedRequest[]): void {
  for (let from = 0; from < requests.length;) {
    const secondMs = requests[from]?.atMs;
    let to = from + 1;
    while (requests[to]?.atMs === secondMs) to += 1;
    for (let at = from; at < to; at += 1) {
      const request = requests[at];
      if (request !== undefined) request.atMs += (SECOND_MS * (at - from)) / (to - from);
    }
    from = to;
  }
}
