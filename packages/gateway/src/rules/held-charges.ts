// Limits of concurrency: what a request holds until it has ended, however that comes about.
// Costs that are known only afterwards: what a request reserves until it has ended.
import type { AcquireOptions, Decision, Limit, Limiter, Verdict } from 'spillgate';
import type { SettleConfig } from '../config/schema/cost.ts';
import { RequestCharge } from '../cost/request-charge.ts';
import { hasSlots } from './matched-request.ts';
import type { Admission, RuleOutcome } from './rule-outcome.ts';

/** What follows from a decision. */
export type Conclude = (decision: Decision) => RuleOutcome | Promise<RuleOutcome>;

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

interface ReservedQuestion {
  readonly limits: readonly Limit[];
  readonly cost: { readonly cost: number } | undefined;
  readonly settle: SettleConfig;
}

/** What follows from a decision, with what it charged where the request is admitted. */
export async function concludeReserved(
  limiter: Limiter,
  { limits, cost, settle }: ReservedQuestion,
  conclude: Conclude,
): Promise<RuleOutcome> {
  const reservation = await limiter.reserve(limits, { ...cost, expiresIn: `${settle.within}ms` });
  try {
    const outcome = await conclude(reservation.decision);
    if (!reservation.allowed) return outcome;
    if (outcome.admitted && outcome.charge === undefined) {
      return { ...outcome, charge: new RequestCharge(settle, reservation) };
    }
    if (outcome.admitted) outcome.charge?.add(reservation);
    else await reservation.cancel();
    return outcome;
  } catch (error) {
    if (reservation.allowed) await reservation.cancel();
    throw error;
  }
}

interface HeldQuestion extends ReservedQuestion {
  /** Those of `limits` that are not of concurrency. */
  readonly settled: readonly Limit[];
}

/**
 * The same where the request holds slots, too. They are taken first, and come back if the rest is denied: a slot is
 * given back exactly, whenever that is. Concludes about the limits that were asked.
 */
export function concludeHoldingReserved(
  limiter: Limiter,
  { limits, settled, cost, settle }: HeldQuestion,
  conclude: (decision: Decision, limits: readonly Limit[]) => RuleOutcome | Promise<RuleOutcome>,
): Promise<RuleOutcome> {
  const held = limits.filter(hasSlots);
  return concludeHolding(limiter, held, undefined, (slot) =>
    slot.allowed
      ? concludeReserved(limiter, { limits: settled, cost, settle }, (decision) =>
          conclude(decisionAbout(limits, decision, slot), limits),
        )
      : conclude(slot, held),
  );
}

/** What was decided about the costs of a request that has its slots, with what was decided about these. */
function decisionAbout(limits: readonly Limit[], costs: Decision, slot: Decision): Decision {
  const ofSlots = slot.verdicts.values();
  const ofCosts = costs.verdicts.values();
  const verdicts = limits.flatMap((limit): Verdict[] => {
    const { value } = (hasSlots(limit) ? ofSlots : ofCosts).next();
    return value === undefined ? [] : [value];
  });
  return { ...costs, verdicts };
}
