// What a process may hold of a limit in advance, and decide about alone. docs/leases.md has the proofs that no
// admission through leases is one too many.

/** A moment of virtual time, exact: `us + fraction / drainUnits` with 0 <= fraction < drainUnits. */
export interface VirtualMoment {
  readonly us: number;
  readonly fraction: number;
}

/** What the store granted: `tokens` units, charged already, and where they end. */
export interface LeaseGrant {
  readonly tokens: number;
  /** Of a bucket, the end of their virtual time; of a window, when the limit is as if never used. */
  readonly end: VirtualMoment;
}

/** What is left of a lease, in the four numbers by which its algorithm takes it back. */
export type LeaseRest = readonly [number, number, number, number];

/** A lease in the hands of a process. `latestUs` is an upper bound of the store's clock. */
export interface HeldLease {
  readonly tokens: number;
  /** Admits `cost` if it still fits. */
  spend(cost: number, latestUs: number): boolean;
  /** Units that could be spent at `latestUs`. */
  remaining(latestUs: number): number;
  /** Units that can be given back: more than remain where they do not pass by themselves. */
  returnable(latestUs: number): number;
  /** Hands some of them to somebody else: a piece of a lease is a lease. */
  handOut(tokens: number, latestUs: number): LeaseGrant | undefined;
  readonly rest: LeaseRest;
}

export interface LeasePace {
  /** What comes back per microsecond in the long run. */
  readonly refillPerUs: number;
  /** A lease that lasts longer costs others too much. */
  readonly longestUs: number;
}

export interface ChargedLease<State> {
  readonly spent: State;
  readonly end: VirtualMoment;
}

/** How a process leases units of an algorithm. (Methods for the same reason as in `Algorithm`.) */
export interface LeaseOperations<Numbers extends object, State extends object> {
  /**
   * Whether units are moments that pass as time does, used or not. Otherwise they stay charged: what is not used is
   * given back, whatever else was charged since.
   */
  readonly passes: boolean;
  pace(numbers: Numbers): LeasePace;
  /** The state with so many units charged; undefined where they do not fit. */
  charge(
    state: State | undefined,
    numbers: Numbers,
    tokens: number,
    nowUs: number,
  ): ChargedLease<State> | undefined;
  hold(numbers: Numbers, grant: LeaseGrant): HeldLease;
  /** The state after the rest of a lease was given back; the same one where it cannot be. */
  takeBack(state: State, numbers: Numbers, rest: LeaseRest, nowUs: number): State;
}
