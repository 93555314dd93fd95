// A lease is an interval of a bucket's virtual time: the tokens between `start` and `end` are charged in the store
// already, and whoever holds it may admit them alone. Positions are moments `us + fraction / drainUnits`, as in a
// bucket's state. docs/leases.md has the proof that no admission through leases is one too many.

import type { CompiledBucket } from '../../algorithms/bucket/bucket.ts';

/** A moment of virtual time, exact: `us + fraction / drainUnits` with 0 <= fraction < drainUnits. */
export interface VirtualMoment {
  readonly us: number;
  readonly fraction: number;
}

/** What the store granted: `tokens` tokens of virtual time that end at `end`. */
export interface LeaseGrant {
  readonly tokens: number;
  readonly end: VirtualMoment;
}

export class TokenLease {
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

  /** Tokens that could be spent at `latestUs`. */
  remaining(latestUs: number): number {
    this.passTo(latestUs);
    const { tokenUnits, drainUnits } = this.numbers;
    const units = (this.end.us - this.nextUs) * drainUnits + this.end.fraction - this.nextFraction;
    return units <= 0 ? 0 : Math.floor(units / tokenUnits);
  }

  private passTo(latestUs: number): void {
    if (this.nextUs >= latestUs) return;
    this.nextUs = latestUs;
    this.nextFraction = 0;
  }
}
