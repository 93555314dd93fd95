import type { Plan } from '../limit.ts';

const SECOND_US = 1_000_000;

/** A policy as a client has to understand it: so many units in so many seconds. */
export interface AdvertisedQuota {
  readonly quota: number;
  readonly windowSeconds: number;
}

/**
 * The shortest whole number of seconds in which a used-up limit is as new, and what the policy admits in that time in
 * the long run. So `quota / windowSeconds` is the policy's rate, and `quota` is never below what may be left of it.
 */
export function advertisedQuota({ algorithm, limit, numbers }: Plan): AdvertisedQuota {
  const { refillUs, unitsIn } = algorithm.advertise(numbers);
  const windowSeconds = Math.ceil(refillUs / SECOND_US);
  return { quota: Math.max(limit, Math.floor(unitsIn(windowSeconds * SECOND_US))), windowSeconds };
}
