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

export function bucketPacking(numbers: CompiledBucket): StatePacking<BucketState> {
  return new BucketPacking(numbers);
}

/** Nearly all keys of a policy have its own numbers; only a key with others keeps them with it. */
class BucketPacking implements StatePacking<BucketState> {
  readonly cells = 2;
  private readonly last: { -readonly [Field in keyof BucketState]: BucketState[Field] };

  constructor({ tokenUnits, drainUnits, capacityUnits }: CompiledBucket) {
    this.last = { tatUs: 0, fraction: 0, tokenUnits, drainUnits, capacityUnits };
  }

  fits(state: BucketState): boolean {
    const { last } = this;
    return (
      state.tokenUnits === last.tokenUnits &&
      state.drainUnits === last.drainUnits &&
      state.capacityUnits === last.capacityUnits
    );
  }

  read(cells: Float64Array, at: number): BucketState {
    const { last } = this;
    last.tatUs = cells[at] ?? 0;
    last.fraction = cells[at + 1] ?? 0;
    return last;
  }

  write(cells: Float64Array, at: number, state: BucketState): void {
    cells[at] = state.tatUs;
    cells[at + 1] = state.fraction;
  }
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
  // Nearly every state was written under the numbers that ask. (By place: taking a list apart by name is slower.)
  fromDoubles: (doubles, numbers) => ({
    tatUs: doubles[0] ?? 0,
    fraction: doubles[1] ?? 0,
    tokenUnits: doubles[2] ?? numbers.tokenUnits,
    drainUnits: doubles[3] ?? numbers.drainUnits,
    capacityUnits: doubles[4] ?? numbers.capacityUnits,
  }),
};
