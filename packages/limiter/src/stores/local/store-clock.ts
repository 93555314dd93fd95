/** When a store answered: by its own clock, and by this process's monotonic clock, which may show something else. */
export interface StoreMoment {
  readonly storeUs: number;
  /** When the question left: before the store read its clock. */
  readonly sentUs: number;
  /** When the answer came: after the store read its clock. */
  readonly heardUs: number;
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
