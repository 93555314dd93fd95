import type { LimiterError } from '../errors.ts';
import type { Limit } from '../limit.ts';

/** A store's answer for one Limit, in whole microseconds. See `Outcome` for the exact meaning of each number. */
export interface StoreVerdict {
  readonly allowed: boolean;
  readonly remaining: number;
  /** 0 when allowed, -1 when the cost can never fit. */
  readonly retryAfterUs: number;
  readonly resetAfterUs: number;
  readonly delayUs: number;
  /** True when the store was full and the key was counted together with other new keys. */
  readonly overflow?: boolean;
  /** How long the key stays blocked because of its denials; 0 or left out where it is not. */
  readonly penaltyLeftUs?: number;
  /** True for the denial that began the block. */
  readonly penaltyBegan?: boolean;
  /** How the store knew without asking a server. */
  readonly local?: 'lease' | 'denialCache' | 'block';
}

export interface NodeHealth {
  readonly name: string;
  readonly status: 'up' | 'degraded' | 'down';
  /** What an operator should know about it, in one sentence. */
  readonly detail: string;
  /** When it came to be so, as an ISO 8601 time, where the store knows. */
  readonly since?: string | undefined;
  /** The message of the latest failure, kept after recovery. */
  readonly lastError?: string | undefined;
}

export interface StoreHealth {
  readonly status: 'up' | 'degraded' | 'down';
  readonly nodes: readonly NodeHealth[];
}

/** What a store that reaches over a network has done so far, and what this process holds of it. */
export interface StoreStatistics {
  /** Calls to servers that decided, leased or gave back. Several decisions may share one, and many need none. */
  readonly calls: number;
  readonly leases: LeaseStatistics;
}

/** Tokens that this process may hand out alone, and what became of them. */
export interface LeaseStatistics {
  readonly granted: number;
  /** Given back to the store. */
  readonly returned: number;
  /** Passed unused, or lost with an answer. */
  readonly expired: number;
  /** Held now. */
  readonly outstanding: number;
  /**
   * How much later than the store's clock the time may be by which leases are decided: the round trip, and the drift
   * since.
   */
  readonly clockBoundUs: number;
  /** The most by which the store's clock was ever found ahead of that time: 0 unless it jumped. */
  readonly clockErrorUs: number;
}

/** What happens inside a store that reaches over a network. */
export type StoreEvent =
  | { readonly type: 'nodeDown'; readonly node: string; readonly error: LimiterError }
  | { readonly type: 'nodeUp'; readonly node: string; readonly afterMs: number }
  /** A server that was down is none of the store's any more: another one has its place. */
  | { readonly type: 'nodeGone'; readonly node: string; readonly afterMs: number }
  | { readonly type: 'scriptReloaded'; readonly node: string }
  /** A check was charged after the failure policy had answered it. `refunded`: it got back what it had spent. */
  | { readonly type: 'lateCharge'; readonly refunded: boolean }
  | { readonly type: 'warning'; readonly node: string; readonly message: string };

export type StoreObserver = (event: StoreEvent) => void;

/** The caller that waits for an answer, and until when. */
export interface Caller {
  /**
   * Nobody waits any more: what has not been decided yet need not be, and must not be charged. `nowMs`:
   * `performance.now()`.
   */
  gaveUp(nowMs: number): boolean;
  /**
   * Stops the deadline of the caller until `resumeDeadline()`; then it starts again. For what is bounded by another
   * time.
   */
  pauseDeadline(): void;
  resumeDeadline(): void;
  /** Final, as opposed to `gaveUp`: somebody else has answered the caller. What it was charged is to be given back. */
  readonly isGone: boolean;
}

/** How long a store remembers that a reservation was settled. */
export const SETTLEMENT_REMEMBERED_MS = 600_000;

