// Limits of concurrency: what a request holds until it has ended, however that comes about.
import type { AcquireOptions, Decision, Limit, Limiter } from 'spillgate';
import type { SettleConfig } from '../config/schema/cost.ts';
import type { Admission, RuleOutcome } from './rule-outcome.ts';

/** What follows from a decision. */
export type Conclude = (decision: Decision) => RuleOutcome | Promise<RuleOutcome>;

export function hasSlots({ policy }: Limit): boolean {
  return policy.algorithm === 'concurrency';
}

/**
 * Where costs are settled they are of another kind, such as tokens: a request holds one slot, unless the rule says how
 * many.
 */
export function withOneSlot(limits: readonly Limit[], settle: SettleConfig | undefined): readonly Limit[] {
  if (settle === undefined || !limits.some(hasSlots)) return limits;
  return limits.map((limit) => (hasSlots(limit) && limit.cost === undefined ? limit.withCost(1) : limit));
}

/** What follows from a decision, holding the slots that it took where the request is admitted. */
export async function concludeHolding(
  limiter: Limiter,
  limits: readonly Limit[],
  options: AcquireOptions | undefined,
  conclude: Conclude,
): Promise<RuleOutcome> {
  // A request that costs nothing holds nothing either.
  if (options?.cost === 0) return conclude(await limiter.peek(limits, options));
  const slot = await limiter.acquire(limits, options);
  const release = (): void => void slot.release();
  try {
    const outcome = await conclude(slot.decision);
    if (outcome.admitted && slot.allowed) return alsoReleasing(outcome, release);
    release();
    return outcome;
  } catch (error) {
    release();
    throw error;
  }
}

function alsoReleasing(outcome: Admission, release: () => void): Admission {
  const { release: earlier } = outcome;
  if (earlier === undefined) return { ...outcome, release };
  return {
    ...outcome,
    release() {
      earlier();
      release();
    },
  };
}
