import { ALGORITHMS } from '../../src/algorithms/index.ts';
import { slidingWindowCounter } from '../../src/policy.ts';
import { forwardUs, toleratedStepUs, type Definition } from './model.ts';
import { anySpanUs, DAY, MINUTE, MS, numberIn, SECOND } from './policies.ts';
import { add, floor, isAtMost, rational, subtract, type Rational } from './rational.ts';
import { subjectOf, type AlgorithmModel, type Subject } from './subject.ts';

interface CounterModelNumbers {
  readonly quota: number;
  readonly windowUs: number;
  /** The clock moves in steps of this inside a window. */
  readonly tickUs: number;
}

/** Every admission ever, newest first. Windows never step back, so `index` never grows down the list. */
interface CountedAdmission {
  readonly index: number;
  readonly cost: number;
  readonly earlier: CountedAdmission | undefined;
}

/**
 * Time is cut into windows. What this window admitted, plus the share of the window before it that a span
 * of `windowUs` ending now still covers, is at most `quota`.
 */
function define({ quota, windowUs, tickUs }: CounterModelNumbers): Definition<CountedAdmission> {
  const indexAt = (latest: CountedAdmission | undefined, nowUs: number): number =>
    Math.max(Math.floor(nowUs / windowUs), latest?.index ?? 0);
  const free = (latest: CountedAdmission | undefined, nowUs: number): Rational => {
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
    stepBack(latest, nowUs) {
      const index = Math.floor(nowUs / windowUs);
      if (latest.index * windowUs - nowUs <= toleratedStepUs(windowUs)) return undefined;
      const { current, previous } = admittedAround(latest, latest.index);
      return { index, cost: Number(current + previous), earlier: undefined };
    },
    horizonUs: (latest) => (latest.index + 2) * windowUs,
    mostBetween(fromUs, toUs) {
      const faded = rational(BigInt(quota) * BigInt(toUs - fromUs), windowUs);
      return floor(add(rational(quota), faded));
    },
    mostAlong(readingsUs) {
      const faded = rational(BigInt(quota) * BigInt(forwardUs(readingsUs)), windowUs);
      return floor(add(rational(quota), faded));
    },
    toleratedUs: toleratedStepUs(windowUs),
  };
}

function admittedAround(
  latest: CountedAdmission | undefined,
  index: number,
): { current: bigint; previous: bigint } {
  let current = 0n;
  let previous = 0n;
  for (let each = latest; each !== undefined && each.index >= index - 1; each = each.earlier) {
    if (each.index === index) current += BigInt(each.cost);
    else previous += BigInt(each.cost);
  }
  return { current, previous };
}

export const slidingWindowCounterModel: AlgorithmModel = {
  awkward: () => [
    ...[
      [1, 1],
      [3, SECOND],
      [7, MINUTE],
      [1, 30 * DAY],
      [1_000_000, 30 * DAY],
      [104_729, 999_983],
      [2 ** 52, 1],
      [1_000_000_000, DAY],
      [1737, 30 * DAY],
    ].map(([quota = 1, windowUs = 1]) => subject(quota, windowUs)),
    subject(5, SECOND, 100_000),
    subject(997, SECOND, SECOND),
    subject(3, 1000, 10),
  ],
  random(random) {
    const windowUs = anySpanUs(random);
    const tickUs = random.pick([1, 10, 100, 1000]);
    if (random.chance(0.7) || windowUs % tickUs !== 0) {
      return subject(random.magnitude(1, 1e6), windowUs);
    }
    return subject(random.magnitude(1, 1000), windowUs, tickUs);
  },
};

/** Without `tickUs`, with the one the public function chooses. */
function subject(quota: number, windowUs: number, tickUs?: number): Subject {
  const numbers = { quota, window: windowUs / MS };
  const compiled = {
    limit: quota,
    windowUs,
    tickUs: tickUs ?? numberIn(slidingWindowCounter({ name: 'p', ...numbers }).plan.numbers, 'tickUs'),
  };
  const definition = define({ quota, windowUs, tickUs: compiled.tickUs });
  return subjectOf({
    numbers: compiled,
    algorithm: ALGORITHMS.slidingWindowCounter,
    compiled,
    definition,
    spanUs: 2 * windowUs,
  });
}
