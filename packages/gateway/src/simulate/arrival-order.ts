import type { LoggedRequest } from './logged-request.ts';

/** So many requests are held back, because logs list requests in the order in which they ended. */
const HELD = 20_000;
/** So many also where requests are short: what is out of order there was only written late. */
const HELD_LEAST = 1000;

/** Puts the requests of several logs in the order of their arrival, within bounded memory. */
export class ArrivalOrder {
  private readonly wholeSeconds: boolean;
  /** In the order of time. */
  private held: LoggedRequest[] = [];
  /** What came since. */
  private fresh: LoggedRequest[] = [];
  private lastMs = -Infinity;
  private lastEndMs = -Infinity;
  private longestMs = 0;
  private late = 0;

  /** Whether one of the logs only has whole seconds. */
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
    for (const request of requests) {
      const { atMs, endMs = atMs } = request;
      if (endMs > this.lastEndMs) this.lastEndMs = endMs;
      if (endMs - atMs > this.longestMs) this.longestMs = endMs - atMs;
      this.fresh.push(request);
    }
  }

  /** Those whose turn it is: no log will bring one that arrived before `untilMs`. */
  ready(untilMs: number): readonly LoggedRequest[] {
    if (this.held.length + this.fresh.length < 2 * HELD_LEAST) return NONE;
    this.sort();
    let count = Math.min(this.held.length - HELD_LEAST, this.settled(), this.arrivedBefore(untilMs));
    if (count <= 0) return NONE;
    // Requests of one second are spread over it, so they go together, unless that second fills the memory.
    const next = secondOf(this.held[count]);
    if (this.wholeSeconds && this.held.length < 4 * HELD) {
      while (count > 0 && secondOf(this.held[count - 1]) === next) count -= 1;
    }
    return this.take(count);
  }

  /** All that are left. */
  rest(): readonly LoggedRequest[] {
    this.sort();
    return this.take(this.held.length);
  }

  private sort(): void {
    const { fresh } = this;
    const [first] = fresh;
    if (first === undefined) return;
    this.fresh = [];
    sortByTime(fresh);
    // Of requests of the same time, those that came first stay first.
    const later = this.held.splice(this.arrivedUntil(fresh[0]?.atMs ?? first.atMs));
    let at = 0;
    for (const request of fresh) {
      for (let held = later[at]; held !== undefined && held.atMs <= request.atMs; held = later[at]) {
        this.held.push(held);
        at += 1;
      }
      this.held.push(request);
    }
    for (; at < later.length; at += 1) {
      const held = later[at];
      if (held !== undefined) this.held.push(held);
    }
  }

  private arrivedUntil(atMs: number): number {
    let count = this.held.length;
    while (count > 0 && (this.held[count - 1]?.atMs ?? -Infinity) > atMs) count -= 1;
    return count;
  }

  /** How many arrived so long ago that a request as long as any so far would have been written already. */
  private settled(): number {
    const { length } = this.held;
    return Math.max(length - HELD, this.arrivedBefore(this.lastEndMs - 2 * this.longestMs));
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

function sortByTime(requests: LoggedRequest[]): void {
  if (!isNearlySorted(requests)) requests.sort((one, other) => one.atMs - other.atMs);
}

/** So many places per request are gone through one by one. */
const MAX_STEPS = 32;

/** Puts in order what nearly is, as logs nearly are; false if that takes too long. */
function isNearlySorted(requests: LoggedRequest[]): boolean {
  let steps = MAX_STEPS * requests.length;
  for (const [from, request] of requests.entries()) {
    let at = from;
    for (
      let before = requests[at - 1];
      before !== undefined && before.atMs > request.atMs;
      before = requests[at - 1]
    ) {
      requests[at] = before;
      at -= 1;
    }
    requests[at] = request;
    steps -= from - at;
    if (steps < 0) return false;
  }
  return true;
}

const NONE: readonly LoggedRequest[] = [];
const SECOND_MS = 1000;

function secondOf(request: LoggedRequest | undefined): number {
  return Math.floor((request?.atMs ?? Infinity) / SECOND_MS);
}

/**
 * A log with whole seconds does not say when within one a request came: evenly is the best guess. Those of other logs
 * stay where they are.
 */
function spreadSeconds(requests: LoggedRequest[]): void {
  for (let from = 0; from < requests.length;) {
    const secondMs = requests[from]?.atMs;
    let to = from;
    let count = 0;
    for (; requests[to]?.atMs === secondMs; to += 1) if (isWholeSecond(requests[to])) count += 1;
    let place = 0;
    for (; from < to; from += 1) {
      const request = requests[from];
      if (request === undefined || !isWholeSecond(request)) continue;
      request.atMs += (SECOND_MS * place) / count;
      place += 1;
    }
  }
  sortByTime(requests);
}

function isWholeSecond(request: LoggedRequest | undefined): boolean {
  return request?.isRounded === true && request.atMs % SECOND_MS === 0;
}
