/** A timer that is later than this was held up by more than its own imprecision. */
const LATE_MS = 5;

/**
 * Acts on a timer that was due at `dueAtMs` of `performance.now()`, but after the I/O that is pending. A process that
 * was stopped, as by the garbage collector, runs its overdue timers before it reads its sockets, and an answer that has
 * arrived must not count as missing. A timer that is on time has nothing to wait for: everything that arrived before
 * has been read.
 */
export function afterPendingIo(dueAtMs: number, act: () => void): void {
  if (performance.now() - dueAtMs <= LATE_MS) act();
  // Edge runtimes may only have timers; one without delay also runs after the pending I/O.
  else if (typeof setImmediate === 'function') setImmediate(act);
  else setTimeout(act, 0);
}
