import type { AnyNumbers } from './algorithms/algorithm.ts';
import type { AlgorithmName, AnyAlgorithm } from './algorithms/index.ts';
import type { FailurePolicy } from './failure-policy.ts';

/** What a store needs to decide a Limit: the algorithm, its compiled numbers, and whose state it is. */
export interface Plan {
  readonly algorithm: AnyAlgorithm;
  readonly numbers: AnyNumbers;
  /** The largest cost that can ever be admitted. */
  readonly limit: number;
  /**
   * Policies with the same state id share the state of a key. It holds what the state's meaning depends on; numbers
   * that may change under a live state (a quota, a rate) are left out, so that a change carries the state over.
   */
  readonly stateId: string;
  /** Keys may share one state while a store is full only where this is the same. */
  readonly rateId: string;
}

export function planOf(algorithm: AnyAlgorithm, numbers: AnyNumbers, stateId: string): Plan {
  return { algorithm, numbers, limit: numbers.limit, stateId, rateId: algorithm.rateId(numbers) };
}

/** Whether a process may take tokens in advance: never, when a key is busy, or when in addition half of the burst is left. */
export type LeaseMode = boolean | 'auto';

/** A named promise: an algorithm and its numbers. `policy.for(key)` binds it to who is counted. */
export interface Policy<Numbers = unknown> {
  readonly name: string;
  readonly algorithm: AlgorithmName;
  /** The numbers as they were given. */
  readonly numbers: Numbers;
  /** The largest cost that can ever be admitted at once. */
  readonly limit: number;
  /** Who answers for this policy while the store cannot; undefined leaves it to the limiter. */
  readonly failurePolicy: FailurePolicy | undefined;
  /** Whether a process may hold tokens of a busy key and decide alone. */
  readonly leases: LeaseMode;
  /** @internal */
  readonly plan: Plan;
  /** This policy bound to one key. */
  for(key: string): Limit;
  /**
   * Gives one key other numbers from now on, or with `null` the policy's own again. What the key has spent so far
   * stays spent: a raised limit frees only the difference, a lowered one acts at once. Only a window of another length
   * or offset is counted separately, from nothing.
   */
  override(key: string, numbers: Partial<Numbers> | null): this;
  /** The same promise under the same name with other numbers. Both share what a key has spent, as with `override`. */
  with(numbers: Partial<Numbers>): Policy<Numbers>;
}

/** One Policy bound to one Key: what a check decides. Made by `policy.for(key)`. Its fields are declared only, as there is one per request. */
export class Limit {
  declare readonly policy: Policy;
  declare readonly key: string;
  /** The largest cost this limit can ever admit: the policy's, or the key's own where it has an override. */
  declare readonly limit: number;
  /** @internal The text under which stores keep the state. */
  declare readonly stateKey: string;
  /** @internal The policy's compiled numbers, or the key's own where it has an override. */
  declare readonly plan: Plan;

  constructor(policy: Policy, plan: Plan, key: string, stateKey: string) {
    this.policy = policy;
    this.key = key;
    this.limit = plan.limit;
    this.stateKey = stateKey;
    this.plan = plan;
  }

  /** @internal What most keys of the policy have: stores lay out their tables for it. */
  get usualPlan(): Plan {
    return this.policy.plan;
  }
}
