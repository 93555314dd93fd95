// What a script saw, as verdicts: it tells of each limit the state that counted, and the pure functions say the rest.
import { decideWithoutSpending, type AnyState, type Outcome } from '../../algorithms/algorithm.ts';
import type { Limit } from '../../limit.ts';
import type { StoreVerdict } from '../store.ts';

/** A limit, and the state by which the script decided it; undefined where nothing counted. */
export interface SeenLimit {
  readonly limit: Limit;
  readonly state: AnyState | undefined;
}

/** The verdicts of a check: all limits were charged or none. */
export function checkVerdicts(seen: readonly SeenLimit[], cost: number, atUs: number): StoreVerdict[] {
  const outcomes = seen.map((one) => decide(one, cost, atUs));
  if (outcomes.every(({ allowed }) => allowed)) return outcomes.map(toVerdict);
  return seen.map((one, at) => {
    const outcome = outcomes[at];
    // This limit had room, another one denied: nothing was spent here.
    return toVerdict(outcome === undefined || outcome.allowed ? decide(one, 0, atUs) : outcome);
  });
}

export function peekVerdicts(seen: readonly SeenLimit[], cost: number, atUs: number): StoreVerdict[] {
  return seen.map(({ limit, state }) => {
    const { algorithm, numbers } = limit.plan;
    return toVerdict(decideWithoutSpending({ algorithm, numbers, cost, nowUs: atUs }, state));
  });
}

function decide({ limit, state }: SeenLimit, cost: number, atUs: number): Outcome<AnyState> {
  const { algorithm, numbers } = limit.plan;
  return algorithm.decide(state, numbers, cost, atUs);
}

function toVerdict(outcome: Outcome<AnyState>): StoreVerdict {
  const { allowed, remaining, retryAfterUs, resetAfterUs, delayUs } = outcome;
  return { allowed, remaining, retryAfterUs, resetAfterUs, delayUs };
}
