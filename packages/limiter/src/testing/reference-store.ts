import { decideWithoutSpending, type AnyState } from '../algorithms/algorithm.ts';
import type { Clock } from '../clock.ts';
import type { Limit } from '../limit.ts';
import type { StoreVerdict } from '../stores/store.ts';

/**
 * What every store has to agree with: the algorithms' pure functions over a plain map, without bounds, expiry or
 * network. Slow and obviously right.
 */
export class ReferenceStore {
  private readonly clock: Clock;
  private readonly states = new Map<string, AnyState>();

  constructor(clock: Clock) {
    this.clock = clock;
  }

  check(limits: readonly Limit[], cost: number): readonly StoreVerdict[] {
    const nowUs = this.clock();
    const decided = limits.map((limit) => ({ limit, outcome: this.decide(limit, cost, nowUs) }));
    const admitted = decided.every(({ outcome }) => outcome.allowed);
    const verdicts = decided.map(({ limit, outcome }) =>
      admitted || !outcome.allowed ? outcome : this.decide(limit, 0, nowUs),
    );
    for (const { limit, outcome } of decided) {
      const next = admitted ? outcome.spent : outcome.carried;
      if (next !== undefined) this.states.set(nameOf(limit), next);
    }
    return verdicts.map(toVerdict);
  }

  peek(limits: readonly Limit[], cost: number): readonly StoreVerdict[] {
    const nowUs = this.clock();
    return limits.map((limit) => {
      const { algorithm, numbers } = limit.plan;
      return toVerdict(
        decideWithoutSpending({ algorithm, numbers, cost, nowUs }, this.states.get(nameOf(limit))),
      );
    });
  }

  forget(limits: readonly Limit[]): void {
    for (const limit of limits) this.states.delete(nameOf(limit));
  }

  private decide(
    limit: Limit,
    cost: number,
    nowUs: number,
  ): ReturnType<Limit['plan']['algorithm']['decide']> {
    const { algorithm, numbers } = limit.plan;
    return algorithm.decide(this.states.get(nameOf(limit)), numbers, cost, nowUs);
  }
}

function nameOf(limit: Limit): string {
  return JSON.stringify([limit.plan.stateId, limit.stateKey]);
}

/** Only what the store's contract promises; a store may hand out objects with more in them. */
export function toVerdict(verdict: StoreVerdict): StoreVerdict {
  const { allowed, remaining, retryAfterUs, resetAfterUs, delayUs } = verdict;
  return { allowed, remaining, retryAfterUs, resetAfterUs, delayUs };
}
