/** A timer that comes later than this was held up by more than its own imprecision. */
const LATE_MS = 5;

/**
 * Acts on a timer that was due at `dueAtMs` of `performance.now()`: when what has arrived in the meantime has been read.
 * A process that stood still, as it does for the garbage collector, finds its timers overdue before it looks at its
 * sockets, and an answer that is there must not count as missing. A timer that is on time has nothing to wait for: until then,
 * all that arrived has been read.
 */
export function afterArrivals(dueAtMs: number, act: () => void): void {
  if (performance.now() - dueAtMs <= LATE_MS) act();
  // Edge runtimes may only have timers; one without delay comes after what is already there, too.
  else if (typeof setImmediate === 'function') setImmediate(act);
  else setTimeout(act, 0);
}
