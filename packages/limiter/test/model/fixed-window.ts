import type { Definition } from './model.ts';

export interface FixedWindowNumbers {
  readonly quota: number;
  readonly windowUs: number;
  readonly offsetUs: number;
}

/** Every admission ever, newest first. Windows never step back, so `startUs` never grows down the list. */
interface Admission {
  readonly startUs: number;
  readonly cost: number;
  readonly earlier: Admission | undefined;
}

/**
 * Time is cut into windows that start at `offsetUs` plus whole multiples of `windowUs`; each holds `quota`.
 * A clock that steps back stays in the latest window that admitted something.
 */
export function fixedWindow({ quota, windowUs, offsetUs }: FixedWindowNumbers): Definition<Admission> {
  const startUs = (latest: Admission | undefined, nowUs: number): number => {
    const start = Math.floor((nowUs - offsetUs) / windowUs) * windowUs + offsetUs;
    return latest === undefined ? start : Math.max(start, latest.startUs);
  };
  const free = (latest: Admission | undefined, nowUs: number): number => {
    const currentUs = startUs(latest, nowUs);
    let left = quota;
    for (let each = latest; each?.startUs === currentUs; each = each.earlier) left -= each.cost;
    return left;
  };

  return {
    limit: quota,
    fits: (latest, cost, nowUs) => cost <= free(latest, nowUs),
    available: free,
    delayUs: () => 0,
    admit: (latest, cost, nowUs) => ({ startUs: startUs(latest, nowUs), cost, earlier: latest }),
    horizonUs: (latest) => latest.startUs + windowUs,
    mostBetween(fromUs, toUs) {
      const windows = (startUs(undefined, toUs) - startUs(undefined, fromUs)) / windowUs + 1;
      return BigInt(quota) * BigInt(windows);
    },
  };
}
