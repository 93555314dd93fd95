// What a script saw, as verdicts: it tells of each limit the state by which it decided, undefined where nothing
// counted, and the pure functions say the rest.
import { decideWithoutSpending, type AnyState, type Outcome } from '../../algorithms/algorithm.ts';
import { decideBlocked } from '../../algorithms/penalty/penalty.ts';
import { costOf, type Limit } from '../../limit.ts';
import type { StoreVerdict } from '../store.ts';

/** What a script saw of one limit. */
export interface SeenLimit {
  readonly state: AnyState | undefined;
  /** For how much longer the key is blocked because of its denials. */
  readonly penaltyLeftUs: number;
  readonly penaltyBegan: boolean;
}

/** The verdicts of a check: all limits were charged or none. */
export function checkVerdicts(
  limits: readonly Limit[],
  seen: readonly SeenLimit[],
  cost: number,
  atUs: number,
): readonly StoreVerdict[] {
  const verdicts = limits.map((limit, at) => checkVerdict(limit, seen[at], cost, atUs));
  if (limits.length === 1 || verdicts.every(({ allowed }) => allowed)) return verdicts;
  return verdicts.map((verdict, at) => {
    const limit = limits[at];
    // This limit had room, another one denied: nothing was spent here.
    return limit !== undefined && verdict.allowed ? checkVerdict(limit, seen[at], 0, atUs) : verdict;
  });
}

function checkVerdict(limit: Limit, seen: SeenLimit | undefined, cost: number, atUs: number): StoreVerdict {
  return seen === undefined || seen.penaltyLeftUs === 0
    ? toVerdict(decide(limit, seen?.state, cost, atUs))
    : blockedVerdict(limit, seen, cost, atUs);
}

function blockedVerdict(limit: Limit, seen: SeenLimit, cost: number, atUs: number): StoreVerdict {
  const { state, penaltyLeftUs, penaltyBegan } = seen;
  const { algorithm, numbers } = limit.plan;
  const request = { algorithm, numbers, cost: costOf(limit, cost), nowUs: atUs };
  return { ...toVerdict(decideBlocked(request, state, penaltyLeftUs)), penaltyLeftUs, penaltyBegan };
}

/**
 * The verdict that the same check would get next, where an admitted one left too little for it. Undefined where that is
 * not known: of a state with records the script tells only what answers the one question.
 */
export function denialAfter(
  limit: Limit,
  state: AnyState | undefined,
  cost: number,
  atUs: number,
): StoreVerdict | undefined {
  // A denial that counts has to be asked for.
  if (limit.plan.algorithm.redis.recordDoubles > 0 || limit.plan.penalty !== undefined) return undefined;
  const { spent } = decide(limit, state, cost, atUs);
  return spent === undefined ? undefined : toVerdict(decide(limit, spent, cost, atUs));
}

export function peekVerdicts(
  limits: readonly Limit[],
  seen: readonly SeenLimit[],
  cost: number,
  atUs: number,
): readonly StoreVerdict[] {
  return limits.map((limit, at) => {
    const found = seen[at];
    if (found !== undefined && found.penaltyLeftUs > 0) return blockedVerdict(limit, found, cost, atUs);
    const { algorithm, numbers } = limit.plan;
    const request = { algorithm, numbers, cost: costOf(limit, cost), nowUs: atUs };
    return toVerdict(decideWithoutSpending(request, found?.state));
  });
}

function decide(limit: Limit, state: AnyState | undefined, cost: number, atUs: number): Outcome<AnyState> {
  const { algorithm, numbers } = limit.plan;
  return algorithm.decide(state, numbers, costOf(limit, cost), atUs);
}

function toVerdict(outcome: Outcome<AnyState>): StoreVerdict {
  const { allowed, remaining, retryAfterUs, resetAfterUs, delayUs } = outcome;
  return { allowed, remaining, retryAfterUs, resetAfterUs, delayUs };
}
