import { fixedWindow } from '../../src/policy.ts';
import { forwardUs, toleratedStepUs, type Definition } from './model.ts';
import { anySpanUs, DAY, HOUR, MINUTE, MS, SECOND } from './policies.ts';
import { subjectOf, type AlgorithmModel, type Subject } from './subject.ts';

interface FixedWindowModelNumbers {
  readonly quota: number;
  readonly windowUs: number;
  readonly offsetUs: number;
}

/** Every admission ever, newest first. Windows never step back, so `startUs` never grows down the list. */
interface WindowAdmission {
  readonly startUs: number;
  readonly cost: number;
  readonly earlier: WindowAdmission | undefined;
}

/**
 * Time is cut into windows that start at `offsetUs` plus whole multiples of `windowUs`; each holds `quota`.
 * A clock that steps back stays in the latest window that admitted something.
 */
function define({ quota, windowUs, offsetUs }: FixedWindowModelNumbers): Definition<WindowAdmission> {
  const startUs = (latest: WindowAdmission | undefined, nowUs: number): number => {
    const start = Math.floor((nowUs - offsetUs) / windowUs) * windowUs + offsetUs;
    return latest === undefined ? start : Math.max(start, latest.startUs);
  };
  const free = (latest: WindowAdmission | undefined, nowUs: number): number => {
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
    stepBack(latest, nowUs) {
      const currentUs = startUs(undefined, nowUs);
      if (latest.startUs - nowUs <= toleratedStepUs(windowUs)) return undefined;
      return { startUs: currentUs, cost: quota - free(latest, nowUs), earlier: undefined };
    },
    horizonUs: (latest) => latest.startUs + windowUs,
    mostBetween(fromUs, toUs) {
      const windows = (startUs(undefined, toUs) - startUs(undefined, fromUs)) / windowUs + 1;
      return BigInt(quota) * BigInt(windows);
    },
    mostAlong(readingsUs) {
      const starts = readingsUs.map((readingUs) => startUs(undefined, readingUs));
      return BigInt(quota) * BigInt(forwardUs(starts) / windowUs + 1);
    },
    toleratedUs: toleratedStepUs(windowUs),
  };
}

export const fixedWindowModel: AlgorithmModel = {
  awkward: () =>
    [
      [1, 1, 0],
      [3, SECOND, 0],
      [7, MINUTE, 59_999_999],
      [1, 30 * DAY, 4 * DAY],
      [1_000_000_000, DAY, 1],
      [104_729, 999_983, 7919],
      [2 ** 52, HOUR, 0],
    ].map(([quota = 1, windowUs = 1, offsetUs = 0]) => subject(quota, windowUs, offsetUs)),
  random(random) {
    const windowUs = anySpanUs(random);
    return subject(random.magnitude(1, 2 ** 52), windowUs, random.integer(0, windowUs - 1));
  },
};

function subject(quota: number, windowUs: number, offsetUs: number): Subject {
  const numbers = { quota, window: windowUs / MS, offset: offsetUs / MS };
  const { plan } = fixedWindow({ name: 'p', ...numbers });
  const definition = define({ quota, windowUs, offsetUs });
  return subjectOf({
    numbers,
    algorithm: plan.algorithm,
    compiled: plan.numbers,
    definition,
    spanUs: windowUs,
  });
}
