import { MAX_TIME_US } from './algorithms/algorithm.ts';
import { LimiterError, show } from './errors.ts';

/** Tells the time in whole microseconds since any fixed moment. */
export type Clock = () => number;

/**
 * The default clock: microseconds since 1970 at start-up, then a monotonic count, so that an operator or NTP who
 * sets the machine's time back or forth neither grants nor withholds anything.
 */
export const systemClock: Clock = () => ORIGIN_US + Math.floor(stopwatch.now() * 1000);

// Looked up once: on some runtimes the global is a getter that costs as much as the call.
const stopwatch = performance;
const ORIGIN_US = Math.floor(stopwatch.timeOrigin * 1000);

/** Measures how long something took: real milliseconds, whatever clock decides. */
export function stopwatchMs(): number {
  return stopwatch.now();
}

/** Reads a clock that the application may have injected. */
export function readClock(clock: Clock): number {
  const nowUs = clock();
  if (!Number.isInteger(nowUs) || nowUs < 0 || nowUs > MAX_TIME_US) {
    throw new LimiterError(
      'INVALID_CLOCK',
      `The clock returned ${show(nowUs)}; it has to return whole microseconds from 0 to ${MAX_TIME_US}, such as Date.now() * 1000.`,
    );
  }
  return nowUs;
}

/** When something came to be so: `ms` to measure from, which never steps back, and `iso` for people to read. */
export interface SinceWhen {
  /** By `performance.now()`. */
  readonly ms: number;
  /** By the system's clock, ISO 8601. */
  readonly iso: string;
}

export function sinceNow(): SinceWhen {
  return { ms: performance.now(), iso: new Date().toISOString() };
}
