import type { Definition } from './model.ts';
import { add, floor, isAtMost, rational, subtract, type Rational } from './rational.ts';

export interface SlidingWindowCounterNumbers {
  readonly quota: number;
  readonly windowUs: number;
  /** The clock moves in steps of this inside a window. */
  readonly tickUs: number;
}

/** Every admission ever, newest first. Windows never step back, so `index` never grows down the list. */
interface Admission {
  readonly index: number;
  readonly cost: number;
  readonly earlier: Admission | undefined;
}

/**
 * Time is cut into windows. What this window admitted, plus the share of the window before it that a span
 * of `windowUs` ending now still covers, is at most `quota`.
 */
export function slidingWindowCounter({
  quota,
  windowUs,
  tickUs,
}: SlidingWindowCounterNumbers): Definition<Admission> {
  const indexAt = (latest: Admission | undefined, nowUs: number): number =>
    Math.max(Math.floor(nowUs / windowUs), latest?.index ?? 0);
  const free = (latest: Admission | undefined, nowUs: number): Rational => {
    const index = indexAt(latest, nowUs);
    const elapsedUs = Math.max(0, nowUs - index * windowUs);
    const coveredUs = windowUs - Math.floor(elapsedUs / tickUs) * tickUs;
    const { current, previous } = admittedAround(latest, index);
    const used = add(rational(current), rational(previous * BigInt(coveredUs), windowUs));
    return subtract(rational(quota), used);
  };

  return {
    limit: quota,
    fits: (latest, cost, nowUs) => isAtMost(rational(cost), free(latest, nowUs)),
    available: (latest, nowUs) => Math.max(0, Number(floor(free(latest, nowUs)))),
    delayUs: () => 0,
    admit: (latest, cost, nowUs) => ({ index: indexAt(latest, nowUs), cost, earlier: latest }),
    horizonUs: (latest) => (latest.index + 2) * windowUs,
    mostBetween(fromUs, toUs) {
      const faded = rational(BigInt(quota) * BigInt(toUs - fromUs), windowUs);
      return floor(add(rational(quota), faded));
    },
  };
}

function admittedAround(latest: Admission | undefined, index: number): { current: bigint; previous: bigint } {
  let current = 0n;
  let previous = 0n;
  for (let each = latest; each !== undefined && each.index >= index - 1; each = each.earlier) {
    if (each.index === index) current += BigInt(each.cost);
    else previous += BigInt(each.cost);
  }
  return { current, previous };
}
