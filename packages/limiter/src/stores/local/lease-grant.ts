// Twin of lease.lua: what the store does when a process asks for a lease.
import type { AnyState } from '../../algorithms/algorithm.ts';
import type { ChargedLease } from '../../algorithms/lease.ts';
import { leasesOf, type LeasedPlan } from './leased-plan.ts';

export interface GrantedLease extends ChargedLease<AnyState> {
  readonly tokens: number;
}

/** The state with the lease charged to it; undefined where there is nothing to grant. */
export function chargeLease(
  state: AnyState | undefined,
  plan: LeasedPlan,
  want: number,
  nowUs: number,
): GrantedLease | undefined {
  const { algorithm, numbers } = plan;
  const { passes } = leasesOf(plan);
  const { remaining } = algorithm.decide(state, numbers, 0, nowUs);
  const tokens = grantedTokens(want, remaining, passes ? numbers.limit : undefined);
  if (tokens < 1) return undefined;
  const charged = leasesOf(plan).charge(state, numbers, tokens, nowUs);
  return charged && { tokens, ...charged };
}

/**
 * How many of `want` tokens a process gets while `available` are left: never more than a quarter of those, so that
 * nobody finds an empty bucket because of leases alone. Where most of a burst is left, a warm process may take more, as
 * what it does not use passes.
 */
function grantedTokens(want: number, available: number, burst: number | undefined): number {
  const fair = Math.min(want, Math.floor(available / 4));
  if (burst === undefined || available * 4 < burst * 3) return fair;
  return Math.max(fair, Math.min(4 * want, Math.floor(available / 20)));
}
