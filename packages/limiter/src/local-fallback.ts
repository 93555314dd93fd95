import { NEVER } from './algorithms/algorithm.ts';
import { Divider } from './divided-limit.ts';
import type { Limit } from './limit.ts';
import type { StoreVerdict, SyncStore } from './stores/store.ts';

/** What a client is told whose wait nobody knows: come back when a short outage could be over. */
export const OUTAGE_RETRY_US = 1_000_000;

/**
 * Decides in this process while the store cannot: the same policies, divided by the number of instances that do so at the
 * same time. It lives as long as its limiter, so that a store which comes and goes never hands out a second burst.
 */
export class LocalFallback {
  private readonly store: SyncStore;
  private readonly divider: Divider;

  constructor(store: SyncStore, instances: number) {
    this.store = store;
    this.divider = new Divider(instances);
  }

  /** Charges all of these limits, or none. */
  check(limits: readonly Limit[], cost: number): readonly StoreVerdict[] {
    return honest(limits, cost, this.store.checkSync(this.divider.divide(limits), cost));
  }

  peek(limits: readonly Limit[], cost: number): readonly StoreVerdict[] {
    return honest(limits, cost, this.store.peekSync(this.divider.divide(limits), cost));
  }

  forget(limits: readonly Limit[]): void {
    this.store.forgetSync(limits);
  }
}

/** A cost that only this instance's share can never hold fits again once the store decides: "never" would be a lie. */
function honest(
  limits: readonly Limit[],
  cost: number,
  verdicts: readonly StoreVerdict[],
): readonly StoreVerdict[] {
  return verdicts.map((verdict, at) => {
    const fitsThePolicy = cost <= (limits[at]?.limit ?? 0);
    return verdict.retryAfterUs === NEVER && fitsThePolicy
      ? { ...verdict, retryAfterUs: OUTAGE_RETRY_US }
      : verdict;
  });
}
