// Twin of redis/settle.lua: what becomes of a state when a reservation is settled.
import { Outcome, type AnyState } from '../algorithms/algorithm.ts';
import type { BucketState, CompiledBucket } from '../algorithms/bucket/bucket.ts';
import { debtPlan, type Limit, type Plan } from '../limit.ts';
import { returnTail, TokenLease } from '../algorithms/bucket/token-lease.ts';
import type { VirtualMoment } from '../algorithms/lease.ts';
import type { ReservedCharge } from './store.ts';

/** Whether others may have been promised the virtual time behind a charge: in a queue, or by a lease. */
export function handsOutMoments({ policy, plan }: Limit): boolean {
  return (
    plan.algorithm.name === 'leakyBucket' ||
    (policy.leases !== false && plan.algorithm.leases?.passes === true)
  );
}

/** What a reservation that has just become part of a state has charged. */
export function chargeIn(
  state: AnyState,
  { limit, cost, atUs }: Pick<ReservedCharge, 'limit' | 'cost' | 'atUs'>,
  areMoments: boolean,
): ReservedCharge {
  const { algorithm, numbers } = limit.plan;
  const absentAtUs = algorithm.absentAtUs(state, numbers);
  if (!areMoments) return { limit, cost, atUs, absentAtUs };
  const { tatUs, fraction } = bucketState(state);
  return { limit, cost, atUs, absentAtUs, end: { us: tatUs, fraction } };
}

/** The state after parts of charges were given back. */
export function giveBack(
  { algorithm, numbers }: Plan,
  state: AnyState,
  refunds: readonly ReservedCharge[],
  nowUs: number,
): AnyState {
  let left = state;
  for (const part of refunds) {
    if (part.isShared === true) continue;
    if (part.end === undefined) left = algorithm.refund?.(left, numbers, part, nowUs) ?? left;
    else left = giveBackTail(bucketState(left), partAsLease(part, part.end), nowUs);
  }
  return left;
}

/** Part of a charge as a lease of which nothing was spent. */
export function partAsLease({ limit, cost }: ReservedCharge, end: VirtualMoment): TokenLease {
  // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- a charge has an end only under a bucket
  return new TokenLease(limit.plan.numbers as CompiledBucket, { tokens: cost, end });
}

function giveBackTail(state: BucketState, lease: TokenLease, nowUs: number): BucketState {
  const { tokenUnits, drainUnits } = lease.numbers;
  if (state.tokenUnits !== tokenUnits || state.drainUnits !== drainUnits) return state;
  return returnTail(state, lease, nowUs);
}

/** Charges what was used above a reservation, or as much of it as `maxDebt` has room for. */
export function chargeDebt(
  limit: Limit,
  state: AnyState | undefined,
  debt: number,
  nowUs: number,
): { readonly charged: number; readonly spent: AnyState | undefined } {
  const { algorithm, numbers } = debtPlan(limit);
  const out = new Outcome<AnyState>();
  const charged = Math.min(debt, algorithm.decide(state, numbers, 0, nowUs, out).remaining);
  if (charged === 0) return { charged, spent: undefined };
  return { charged, spent: algorithm.decide(state, numbers, charged, nowUs, out).spent };
}

/** Only buckets hand out moments. */
function bucketState(state: AnyState): BucketState {
  // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- a charge has an end only under a bucket
  return state as BucketState;
}
