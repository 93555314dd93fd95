import { NEVER } from './algorithms/algorithm.ts';
import type { FailurePolicy } from './failure-policy.ts';
import type { Limit } from './limit.ts';
import { OUTAGE_RETRY_US, type LocalFallback } from './local-fallback.ts';
import type { StoreVerdict } from './stores/store.ts';

export type Question = 'check' | 'peek';

/** Who answers for the limits of policies that do not say it themselves, and who decides locally. */
export interface StandIns {
  readonly failurePolicy: FailurePolicy;
  /** Undefined where the store itself is local memory: a second one could not do better. */
  readonly fallback: LocalFallback | undefined;
}

/** A call that the store could not answer. */
export interface Unanswered {
  readonly question: Question;
  readonly limits: readonly Limit[];
  readonly cost: number;
  /** What the caller chose for this call alone. */
  readonly failurePolicy: FailurePolicy | undefined;
}

export interface StandInAnswer {
  readonly verdicts: readonly StoreVerdict[];
  readonly source: 'fallback' | 'failurePolicy';
}

/**
 * The verdicts of each limit's failure policy. All or none holds here too: what the local store decides is charged only
 * if nobody else in the check denies.
 */
export function answerWithoutStore(call: Unanswered, standIns: StandIns): StandInAnswer {
  const { limits, cost } = call;
  const { fallback } = standIns;
  const policyOf = (limit: Limit): FailurePolicy =>
    call.failurePolicy ?? limit.policy.failurePolicy ?? standIns.failurePolicy;
  const local =
    fallback === undefined ? [] : limits.filter((limit) => policyOf(limit) === 'inMemoryFallback');
  const refused = limits.some((limit) => policyOf(limit) === 'failClosed');
  const question = refused ? 'peek' : call.question;
  const decided = local.length === 0 ? [] : (fallback?.[question](local, cost) ?? []);
  const verdicts = limits.map(
    // Only what was decided locally has a place in `decided`.
    (limit) => decided[local.indexOf(limit)] ?? verdictWithoutState(limit, cost, policyOf(limit)),
  );
  return { verdicts, source: local.length === 0 ? 'failurePolicy' : 'fallback' };
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
