import * as fc from 'fast-check';
import {
  fixedWindow,
  leakyBucket,
  slidingWindowCounter,
  slidingWindowLog,
  tokenBucket,
  type AlgorithmName,
  type Policy,
} from '../../src/index.ts';
import { add, rational, type Rational } from '../model/rational.ts';

/** From the first to the last admission of some, in microseconds. */
type Stretch = readonly [fromUs: number, toUs: number];

/** A policy, and the most that docs/redis.md says it admits while instances lose and find their store. */
export interface Promised {
  readonly policy: Policy;
  most(all: Stretch, local: Stretch | undefined, instances: number): Rational;
}

interface DrawnPromise {
  readonly algorithm: AlgorithmName;
  readonly draw: fc.Arbitrary<Promised>;
}

const count = fc.integer({ min: 1, max: 12 });
const spanUs = fc.integer({ min: 1, max: 5000 });

/** How much fits at once, and how much more in a stretch of time. */
interface Bound {
  readonly atOnce: Rational;
  readonly within: (stretch: Stretch) => Rational;
}

function promise(policy: Policy, whole: Bound, shares: (instances: number) => Bound): Promised {
  return {
    policy,
    most(all, local, instances) {
      const store = add(whole.atOnce, whole.within(all));
      if (local === undefined) return store;
      const { atOnce, within } = shares(instances);
      return add(store, add(atOnce, within(local)));
    },
  };
}

/** `amount` for every `perUs` that pass. */
function rate(amount: number, perUs: number): Bound['within'] {
  return ([fromUs, toUs]) => rational(BigInt(amount) * BigInt(toUs - fromUs), perUs);
}

/** `amount` again with every edge that `windows` counts. */
function perWindow(amount: number, windows: (stretch: Stretch) => number): Bound {
  return { atOnce: rational(amount), within: (stretch) => rational(amount * windows(stretch)) };
}

export const PROMISES: readonly DrawnPromise[] = [
  {
    algorithm: 'tokenBucket',
    draw: fc
      .record({ average: count, burst: count, periodUs: spanUs })
      .map(({ average, burst, periodUs }) => {
        const within = rate(average, periodUs);
        return promise(
          tokenBucket({ name: 'p', average, burst, period: periodUs / 1000 }),
          { atOnce: rational(burst), within },
          (instances) => ({ atOnce: rational(Math.max(burst, instances)), within }),
        );
      }),
  },
  {
    algorithm: 'leakyBucket',
    draw: fc
      .record({ average: count, periodUs: spanUs, maxDelayUs: fc.integer({ min: 0, max: 5000 }) })
      .map(({ average, periodUs, maxDelayUs }) => {
        const within = rate(average, periodUs);
        const queued = rational(average * maxDelayUs, periodUs);
        return promise(
          leakyBucket({ name: 'p', average, period: periodUs / 1000, maxDelay: maxDelayUs / 1000 }),
          { atOnce: add(queued, rational(1)), within },
          (instances) => ({ atOnce: add(queued, rational(instances)), within }),
        );
      }),
  },
  {
    algorithm: 'fixedWindow',
    draw: fc.record({ quota: count, windowUs: spanUs }).map(({ quota, windowUs }) => {
      const edges = ([fromUs, toUs]: Stretch): number =>
        Math.floor(toUs / windowUs) - Math.floor(fromUs / windowUs);
      return promise(
        fixedWindow({ name: 'p', quota, window: windowUs / 1000 }),
        perWindow(quota, edges),
        (instances) => perWindow(Math.max(quota, instances), edges),
      );
    }),
  },
  {
    algorithm: 'slidingWindowLog',
    draw: fc.record({ quota: count, windowUs: spanUs }).map(({ quota, windowUs }) => {
      const windows = ([fromUs, toUs]: Stretch): number => Math.floor((toUs - fromUs) / windowUs);
      return promise(
        slidingWindowLog({ name: 'p', quota, window: windowUs / 1000 }),
        perWindow(quota, windows),
        (instances) => perWindow(Math.max(quota, instances), windows),
      );
    }),
  },
  {
    algorithm: 'slidingWindowCounter',
    draw: fc.record({ quota: count, windowUs: spanUs }).map(({ quota, windowUs }) =>
      promise(
        slidingWindowCounter({ name: 'p', quota, window: windowUs / 1000 }),
        { atOnce: rational(quota), within: rate(quota, windowUs) },
        (instances) => {
          const shares = Math.max(quota, instances);
          return { atOnce: rational(shares), within: rate(shares, windowUs) };
        },
      ),
    ),
  },
];
