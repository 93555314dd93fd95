// What the token bucket and the leaky bucket have in common besides deciding: how clients are told their rate, and how a
// state is kept.
import type { AdvertisedRate, RedisLayout, StatePacking } from '../algorithm.ts';
import type { BucketState, CompiledBucket } from './bucket.ts';

export function advertiseBucket(numbers: CompiledBucket): AdvertisedRate {
  const { limit, tokenUnits, drainUnits, capacityUnits } = numbers;
  return {
    refillUs: (limit * tokenUnits) / drainUnits,
    unitsIn: (spanUs) => (spanUs * drainUnits) / tokenUnits,
    afterFirstUnitUs: Math.floor((capacityUnits - tokenUnits) / drainUnits),
  };
}

/** A debt drains at a rate: a key with another rate would make it drain faster or slower for the others. */
export function bucketRateId({ tokenUnits, drainUnits }: CompiledBucket): string {
  return `${tokenUnits}/${drainUnits}`;
}

/** Nearly all keys of a policy have its own numbers; only a key with others keeps them with it. */
export function bucketPacking(numbers: CompiledBucket): StatePacking<BucketState> {
  const { tokenUnits, drainUnits, capacityUnits } = numbers;
  const read = { tatUs: 0, fraction: 0, tokenUnits, drainUnits, capacityUnits };
  return {
    cells: 2,
    fits: (state) =>
      state.tokenUnits === tokenUnits &&
      state.drainUnits === drainUnits &&
      state.capacityUnits === capacityUnits,
    read(cells, at) {
      read.tatUs = cells[at] ?? 0;
      read.fraction = cells[at + 1] ?? 0;
      return read;
    },
    write(cells, at, state) {
      cells[at] = state.tatUs;
      cells[at + 1] = state.fraction;
    },
  };
}

export const BUCKET_LAYOUT: Omit<RedisLayout<CompiledBucket, BucketState>, 'number'> = {
  numbers: { limit: 1, tokenUnits: 1, drainUnits: 1, capacityUnits: 0 },
  leastDoubles: 5,
  recordDoubles: 0,
  toDoubles: ({ tatUs, fraction, tokenUnits, drainUnits, capacityUnits }) => [
    tatUs,
    fraction,
    tokenUnits,
    drainUnits,
    capacityUnits,
  ],
  fromDoubles: ([tatUs = 0, fraction = 0, tokenUnits = 1, drainUnits = 1, capacityUnits = 1]) => ({
    tatUs,
    fraction,
    tokenUnits,
    drainUnits,
    capacityUnits,
  }),
};
