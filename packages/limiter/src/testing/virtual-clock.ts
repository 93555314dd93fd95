import type { Clock } from '../clock.ts';
import { MAX_TIME_US } from '../algorithms/algorithm.ts';
import { parseDuration, type Duration } from '../duration.ts';
import { LimiterError, show } from '../errors.ts';

/** A clock that stands still until a test moves it. Hand it to `createLimiter({ clock })` or to a store. */
export interface VirtualClock extends Clock {
  /** Moves time forward: `clock.advance('1s')`, `clock.advance(decision.retryAfterMs)`. */
  advance(duration: Duration): void;
  /** Moves time to any moment in microseconds; backwards too, as a machine's clock may. */
  set(nowUs: number): void;
}

/** 2026-01-01T00:00:00Z: times in tests are as large as real ones. */
const START_US = 1_767_225_600_000_000;

/**
 * A virtual clock for tests: no sleeps, exact to the microsecond.
 *
 * @example
 * const clock = virtualClock();
 * const limiter = createLimiter({ clock });
 * const denied = await limiter.check(login.for('ann'), { cost: 5 });
 * clock.advance(denied.retryAfterMs);
 */
export function virtualClock(startUs: number = START_US): VirtualClock {
  let nowUs = requireTime(startUs);
  return Object.assign(() => nowUs, {
    advance(duration: Duration): void {
      nowUs = requireTime(
        nowUs + parseDuration(duration, { name: 'duration', minUs: 0, maxUs: MAX_TIME_US }),
      );
    },
    set(timeUs: number): void {
      nowUs = requireTime(timeUs);
    },
  });
}

function requireTime(timeUs: number): number {
  if (Number.isInteger(timeUs) && timeUs >= 0 && timeUs <= MAX_TIME_US) return timeUs;
  throw new LimiterError(
    'INVALID_CLOCK',
    `The virtual clock was set to ${show(timeUs)}; expected whole microseconds from 0 to ${MAX_TIME_US}.`,
  );
}
