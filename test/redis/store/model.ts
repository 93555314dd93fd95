import type { AnyState } from '#limiter/algorithms/algorithm.js';
import type { Limit, Plan, StoreVerdict } from 'spillgate';

/** One limit, and the state that is stored for it when the question comes. */
export interface Stored {
  readonly limit: Limit;
  readonly state: AnyState | undefined;
}

/** What one limit has to answer, and what has to be stored afterwards. */
export interface Expected {
  readonly limit: Limit;
  readonly verdict: StoreVerdict;
  /** The state that this decision writes; undefined when it must not write. */
  readonly written: AnyState | undefined;
}

/** What the pure functions answer to one check, and what they write: for all limits or for none. */
export function expectCheck(stored: readonly Stored[], cost: number, nowUs: number): readonly Expected[] {
  const outcomes = stored.map(({ limit, state }) => {
    const { algorithm, numbers } = limit.plan;
    return { limit, state, outcome: algorithm.decide(state, numbers, cost, nowUs) };
  });
  const admitted = outcomes.every(({ outcome }) => outcome.allowed);
  return outcomes.map(({ limit, state, outcome }) => ({
    limit,
    verdict: toVerdict(admitted || !outcome.allowed ? outcome : look(limit.plan, state, 0, nowUs)),
    written: admitted ? outcome.spent : outcome.carried,
  }));
}

export function expectPeek(stored: readonly Stored[], cost: number, nowUs: number): readonly Expected[] {
  return stored.map(({ limit, state }) => ({
    limit,
    verdict: look(limit.plan, state, cost, nowUs),
    written: undefined,
  }));
}

/** Whether `cost` would be allowed, beside what is there now. */
export function look(
  { algorithm, numbers }: Pick<Plan, 'algorithm' | 'numbers'>,
  state: AnyState | undefined,
  cost: number,
  nowUs: number,
): StoreVerdict {
  const { allowed, retryAfterUs, delayUs } = algorithm.decide(state, numbers, cost, nowUs);
  const { remaining, resetAfterUs } = algorithm.decide(state, numbers, 0, nowUs);
  return { allowed, remaining, retryAfterUs, resetAfterUs, delayUs };
}

/** Only what the store's contract promises, so that two answers can be compared. */
export function toVerdict(verdict: StoreVerdict): StoreVerdict {
  const { allowed, remaining, retryAfterUs, resetAfterUs, delayUs } = verdict;
  return { allowed, remaining, retryAfterUs, resetAfterUs, delayUs };
}
