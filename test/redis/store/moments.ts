import type { AnyNumbers, AnyState } from '#limiter/algorithms/algorithm.js';
import { T0, type AlgorithmCase } from '#limiter/algorithms/case.js';
import { ALGORITHMS } from '#limiter/algorithms/index.js';
import type { AlgorithmName } from 'spillgate';

/** Whatever numbers the algorithm of a moment has. */
type MomentNumbers = AnyNumbers & Readonly<Record<string, number>>;

/** A state and a request at the edge of a branch that ordinary traffic reaches once in a million times. */
interface Moment {
  readonly name: string;
  readonly algorithm: AlgorithmName;
  readonly numbers: MomentNumbers;
  readonly state: AnyState;
  readonly nowUs: number;
  readonly cost: number;
}

const ten: MomentNumbers = { limit: 10, tokenUnits: 100_000, drainUnits: 1, capacityUnits: 1_000_000 };
const one: MomentNumbers = { limit: 4, tokenUnits: 1_000_000, drainUnits: 1, capacityUnits: 4_000_000 };
const torrent: MomentNumbers = { limit: 1e9, tokenUnits: 1, drainUnits: 5, capacityUnits: 1e9 };
const faster: MomentNumbers = {
  limit: 100,
  tokenUnits: 1_000_000,
  drainUnits: 5_000_001,
  capacityUnits: 100_000_000,
};
/** Odd numbers of which the product passes 2^53: a third of a token cannot be converted exactly. */
const awkward: MomentNumbers = {
  limit: 1000,
  tokenUnits: 2_592_000_000_001,
  drainUnits: 9,
  capacityUnits: 2_592_000_000_001_000,
};
/** rest * tokenUnits + oldTokenUnits is 2^53 - 1. */
const LAST_EXACT = { rest: 8, tokenUnits: 1_125_899_906_833_945, oldTokenUnits: 69_431 };
const second = { limit: 3, windowUs: 1_000_000, tickUs: 1 };
const index = T0 / second.windowUs;

