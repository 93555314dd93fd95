import { readClock, type Clock } from '../../clock.ts';

/** When a store answered: by its own clock, and by this process's monotonic clock, which may show something else. */
export interface StoreMoment {
  readonly storeUs: number;
  /** When the question left: before the store read its clock. */
  readonly sentUs: number;
  /** When the answer came: after the store read its clock. */
  readonly heardUs: number;
}

/** A moment, and the clock that it was read from. */
export interface ClockReading extends StoreMoment {
  readonly clock: StoreClock;
}

/**
 * What a server's clock shows, by all that it has answered: one answer tells its time to within a round trip, and some
 * round trips are short.
 */
export class StoreClock {
  private tightest: StoreMoment | undefined;

  heard(moment: StoreMoment): ClockReading {
    const { tightest } = this;
    const { storeUs, heardUs } = moment;
    if (tightest === undefined) {
      this.tightest = moment;
    } else {
      const latestUs = latestStoreTimeUs(tightest, heardUs);
      // Later than it could be: the clock was set forward, or another server answers now.
      if (storeUs > latestUs || latestStoreTimeUs(moment, heardUs) <= latestUs) this.tightest = moment;
    }
    return { ...moment, clock: this };
  }

  /** The latest time that it can show now. */
  latestUs(nowUs: number): number {
    return this.tightest === undefined ? Infinity : latestStoreTimeUs(this.tightest, nowUs);
  }
}

/** How far clocks may run apart, per microsecond. Crystals stay within 100 ppm of the true time, each. */
const DRIFT = 200e-6;

/** The latest time that the store's clock can show now. */
export function latestStoreTimeUs({ storeUs, sentUs }: StoreMoment, nowUs: number): number {
  const elapsedUs = Math.max(0, nowUs - sentUs);
  return storeUs + elapsedUs + Math.ceil(elapsedUs * DRIFT) + 1;
}

/** How far apart the latest and the earliest time are: the round trip, and the drift since. */
export function clockBoundUs(moment: StoreMoment, nowUs: number): number {
  return latestStoreTimeUs(moment, nowUs) - earliestStoreTimeUs(moment, nowUs);
}

/** The earliest time that the store's clock can show now. */
export function earliestStoreTimeUs({ storeUs, heardUs }: StoreMoment, nowUs: number): number {
  const elapsedUs = Math.max(0, nowUs - heardUs);
  return storeUs + Math.max(0, elapsedUs - Math.ceil(elapsedUs * DRIFT) - 1);
}

/** This process's time: what elapses by it elapses by the store's clock. `ms`: what `performance.now()` says. */
export function localTimeUs(clock: Clock | undefined, ms: number): number {
  return clock === undefined ? Math.floor(ms * 1000) : readClock(clock);
}
