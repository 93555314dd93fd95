// Twin of lease.lua: what the store does when a process asks for a lease, and when it gives one back.

import { Outcome } from '../../algorithms/algorithm.ts';
import { decideBucket, type CompiledBucket, type BucketState } from '../../algorithms/bucket/bucket.ts';
import type { VirtualMoment } from './token-lease.ts';

/** The bucket's state with the lease charged to it; undefined where there is nothing to grant. */
export function chargeLease(
  state: BucketState | undefined,
  numbers: CompiledBucket,
  want: number,
  nowUs: number,
): { readonly tokens: number; readonly spent: BucketState } | undefined {
  const { remaining } = decideBucket(state, numbers, 0, nowUs, new Outcome());
  const tokens = grantedTokens(want, remaining, numbers.limit);
  if (tokens < 1) return undefined;
  const { spent } = decideBucket(state, numbers, tokens, nowUs, new Outcome());
  return spent === undefined ? undefined : { tokens, spent };
}

/**
 * The state after a process gave back the unused end of its lease. Only exact while nothing was charged behind it: then
 * the bucket's debt still ends where the lease does, and it may as well end where the unused part begins.
 */
export function returnTail(
  state: BucketState | undefined,
  lease: { readonly next: VirtualMoment; readonly end: VirtualMoment },
  nowUs: number,
): BucketState | undefined {
  const { next, end } = lease;
  if (state === undefined || state.tatUs !== end.us || state.fraction !== end.fraction) return state;
  if (next.us > end.us || (next.us === end.us && next.fraction >= end.fraction)) return state;
  if (next.us < nowUs) return { ...state, tatUs: nowUs, fraction: 0 };
  return { ...state, tatUs: next.us, fraction: next.fraction };
}

/**
 * How many of `want` tokens a process gets while `available` are left: never more than a quarter of those, so that
 * nobody finds an empty bucket because of leases alone. Where most of the burst is left, a warm process may take more.
 */
function grantedTokens(want: number, available: number, limit: number): number {
  const fair = Math.min(want, Math.floor(available / 4));
  if (available * 4 < limit * 3) return fair;
  return Math.max(fair, Math.min(4 * want, Math.floor(available / 20)));
}
