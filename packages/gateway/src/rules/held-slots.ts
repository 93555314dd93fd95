// Limits of concurrency: what a request holds until it has ended, however that comes about.
import type { AcquireOptions, Decision, Limit, Limiter } from 'spillgate';
import type { Admission, RuleOutcome } from './rule-outcome.ts';

export function hasSlots({ policy }: Limit): boolean {
  return policy.algorithm === 'concurrency';
}

/** What follows from a decision, holding the slots that it took where the request is admitted. */
export async function concludeHolding(
  limiter: Limiter,
  limits: readonly Limit[],
  options: AcquireOptions | undefined,
  conclude: (decision: Decision) => RuleOutcome | Promise<RuleOutcome>,
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
