// Costs that are known only afterwards: what a request reserves until it has ended.
import type { Decision, Limit, Limiter } from 'spillgate';
import type { SettleConfig } from '../config/schema/cost.ts';
import { RequestCharge } from '../cost/request-charge.ts';
import type { RuleOutcome } from './rule-outcome.ts';

interface ReservedQuestion {
  readonly limits: readonly Limit[];
  readonly cost: { readonly cost: number } | undefined;
  readonly settle: SettleConfig;
}

/** What follows from a decision, with what it charged where the request is admitted. */
export async function concludeReserved(
  limiter: Limiter,
  { limits, cost, settle }: ReservedQuestion,
  conclude: (decision: Decision) => RuleOutcome | Promise<RuleOutcome>,
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
