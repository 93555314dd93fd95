import type { AnyNumbers } from './algorithms/algorithm.ts';
import type { AlgorithmName, AnyAlgorithm } from './algorithms/index.ts';
import type { PenaltyNumbers } from './algorithms/penalty/penalty.ts';
import { LimiterError, show } from './errors.ts';
import type { FailurePolicy } from './failure-policy.ts';
import { sha256Hex } from './sha256.ts';

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
  /** Until then every cost is denied, by the limiter's clock; undefined: nobody blocked the key. */
  readonly blockedUntilUs: number | undefined;
  /** When the key is blocked by its own denials; undefined: never. */
  readonly penalty: PenaltyNumbers | undefined;
}

export function planOf(
  algorithm: AnyAlgorithm,
  numbers: AnyNumbers,
  stateId: string,
  penalty?: PenaltyNumbers,
): Plan {
  const { limit } = numbers;
  const rateId = algorithm.rateId(numbers);
  return { algorithm, numbers, limit, stateId, rateId, blockedUntilUs: undefined, penalty };
}

/**
 * Whether a process may take tokens in advance: never, when a key is busy, or when in addition half of the burst is
 * left.
 */
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
  /** How far `settle` may charge a key above its limit; undefined is as far as its limit goes. */
  readonly maxDebt: number | undefined;
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
  /**
   * Denies everything to one key until the given moment (milliseconds since 1970, or `Infinity`), or with `null` no
   * longer. No store is asked, and nothing is spent.
   */
  block(key: string, untilMs: number | null): this;
  /**
   * The same promise under the same name with other numbers. Both share what a key has spent, as with `override`, and a
   * key that is blocked here is blocked there.
   */
  with(numbers: Partial<Numbers>): Policy<Numbers>;
}

/**
 * One Policy bound to one Key: what a check decides. Made by `policy.for(key)`. Its fields are declared only, as there
 * is one per request.
 */
export class Limit {
  declare readonly policy: Policy;
  declare readonly key: string;
  /** What a call costs here, whatever it costs elsewhere; undefined where it costs the same. See {@link withCost}. */
  declare readonly cost: number | undefined;
  /** The largest cost this limit can ever admit: the policy's, or the key's own where it has an override. */
  declare readonly limit: number;
  /** @internal The text under which stores keep the state. */
  declare readonly stateKey: string;
  /** @internal The policy's compiled numbers, or the key's own where it has an override. */
  declare readonly plan: Plan;

  constructor(policy: Policy, plan: Plan, key: string, stateKey: string) {
    this.policy = policy;
    this.key = key;
    this.cost = undefined;
    this.limit = plan.limit;
    this.stateKey = stateKey;
    this.plan = plan;
  }

  /**
   * The same limit at a cost of its own: a call that spends 500 tokens is still one request. A call that costs 0 costs
   * nothing here either.
   *
   * @example
   * await limiter.check([requests.for(user).withCost(1), tokens.for(user)], { cost: 500 });
   */
  withCost(cost: number): Limit {
    if (!Number.isSafeInteger(cost) || cost < 1) {
      throw new LimiterError(
        'INVALID_COST',
        `The cost of a limit is ${show(cost)}; expected an integer from 1 to ${Number.MAX_SAFE_INTEGER}: leave the limit out where nothing is spent.`,
      );
    }
    return Object.assign(new Limit(this.policy, this.plan, this.key, this.stateKey), { cost });
  }

  /** @internal What most keys of the policy have: stores lay out their tables for it. */
  get usualPlan(): Plan {
    return this.policy.plan;
  }
}

/** Longer keys are kept as a hash, so that no client decides how much memory one key takes. */
export const MAX_PLAIN_KEY_LENGTH = 128;
export const MAX_KEY_LENGTH: number = 2 ** 20;

const HASH_MARK = '~';
const HASH_MARK_CODE = HASH_MARK.charCodeAt(0);

/**
 * The text under which a store keeps the state of a key: the key itself when it is short, else `~` and its SHA-256.
 * Short keys that start with `~` are hashed too, so nobody can spell the hash of someone else's long key.
 */
export function toStateKey(key: string): string {
  if (typeof key !== 'string') {
    throw new LimiterError(
      'INVALID_KEY',
      `The key is ${show(key)}; it has to be a string: convert ids with String(id).`,
    );
  }
  if (key.length === 0) {
    throw new LimiterError(
      'INVALID_KEY',
      "The key is empty (''); a key has 1 to 1048576 characters. Decide what a missing value means first: '' would be one bucket for all of them.",
    );
  }
  if (key.length <= MAX_PLAIN_KEY_LENGTH && key.charCodeAt(0) !== HASH_MARK_CODE) return key;
  if (key.length > MAX_KEY_LENGTH) {
    throw new LimiterError(
      'INVALID_KEY',
      `The key is ${show(key)}; at most ${MAX_KEY_LENGTH} characters are accepted: shorten it.`,
    );
  }
  return HASH_MARK + sha256Hex(key);
}

/** The same limit under another plan. */
export function underPlan({ policy, key, stateKey, cost }: Limit, plan: Plan): Limit {
  return Object.assign(new Limit(policy, plan, key, stateKey), { cost });
}

/**
 * The one name of a limit's state within a process: policies of other names or algorithms have other states for a key.
 */
export function stateName({ plan, stateKey }: Limit): string {
  return `${plan.stateId}\n${stateKey}`;
}

/**
 * The name of a key's denials and of the block that they lead to. Other numbers of the policy are the same key's: a
 * block stays when they change.
 */
export function penaltyName({ policy, stateKey }: Limit): string {
  return `${policy.name}\n${stateKey}`;
}

/** What a call of this cost costs here. */
export function costOf({ cost }: Limit, callCost: number): number {
  return cost === undefined || callCost === 0 ? callCost : cost;
}

const debtPlans = new WeakMap<Plan, Map<number, Plan>>();
/** Policies that share numbers nearly always have one bound. */
const MAX_DEBT_PLANS = 16;

/** The limit with room for `maxDebt` more: what is used above a reservation is counted under it. */
export function debtPlan({ policy, plan }: Limit): Plan {
  const maxDebt = policy.maxDebt ?? plan.limit;
  const known = debtPlans.get(plan) ?? new Map<number, Plan>();
  const found = known.get(maxDebt);
  if (found !== undefined) return found;
  const { algorithm, numbers, stateId } = plan;
  const loosened = planOf(algorithm, algorithm.loosen?.(numbers, maxDebt) ?? numbers, stateId);
  if (known.size >= MAX_DEBT_PLANS) known.clear();
  debtPlans.set(plan, known.set(maxDebt, loosened));
  return loosened;
}
