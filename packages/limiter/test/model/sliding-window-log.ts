import { ALGORITHMS } from '../../src/algorithms/index.ts';
import { slidingWindowLog } from '../../src/policy.ts';
import { forwardUs, toleratedStepUs, type Definition } from './model.ts';
import { anySpanUs, DAY, MINUTE, MS, numberIn, SECOND } from './policies.ts';
import { subjectOf, type AlgorithmModel, type Subject } from './subject.ts';

interface LogModelNumbers {
  readonly quota: number;
  readonly windowUs: number;
  /** Admissions are remembered at whole multiples of this, rounded up. */
  readonly stampUs: number;
}

/** Every admission ever, newest first. */
interface LoggedAdmission {
  /** Never before an earlier admission's, even if the clock stepped back between the two. */
  readonly stampUs: number;
  /** The latest clock any admission so far was made at. */
  readonly seenUs: number;
  readonly cost: number;
  readonly earlier: LoggedAdmission | undefined;
}

/**
 * Any span of `windowUs` that ends now, its oldest instant left out, holds at most `quota`. What an
 * admission already saw leave the span has left for good: a clock that steps back cannot bring it back.
 */
function define({ quota, windowUs, stampUs }: LogModelNumbers): Definition<LoggedAdmission> {
  const free = (latest: LoggedAdmission | undefined, nowUs: number): number => {
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
    stepBack(latest, nowUs) {
      if (latest.stampUs - nowUs <= toleratedStepUs(windowUs)) return undefined;
      return { stampUs: stamp(nowUs), seenUs: nowUs, cost: quota - free(latest, nowUs), earlier: undefined };
    },
    horizonUs: (latest) => latest.stampUs + windowUs,
    mostBetween(fromUs, toUs) {
      const windows = Math.floor((stamp(toUs) - stamp(fromUs)) / windowUs) + 1;
      return BigInt(quota) * BigInt(windows);
    },
    mostAlong: (readingsUs) =>
      BigInt(quota) * BigInt(Math.floor(forwardUs(readingsUs.map(stamp)) / windowUs) + 1),
    toleratedUs: toleratedStepUs(windowUs) - stampUs + 1,
  };
}

export const slidingWindowLogModel: AlgorithmModel = {
  awkward: () => [
    ...[
      [1, 1],
      [3, SECOND],
      [7, MINUTE],
      [1, 30 * DAY],
      [1000, 999_983],
      [1001, SECOND],
      [2 ** 52, DAY],
      [104_729, 999_983],
    ].map(([quota = 1, windowUs = 1]) => subject(quota, windowUs)),
    subject(5, SECOND, 10),
    subject(5, SECOND, SECOND),
    subject(3, 100, 7),
    subject(20, 1000, 1000),
  ],
  random(random) {
    const windowUs = anySpanUs(random);
    if (random.chance(0.7)) return subject(random.magnitude(1, 1e6), windowUs);
    return subject(random.magnitude(1, 100), windowUs, random.magnitude(1, windowUs));
  },
};

/** Without `stampUs`, with the one the public function chooses. */
function subject(quota: number, windowUs: number, stampUs?: number): Subject {
  const numbers = { quota, window: windowUs / MS };
  const compiled = {
    limit: quota,
    windowUs,
    stampUs: stampUs ?? numberIn(slidingWindowLog({ name: 'p', ...numbers }).plan.numbers, 'stampUs'),
  };
  const definition = define({ quota, windowUs, stampUs: compiled.stampUs });
  return subjectOf({
    numbers: compiled,
    algorithm: ALGORITHMS.slidingWindowLog,
    compiled,
    definition,
    spanUs: windowUs,
  });
}
