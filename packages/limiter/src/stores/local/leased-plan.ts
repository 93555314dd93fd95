import type { AnyNumbers, AnyState } from '../../algorithms/algorithm.ts';
import type { LeaseOperations } from '../../algorithms/lease.ts';
import type { Plan } from '../../limit.ts';

/** What leases have to know of a plan. */
export type LeasedPlan = Pick<Plan, 'algorithm' | 'numbers'>;

/** Policies accept `leases` only where their algorithm has them. */
export function leasesOf({ algorithm }: LeasedPlan): LeaseOperations<AnyNumbers, AnyState> {
  if (algorithm.leases === undefined) throw new RangeError(`no process can hold units of ${algorithm.name}`);
  return algorithm.leases;
}
