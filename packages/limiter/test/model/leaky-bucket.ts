import type { Definition } from './model.ts';
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

export interface LeakyBucketNumbers {
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
export function leakyBucket({ average, periodUs, maxDelayUs }: LeakyBucketNumbers): Definition<Queue> {
  const interval = rational(periodUs, average);
  const maxDelay = rational(maxDelayUs);
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
    horizonUs: (queue) => Number(ceil(queue.idleAtUs)),
    mostBetween: (fromUs, toUs) => unitsIn(rational(toUs - fromUs + maxDelayUs)) + 1n,
  };
}