const MOMENTS: readonly Moment[] = [
  {
    name: 'a debt that exactly fills a slower bucket is carried over',
    algorithm: 'tokenBucket',
    numbers: one,
    state: { tatUs: T0 + 400_000, fraction: 0, tokenUnits: 100_000, drainUnits: 1, capacityUnits: 1_000_000 },
    nowUs: T0,
    cost: 1,
  },
  {
    name: 'a debt one microsecond above it is not',
    algorithm: 'tokenBucket',
    numbers: one,
    state: { tatUs: T0 + 400_001, fraction: 0, tokenUnits: 100_000, drainUnits: 1, capacityUnits: 1_000_000 },
    nowUs: T0,
    cost: 1,
  },
  {
    name: 'a debt that ends in this microsecond under another rate is no debt',
    algorithm: 'tokenBucket',
    numbers: one,
    state: { tatUs: T0, fraction: 0, tokenUnits: 100_000, drainUnits: 1, capacityUnits: 1_000_000 },
    nowUs: T0,
    cost: 4,
  },
  {
    name: 'nor when the request can never fit',
    algorithm: 'tokenBucket',
    numbers: one,
    state: { tatUs: T0, fraction: 0, tokenUnits: 100_000, drainUnits: 1, capacityUnits: 1_000_000 },
    nowUs: T0,
    cost: 5,
  },
  {
    name: 'a debt of more units than 2^53 under another rate',
    algorithm: 'tokenBucket',
    numbers: ten,
    state: { tatUs: T0 + 2 ** 51, fraction: 3, tokenUnits: 1, drainUnits: 5, capacityUnits: 5 * 2 ** 50 },
    nowUs: T0,
    cost: 1,
  },
  {
    name: 'an uncountable debt under a faster rate keeps its fraction',
    algorithm: 'leakyBucket',
    numbers: { ...torrent, drainUnits: 6 },
    state: { tatUs: T0 + 2 ** 51, fraction: 3, tokenUnits: 1, drainUnits: 5, capacityUnits: 5 * 2 ** 50 },
    nowUs: T0,
    cost: 0,
  },
  {
    name: 'an uncountable debt in coarse units is not counted in fine ones',
    algorithm: 'tokenBucket',
    numbers: { limit: 10, tokenUnits: 1, drainUnits: 6, capacityUnits: 10 },
    state: {
      tatUs: T0 + 2 ** 51,
      fraction: 3,
      tokenUnits: 1_000_000,
      drainUnits: 5,
      capacityUnits: 5 * 2 ** 50,
    },
    nowUs: T0,
    cost: 1,
  },
  {
    name: 'a look at a debt above a lowered burst',
    algorithm: 'leakyBucket',
    numbers: one,
    state: {
      tatUs: T0 + 1_000_000,
      fraction: 0,
      tokenUnits: 100_000,
      drainUnits: 1,
      capacityUnits: 1_000_000,
    },
    nowUs: T0,
    cost: 0,
  },
  {
    name: 'the same rate in other units is not slower',
    algorithm: 'tokenBucket',
    numbers: { ...ten, limit: 2, capacityUnits: 200_000 },
    state: { tatUs: T0 + 500_000, fraction: 1, tokenUnits: 200_000, drainUnits: 2, capacityUnits: 1_000_000 },
    nowUs: T0,
    cost: 1,
  },
  {
    name: 'a fraction of a token of which the sum is the last exact integer',
    algorithm: 'leakyBucket',
    numbers: {
      limit: 7,
      tokenUnits: LAST_EXACT.tokenUnits,
      drainUnits: 1,
      capacityUnits: 7 * LAST_EXACT.tokenUnits,
    },
    state: {
      tatUs: T0 + LAST_EXACT.rest,
      fraction: 0,
      tokenUnits: LAST_EXACT.oldTokenUnits,
      drainUnits: 1,
      capacityUnits: 10 * LAST_EXACT.oldTokenUnits,
    },
    nowUs: T0,
    cost: 1,
  },
  {
    name: 'a debt of more units than 2^53 under a faster rate',
    algorithm: 'leakyBucket',
    numbers: faster,
    state: {
      tatUs: T0 + 2_000_000_001,
      fraction: 2,
      tokenUnits: 1,
      drainUnits: 5,
      capacityUnits: 10_000_000_005,
    },
    nowUs: T0,
    cost: 1,
  },
  {
    name: 'a debt of more than 142 years',
    algorithm: 'leakyBucket',
    numbers: { limit: 10, tokenUnits: 9, drainUnits: 1, capacityUnits: 90 },
    state: { tatUs: 2 ** 53 - 1, fraction: 0, tokenUnits: 10, drainUnits: 1, capacityUnits: 2 ** 52 },
    nowUs: 1000,
    cost: 0,
  },
  {
    name: 'a fraction of a token that cannot be converted exactly is rounded up',
    algorithm: 'tokenBucket',
    numbers: awkward,
    state: { tatUs: T0 + 12_345, fraction: 0, tokenUnits: 777_777, drainUnits: 1, capacityUnits: 1_000_000 },
    nowUs: T0,
    cost: 2,
  },
  {
    name: 'a fraction of a token that can just be converted exactly',
    algorithm: 'tokenBucket',
    numbers: awkward,
    state: { tatUs: T0 + 3474, fraction: 0, tokenUnits: 777_777, drainUnits: 1, capacityUnits: 1_000_000 },
    nowUs: T0,
    cost: 2,
  },
  {
    name: 'a fraction of a token of which only the sum passes 2^53',
    algorithm: 'leakyBucket',
    numbers: { limit: 9, tokenUnits: 3_002_399_751_580_330, drainUnits: 1, capacityUnits: 2 ** 53 - 2 ** 51 },
    state: { tatUs: T0 + 3, fraction: 0, tokenUnits: 10, drainUnits: 1, capacityUnits: 1_000_000 },
    nowUs: T0,
    cost: 0,
  },
  {
    name: 'a torrent keeps fractions of a microsecond',
    algorithm: 'tokenBucket',
    numbers: torrent,
    state: { tatUs: T0, fraction: 4, tokenUnits: 1, drainUnits: 5, capacityUnits: 1_000_000 },
    nowUs: T0,
    cost: 3,
  },
  {
    name: 'running totals may reach 2^52',
    algorithm: 'slidingWindowLog',
    numbers: { limit: 2 ** 51, windowUs: 1_000_000, stampUs: 1 },
    state: [2 ** 52 - 20, T0, 2 ** 52 - 5],
    nowUs: T0 + 1,
    cost: 5,
  },
  {
    name: 'a full log of which several records have to leave',
    algorithm: 'slidingWindowLog',
    numbers: { limit: 6, windowUs: 1_000_000, stampUs: 1 },
    state: [5, T0, 6, T0 + 1, 8, T0 + 2, 9, T0 + 3, 11],
    nowUs: T0 + 500_000,
    cost: 3,
  },
  {
    name: 'the previous window outweighs the room by a part of a unit',
    algorithm: 'slidingWindowCounter',
    numbers: second,
    state: { index, current: 1, previous: 3 },
    nowUs: T0 + 333_333,
    cost: 1,
  },
  {
    name: 'nothing fits into less than no room',
    algorithm: 'slidingWindowCounter',
    numbers: second,
    state: { index, current: 1, previous: 3 },
    nowUs: T0 + 333_333,
    cost: 0,
  },
  {
    name: 'more units in a window than it has ticks',
    algorithm: 'slidingWindowCounter',
    numbers: { limit: 5000, windowUs: 1000, tickUs: 1 },
    state: { index: T0 / 1000, current: 1003, previous: 5000 },
    nowUs: T0 + 201,
    cost: 1,
  },
  {
    name: 'a fixed window reached by a clock that was ahead',
    algorithm: 'fixedWindow',
    numbers: { limit: 3, windowUs: 1_000_000, offsetUs: 999_999 },
    state: { startUs: T0 + 1_999_999, count: 2 },
    nowUs: T0 + 999_998,
    cost: 1,
  },
];

/** As cases, with the answer of the TypeScript twin. */
export const MOMENT_CASES: readonly (Pick<Moment, 'algorithm'> & {
  readonly case: AlgorithmCase<AnyNumbers, AnyState>;
})[] = MOMENTS.map(({ algorithm, ...moment }) => {
  const { numbers, state, cost, nowUs } = moment;
  const { carried: _carried, spent, ...answer } = ALGORITHMS[algorithm].decide(state, numbers, cost, nowUs);
  return { algorithm, case: { ...moment, expected: spent === undefined ? answer : { ...answer, spent } } };
});