/** What an admitted reservation charged to one limit. */
export interface ReservedCharge {
  readonly limit: Limit;
  readonly cost: number;
  readonly atUs: number;
  /** When the limit was to be as if never used, right after the charge. */
  readonly absentAtUs: number;
  /**
   * Where the charge ends in the virtual time of a bucket that hands out moments: a queue, or one with leases. Only
   * what nobody stands behind can be given back there.
   */
  readonly end?: { readonly us: number; readonly fraction: number } | undefined;
  /** Charged to a state that other keys share: nothing can be given back. */
  readonly isShared?: boolean | undefined;
}

/** What settling changes about one limit: either parts are given back, the latest first, or more is charged. */
export interface Adjustment {
  readonly limit: Limit;
  readonly refunds: readonly ReservedCharge[];
  readonly debt: number;
  /** Afterwards nothing is given back. */
  readonly expiresAtUs: number;
}

export interface AdjustedLimit {
  /** How much of the debt was charged: what would be above the policy's `maxDebt` is not. */
  readonly charged: number;
  readonly expired: boolean;
}

/**
 * Decides a batch of Limits atomically: every limit is charged or none is. A store rejects (or throws, in the
 * synchronous methods) only when it could not decide; a denial is a verdict. The limiter has checked the arguments: the
 * cost is an integer from 0 to 2^53 - 1, and there are 1 to 32 limits without repetition.
 */
export interface Store {
  /** True of a store that keeps denials and blocks for policies with `block`; others cannot decide about these. */
  readonly keepsPenalties?: boolean;
  /**
   * Decides and spends. Verdicts come in the order of the limits. A store whose checks wait in a queue asks `caller`
   * before it sends one.
   */
  check(limits: readonly Limit[], cost: number, caller?: Caller): Promise<readonly StoreVerdict[]>;
  /**
   * `check` for a reservation: an admitted one is told to `onCharge`, limit by limit, so that it can be settled. A
   * store without it cannot reserve.
   */
  reserve?(
    limits: readonly Limit[],
    cost: number,
    onCharge: (charge: ReservedCharge) => void,
    caller?: Caller,
  ): Promise<readonly StoreVerdict[]>;
  /**
   * Gives back, or charges, what a reservation differs from what was used; answers in the order of the adjustments. The
   * same id never changes anything twice.
   */
  settle?(id: string, adjustments: readonly Adjustment[], caller?: Caller): Promise<readonly AdjustedLimit[]>;
  /** Decides and writes nothing. */
  peek(limits: readonly Limit[], cost: number, caller?: Caller): Promise<readonly StoreVerdict[]>;
  /** Drops the state of these limits: they are as if never used. */
  forget(limits: readonly Limit[], caller?: Caller): Promise<void>;
  /**
   * Frees the slots of these limits, which `limiter.acquire()` took with `check`; one that is not held stays so. A
   * store that leaves it out cannot be used for concurrency.
   */
  release?(limits: readonly Limit[], caller?: Caller): Promise<void>;
  /** `check` where the store knows the answer by itself, at once; undefined where it does not. */
  checkLocally?(limits: readonly Limit[], cost: number): readonly StoreVerdict[] | undefined;
  health(): Promise<StoreHealth>;
  /**
   * The servers that decide about these limits now, without limits all that decide, by their names in `health()`. A
   * store without servers leaves it out.
   */
  servers?(limits?: readonly Limit[]): readonly string[];
  close(): Promise<void>;
  /** A limiter that uses the store says for how long it waits. */
  expectDeadline?(deadlineMs: number): void;
  /**
   * Calls the observer for everything that happens inside, from now on. A store to which nothing happens leaves it out.
   */
  observe?(observer: StoreObserver): void;
  /** Left out by a store that asks nobody. */
  statistics?(): StoreStatistics;
}

/**
 * A store that needs nobody else to decide, and so can answer at once. Read the verdicts before the next call: a store
 * may reuse them.
 */
export interface SyncStore extends Store {
  checkSync(limits: readonly Limit[], cost: number): readonly StoreVerdict[];
  peekSync(limits: readonly Limit[], cost: number): readonly StoreVerdict[];
  forgetSync(limits: readonly Limit[]): void;
  releaseSync?(limits: readonly Limit[]): void;
}

export function isSyncStore(store: Store): store is SyncStore {
  return 'checkSync' in store;
}
