// A lease of a window: some of its units, charged in the store already, that one process may admit until a moment. For
// all that the store knows they were admitted when they were charged. That is allowed only as long as an admission at
// any time until then would have been charged no later, no longer and no less.
import type { Algorithm, AnyState } from './algorithm.ts';
import type { HeldLease, LeaseGrant, LeaseOperations, LeaseRest } from './lease.ts';
import type { CompiledWindow } from './window.ts';

class BlockLease implements HeldLease {
  readonly tokens: number;
  private readonly untilUs: number;
  private readonly grant: LeaseGrant;
  private unspent: number;

  constructor(grant: LeaseGrant, untilUs: number) {
    this.tokens = grant.tokens;
    this.grant = grant;
    this.untilUs = untilUs;
    this.unspent = grant.tokens;
  }

  get rest(): LeaseRest {
    return [this.unspent, 0, this.grant.end.us, 0];
  }

  spend(cost: number, latestUs: number): boolean {
    if (cost > this.remaining(latestUs)) return false;
    this.unspent -= cost;
    return true;
  }

  remaining(latestUs: number): number {
    return latestUs < this.untilUs ? this.unspent : 0;
  }

  returnable(): number {
    return this.unspent;
  }

  handOut(tokens: number, latestUs: number): LeaseGrant | undefined {
    return this.spend(tokens, latestUs) ? { tokens, end: this.grant.end } : undefined;
  }
}

export interface WindowLeaseParts<Numbers, State extends object> {
  /** How long before the limit is as if never used a lease ends. */
  readonly countsAfterUs: (numbers: Numbers) => number;
  /** The longest life of a lease. */
  readonly longestUs: (numbers: Numbers) => number;
  readonly charge: LeaseOperations<Numbers & CompiledWindow, State>['charge'];
  readonly refund: NonNullable<Algorithm<string, object, Numbers & CompiledWindow, State>['refund']>;
}

/** Twin of window-lease.lua. */
export function windowLeases<Numbers extends CompiledWindow, State extends object>({
  countsAfterUs,
  longestUs,
  charge,
  refund,
}: WindowLeaseParts<Numbers, State>): LeaseOperations<Numbers, State> {
  return {
    passes: false,
    pace: (numbers) => ({ refillPerUs: numbers.limit / numbers.windowUs, longestUs: longestUs(numbers) }),
    charge,
    hold: (numbers, grant) => new BlockLease(grant, grant.end.us - countsAfterUs(numbers)),
    takeBack: (state, numbers, [unspent, , absentAtUs], nowUs) =>
      unspent === 0 ? state : refund(state, numbers, { cost: unspent, atUs: nowUs, absentAtUs }, nowUs),
  };
}

/** Charges a lease to the window of now, as one admission. */
export function chargeWindow<Numbers extends CompiledWindow, State extends AnyState>(
  decide: Algorithm<string, object, Numbers, State>['decide'],
): LeaseOperations<Numbers, State>['charge'] {
  return (state, numbers, tokens, nowUs) => {
    const { spent, resetAfterUs } = decide(state, numbers, tokens, nowUs);
    return spent && { spent, end: { us: nowUs + resetAfterUs, fraction: 0 } };
  };
}
