// What a script saw, as verdicts: it tells of each limit the state by which it decided, undefined where nothing counted,
// and the pure functions say the rest.
import { decideWithoutSpending, type AnyState, type Outcome } from '../../algorithms/algorithm.ts';
import type { Limit } from '../../limit.ts';
import type { StoreVerdict } from '../store.ts';

type States = readonly (AnyState | undefined)[];

/** The verdicts of a check: all limits were charged or none. */
export function checkVerdicts(
  limits: readonly Limit[],
  states: States,
  cost: number,
  atUs: number,
): readonly StoreVerdict[] {
  const outcomes = limits.map((limit, at) => decide(limit, states[at], cost, atUs));
  if (limits.length === 1 || outcomes.every(({ allowed }) => allowed)) return outcomes.map(toVerdict);
  return outcomes.map((outcome, at) => {
    const limit = limits[at];
    // This limit had room, another one denied: nothing was spent here.
    return toVerdict(limit !== undefined && outcome.allowed ? decide(limit, states[at], 0, atUs) : outcome);
  });
}

/**
 * The verdict that the same check would get next, where an admitted one left too little for it. Undefined where that is
 * not known: of a state with records the script tells only what answers the one question.
 */
export function denialAfter(
  { plan: { algorithm, numbers } }: Limit,
  state: AnyState | undefined,
  cost: number,
  atUs: number,
): StoreVerdict | undefined {
  if (algorithm.redis.recordDoubles > 0) return undefined;
  const { spent } = algorithm.decide(state, numbers, cost, atUs);
  return spent === undefined ? undefined : toVerdict(algorithm.decide(spent, numbers, cost, atUs));
}

export function peekVerdicts(
  limits: readonly Limit[],
  states: States,
  cost: number,
  atUs: number,
): readonly StoreVerdict[] {
  return limits.map(({ plan: { algorithm, numbers } }, at) =>
    toVerdict(decideWithoutSpending({ algorithm, numbers, cost, nowUs: atUs }, states[at])),
  );
}

function decide({ plan }: Limit, state: AnyState | undefined, cost: number, atUs: number): Outcome<AnyState> {
  return plan.algorithm.decide(state, plan.numbers, cost, atUs);
}

function toVerdict(outcome: Outcome<AnyState>): StoreVerdict {
  const { allowed, remaining, retryAfterUs, resetAfterUs, delayUs } = outcome;
  return { allowed, remaining, retryAfterUs, resetAfterUs, delayUs };
}
