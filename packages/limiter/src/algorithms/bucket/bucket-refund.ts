import { MAX_TIME_US, type PastCharge } from '../algorithm.ts';
import type { BucketState, CompiledBucket } from './bucket.ts';

/** credit = max(0, cost * interval - elapsed), in units: a reservation held room back from everybody while it stood. */
export function refundBucket(
  state: BucketState,
  numbers: CompiledBucket,
  { cost, atUs }: PastCharge,
  nowUs: number,
): BucketState {
  const { tatUs, fraction, tokenUnits, drainUnits } = state;
  // A clock that stepped back may have emptied the bucket since: nobody can tell what is left of the reservation.
  if (nowUs < atUs) return state;
  // Written under other numbers since: what the reservation weighs now cannot be told.
  if (tokenUnits !== numbers.tokenUnits || drainUnits !== numbers.drainUnits) return state;
  const creditUnits = cost * tokenUnits - (nowUs - atUs) * drainUnits;
  if (creditUnits <= 0) return state;
  let creditUs = Math.floor(creditUnits / drainUnits);
  let leftFraction = fraction - (creditUnits - creditUs * drainUnits);
  if (leftFraction < 0) {
    creditUs += 1;
    leftFraction += drainUnits;
  }
  return { ...state, tatUs: tatUs - creditUs, fraction: leftFraction };
}

/** A bucket that holds `units` tokens more, or as many as can be counted exactly and drain within 142 years. */
export function loosenBucket(numbers: CompiledBucket, units: number): CompiledBucket {
  const { limit, tokenUnits, drainUnits, capacityUnits } = numbers;
  const mostUnits = Math.min(Number.MAX_SAFE_INTEGER - tokenUnits - drainUnits, MAX_TIME_US * drainUnits);
  const added = Math.min(units, Math.max(0, Math.floor((mostUnits - capacityUnits) / tokenUnits)));
  return { limit: limit + added, tokenUnits, drainUnits, capacityUnits: capacityUnits + added * tokenUnits };
}
