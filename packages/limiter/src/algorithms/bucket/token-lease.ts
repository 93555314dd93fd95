// A lease is an interval of a bucket's virtual time: the tokens between `start` and `end` are charged in the store
// already, and whoever holds it may admit them alone. Positions are moments `us + fraction / drainUnits`, as in a
// bucket's state. docs/leases.md has the proof that no admission through leases is one too many.

import { Outcome } from '../algorithm.ts';
import type { HeldLease, LeaseGrant, LeaseOperations, LeaseRest, VirtualMoment } from '../lease.ts';
import { decideBucket, type BucketState, type CompiledBucket } from './bucket.ts';

export class TokenLease implements HeldLease {
  readonly numbers: CompiledBucket;
  readonly tokens: number;
  readonly end: VirtualMoment;
  private nextUs: number;
  private nextFraction: number;

  constructor(numbers: CompiledBucket, { tokens, end }: LeaseGrant) {
    this.numbers = numbers;
    this.tokens = tokens;
    this.end = end;
    // The grant's units never exceed the bucket's capacity, so all of this stays below 2^53.
    const units = tokens * numbers.tokenUnits - end.fraction;
    const wholeUs = Math.ceil(units / numbers.drainUnits);
    this.nextUs = end.us - wholeUs;
    this.nextFraction = wholeUs * numbers.drainUnits - units;
  }

  /** Where the unused part begins. */
  get next(): VirtualMoment {
    return { us: this.nextUs, fraction: this.nextFraction };
  }

  get rest(): LeaseRest {
    return [this.nextUs, this.nextFraction, this.end.us, this.end.fraction];
  }

  /**
   * Admits `cost` if it still fits. `latestUs` is an upper bound of the store's clock: slots that the store may
   * consider past are gone, because the bucket has refilled them for everybody.
   */
  spend(cost: number, latestUs: number): boolean {
    this.passTo(latestUs);
    const { tokenUnits, drainUnits } = this.numbers;
    if (cost > this.numbers.limit) return false;
    const units = this.nextFraction + cost * tokenUnits;
    const wholeUs = Math.floor(units / drainUnits);
    const us = this.nextUs + wholeUs;
    const fraction = units - wholeUs * drainUnits;
    if (us > this.end.us || (us === this.end.us && fraction > this.end.fraction)) return false;
    this.nextUs = us;
    this.nextFraction = fraction;
    return true;
  }

  remaining(latestUs: number): number {
    this.passTo(latestUs);
    const { tokenUnits, drainUnits } = this.numbers;
    const units = (this.end.us - this.nextUs) * drainUnits + this.end.fraction - this.nextFraction;
    return units <= 0 ? 0 : Math.floor(units / tokenUnits);
  }

  returnable(latestUs: number): number {
    return this.remaining(latestUs);
  }

  handOut(tokens: number, latestUs: number): LeaseGrant | undefined {
    return this.spend(tokens, latestUs) ? { tokens, end: this.next } : undefined;
  }

  private passTo(latestUs: number): void {
    if (this.nextUs >= latestUs) return;
    this.nextUs = latestUs;
    this.nextFraction = 0;
  }
}

/** Twin of the leases of bucket.lua. */
export const BUCKET_LEASES: LeaseOperations<CompiledBucket, BucketState> = {
  passes: true,
  pace: ({ limit, drainUnits, tokenUnits }) => {
    const refillPerUs = drainUnits / tokenUnits;
    return { refillPerUs, longestUs: limit / (4 * refillPerUs) };
  },
  charge(state, numbers, tokens, nowUs) {
    const { spent } = decideBucket(state, numbers, tokens, nowUs, new Outcome());
    return spent && { spent, end: { us: spent.tatUs, fraction: spent.fraction } };
  },
  hold: (numbers, grant) => new TokenLease(numbers, grant),
  takeBack(state, { tokenUnits, drainUnits }, [nextUs, nextFraction, endUs, endFraction], nowUs) {
    if (state.tokenUnits !== tokenUnits || state.drainUnits !== drainUnits) return state;
    const next = { us: nextUs, fraction: nextFraction };
    return returnTail(state, { next, end: { us: endUs, fraction: endFraction } }, nowUs);
  },
};

/**
 * The state after a process gave back the unused end of its lease. Only exact while nothing was charged behind it: then
 * the bucket's debt still ends where the lease does, and it may as well end where the unused part begins.
 */
export function returnTail(
  state: BucketState,
  { next, end }: { readonly next: VirtualMoment; readonly end: VirtualMoment },
  nowUs: number,
): BucketState {
  if (state.tatUs !== end.us || state.fraction !== end.fraction) return state;
  if (next.us > end.us || (next.us === end.us && next.fraction >= end.fraction)) return state;
  if (next.us < nowUs) return { ...state, tatUs: nowUs, fraction: 0 };
  return { ...state, tatUs: next.us, fraction: next.fraction };
}
