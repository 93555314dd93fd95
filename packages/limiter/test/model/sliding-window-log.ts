import type { Definition } from './model.ts';

export interface SlidingWindowLogNumbers {
  readonly quota: number;
  readonly windowUs: number;
  /** Admissions are remembered at whole multiples of this, rounded up. */
  readonly stampUs: number;
}

/** Every admission ever, newest first. */
interface Admission {
  /** Never before an earlier admission's, even if the clock stepped back between the two. */
  readonly stampUs: number;
  /** The latest clock any admission so far was made at. */
  readonly seenUs: number;
  readonly cost: number;
  readonly earlier: Admission | undefined;
}

/**
 * Any span of `windowUs` that ends now, its oldest instant left out, holds at most `quota`. What an
 * admission already saw leave the span has left for good: a clock that steps back cannot bring it back.
 */
export function slidingWindowLog({
  quota,
  windowUs,
  stampUs,
}: SlidingWindowLogNumbers): Definition<Admission> {
  const free = (latest: Admission | undefined, nowUs: number): number => {
    const leftUs = Math.max(nowUs, latest?.seenUs ?? nowUs) - windowUs;
    let left = quota;
    for (let each = latest; each !== undefined && each.stampUs > leftUs; each = each.earlier)
      left -= each.cost;
    return left;
  };

  const stamp = (nowUs: number): number => Math.ceil(nowUs / stampUs) * stampUs;

  return {
    limit: quota,
    fits: (latest, cost, nowUs) => cost <= free(latest, nowUs),
    available: free,
    delayUs: () => 0,
    admit: (latest, cost, nowUs) => ({
      stampUs: Math.max(stamp(nowUs), latest?.stampUs ?? 0),
      seenUs: Math.max(nowUs, latest?.seenUs ?? 0),
      cost,
      earlier: latest,
    }),
    horizonUs: (latest) => latest.stampUs + windowUs,
    mostBetween(fromUs, toUs) {
      const windows = Math.floor((stamp(toUs) - stamp(fromUs)) / windowUs) + 1;
      return BigInt(quota) * BigInt(windows);
    },
  };
}
