import { NEVER } from './algorithms/algorithm.ts';
import { InstanceShare } from './instance-share.ts';
import type { FailurePolicy } from './failure-policy.ts';
import { costOf, type Limit } from './limit.ts';
import type { StoreVerdict, SyncStore } from './stores/store.ts';

/** What a limiter asks a store. */
export type Operation = 'check' | 'peek';

/** What a limiter answers with when its store cannot decide. */
export interface FailureHandling {
  /** For policies that do not say it themselves. */
  readonly failurePolicy: FailurePolicy;
  /** Undefined where the store itself is local memory: a second one could not do better. */
  readonly fallback: LocalFallback | undefined;
}

/** A call that the store could not decide. */
export interface UndecidedCall {
  readonly operation: Operation;
  readonly limits: readonly Limit[];
  readonly cost: number;
  /** What the caller chose for this call alone. */
  readonly failurePolicy: FailurePolicy | undefined;
}

export interface FailurePolicyAnswer {
  readonly verdicts: readonly StoreVerdict[];
  readonly source: 'fallback' | 'failurePolicy';
}

/** What a client is told when nobody knows how long it has to wait: come back when a short outage could be over. */
const OUTAGE_RETRY_US = 1_000_000;

/**
 * The verdicts of each limit's failure policy. All or none holds here too: what the local store decides is charged only
 * if no other limit of the check is denied.
 */
export function applyFailurePolicy(call: UndecidedCall, handling: FailureHandling): FailurePolicyAnswer {
  const { limits, cost } = call;
  const { fallback } = handling;
  const policyOf = (limit: Limit): FailurePolicy => failurePolicyOf(limit, call.failurePolicy, handling);
  const local = locallyDecided(limits, call.failurePolicy, handling);
  const isRefused = limits.some((limit) => policyOf(limit) === 'failClosed');
  const operation = isRefused ? 'peek' : call.operation;
  const decided = local.length === 0 ? [] : (fallback?.[operation](local, cost) ?? []);
  const verdicts = limits.map(
    // Only what was decided locally has a place in `decided`.
    (limit) =>
      decided[local.indexOf(limit)] ?? verdictWithoutState(limit, costOf(limit, cost), policyOf(limit)),
  );
  return { verdicts, source: local.length === 0 ? 'failurePolicy' : 'fallback' };
}

/** Of these limits, those that this process decides itself while the store cannot. */
export function locallyDecided(
  limits: readonly Limit[],
  chosen: FailurePolicy | undefined,
  handling: FailureHandling,
): readonly Limit[] {
  if (handling.fallback === undefined) return [];
  return limits.filter((limit) => failurePolicyOf(limit, chosen, handling) === 'inMemoryFallback');
}

function failurePolicyOf(
  limit: Limit,
  chosen: FailurePolicy | undefined,
  handling: FailureHandling,
): FailurePolicy {
  return chosen ?? limit.policy.failurePolicy ?? handling.failurePolicy;
}

/** A verdict that knows nothing of the state: the decision around it says so (`degraded`). */
function verdictWithoutState(limit: Limit, cost: number, failurePolicy: FailurePolicy): StoreVerdict {
  const allowed = failurePolicy === 'passThrough';
  const deniedUs = cost > limit.limit ? NEVER : OUTAGE_RETRY_US;
  return {
    allowed,
    remaining: allowed ? limit.limit : 0,
    retryAfterUs: allowed ? 0 : deniedUs,
    resetAfterUs: 0,
    delayUs: 0,
  };
}

/**
 * Decides in this process while the store cannot: the same policies, divided by the number of instances that do so at
 * the same time. It lives as long as its limiter, so that a store which comes and goes never hands out a second burst.
 */
export class LocalFallback {
  private readonly store: SyncStore;
  private readonly share: InstanceShare;

  constructor(store: SyncStore, instances: number) {
    this.store = store;
    this.share = new InstanceShare(instances);
  }

  /** Charges all of these limits, or none. */
  check(limits: readonly Limit[], cost: number): readonly StoreVerdict[] {
    return withFiniteWait(limits, cost, this.store.checkSync(this.share.divide(limits), cost));
  }

  peek(limits: readonly Limit[], cost: number): readonly StoreVerdict[] {
    return withFiniteWait(limits, cost, this.store.peekSync(this.share.divide(limits), cost));
  }

  forget(limits: readonly Limit[]): void {
    this.store.forgetSync(limits);
  }

  release(limits: readonly Limit[]): void {
    this.store.releaseSync?.(limits);
  }
}

/**
 * A cost that is too large only for this instance's share fits again once the store decides: the wait is not infinite.
 */
function withFiniteWait(
  limits: readonly Limit[],
  cost: number,
  verdicts: readonly StoreVerdict[],
): readonly StoreVerdict[] {
  return verdicts.map((verdict, at) => {
    const limit = limits[at];
    const fitsThePolicy = limit !== undefined && costOf(limit, cost) <= limit.limit;
    return verdict.retryAfterUs === NEVER && fitsThePolicy
      ? { ...verdict, retryAfterUs: OUTAGE_RETRY_US }
      : verdict;
  });
}
