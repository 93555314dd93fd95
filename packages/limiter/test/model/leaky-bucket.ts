import { leakyBucket } from '../../src/policy.ts';
import { forwardUs, toleratedStepUs, type Definition } from './model.ts';
import { anySpanUs, compiledRate, DAY, MINUTE, MS, SECOND } from './policies.ts';
import {
  add,
  ceil,
  floor,
  isAtMost,
  larger,
  multiply,
  rational,
  subtract,
  type Rational,
} from './rational.ts';
import { subjectOf, type AlgorithmModel, type Subject } from './subject.ts';

interface QueueModelNumbers {
  readonly average: number;
  readonly periodUs: number;
  readonly maxDelayUs: number;
}

/** When the server has finished everything that was ever admitted. */
interface Queue {
  readonly idleAtUs: Rational;
}

/**
 * A queue in front of a server that takes `periodUs / average` for each unit. A request joins if its last
 * unit is served at most `maxDelayUs` from now, and waits until everything before it is done.
 */
function define({ average, periodUs, maxDelayUs }: QueueModelNumbers): Definition<Queue> {
  const interval = rational(periodUs, average);
  const maxDelay = rational(maxDelayUs);
  /** Of a queue that takes no more. */
  const longest = add(maxDelay, interval);
  const toleratedUs = toleratedStepUs(Number(ceil(longest)));
  const unitsIn = (span: Rational): bigint =>
    floor(rational(span.numerator * BigInt(average), span.denominator * BigInt(periodUs)));
  const waitUs = (queue: Queue | undefined, nowUs: number): Rational =>
    queue === undefined ? rational(0) : larger(rational(0), subtract(queue.idleAtUs, rational(nowUs)));

  return {
    limit: Number(unitsIn(maxDelay)) + 1,
    fits(queue, cost, nowUs) {
      const lastUnitWaits = add(waitUs(queue, nowUs), multiply(interval, BigInt(cost) - 1n));
      return isAtMost(lastUnitWaits, maxDelay);
    },
    available(queue, nowUs) {
      const left = subtract(maxDelay, waitUs(queue, nowUs));
      return left.numerator < 0n ? 0 : Number(unitsIn(left)) + 1;
    },
    delayUs: (queue, nowUs) => Number(ceil(waitUs(queue, nowUs))),
    admit(queue, cost, nowUs) {
      const startsAtUs = add(rational(nowUs), waitUs(queue, nowUs));
      return { idleAtUs: add(startsAtUs, multiply(interval, cost)) };
    },
    stepBack(queue, nowUs) {
      const isAhead = Number(floor(queue.idleAtUs) - ceil(longest)) - nowUs > toleratedUs;
      return isAhead ? { idleAtUs: add(rational(nowUs), longest) } : undefined;
    },
    horizonUs: (queue) => Number(ceil(queue.idleAtUs)),
    mostBetween: (fromUs, toUs) => unitsIn(rational(toUs - fromUs + maxDelayUs)) + 1n,
    mostAlong: (readingsUs) => unitsIn(rational(forwardUs(readingsUs) + maxDelayUs)) + 1n,
    toleratedUs,
  };
}

export const leakyBucketModel: AlgorithmModel = {
  awkward: () =>
    [
      [3, SECOND, SECOND],
      [7, MINUTE, 0],
      [1, 30 * DAY, 90 * DAY],
      [5_000_000, SECOND, SECOND],
      [3, SECOND, DAY],
      [7919, 999_983, 104_729],
      [1, 1, 1],
      [999_999_937, SECOND, 1000],
      [3, SECOND, 333_333],
      [3, SECOND, 333_334],
      [28, 1, 3650 * DAY],
    ].map(([average = 1, periodUs = 1, maxDelayUs = 0]) => subject(average, periodUs, maxDelayUs)),
  random: (random) =>
    subject(random.magnitude(1, 1e9), anySpanUs(random), random.chance(0.1) ? 0 : anySpanUs(random)),
};

function subject(average: number, periodUs: number, maxDelayUs: number): Subject {
  const numbers = { average, period: periodUs / MS, maxDelay: maxDelayUs / MS };
  const { plan } = leakyBucket({ name: 'p', ...numbers });
  const definition = define({
    ...compiledRate(plan.numbers, average, periodUs),
    maxDelayUs,
  });
  return subjectOf({
    numbers,
    algorithm: plan.algorithm,
    compiled: plan.numbers,
    definition,
    spanUs: maxDelayUs + Math.ceil(periodUs / average),
  });
}
