import type { Limiter } from '../limiter.ts';
import type { StoreStatistics } from '../stores/store.ts';
import type { Instruments } from './instruments.ts';
import { METRICS } from './metric-table.ts';

/** What is counted over the whole life of a store. */
interface StoreCounts {
  readonly calls: number;
  readonly granted: number;
  readonly returned: number;
  readonly expired: number;
}

interface CollectedStore {
  readonly limiter: Limiter;
  readonly label: string;
  /** What it had counted before anybody collected it. */
  readonly before: StoreCounts;
}

const NOTHING: StoreCounts = { calls: 0, granted: 0, returned: 0, expired: 0 };

/** Metrics that are read from the statistics of stores, each time somebody asks for them. */
export class StoreSeries {
  private readonly stores = new Set<CollectedStore>();
  /** By label of the limiter: what was counted of those that are not collected any more. */
  private readonly past = new Map<string, StoreCounts>();

  constructor(instruments: Instruments) {
    instruments.readCounter(METRICS.storeCalls, async () =>
      [...this.counts()].map(([limiter, { calls }]) => ({ labels: { limiter }, value: calls })),
    );
    instruments.readCounter(METRICS.leaseTokens, async () =>
      [...this.counts()].flatMap(([limiter, { granted, returned, expired }]) => [
        { labels: { limiter, fate: 'granted' }, value: granted },
        { labels: { limiter, fate: 'returned' }, value: returned },
        { labels: { limiter, fate: 'expired' }, value: expired },
      ]),
    );
    instruments.gauge(METRICS.leasedTokens, {
      read: async () =>
        this.gauge(
          ({ leases }) => leases.outstanding,
          (a, b) => a + b,
        ),
      gone: 0,
      workers: 'sum',
    });
    instruments.gauge(METRICS.leaseClockBound, {
      read: async () => this.gauge(({ leases }) => leases.clockBoundUs / 1e6, Math.max),
      gone: 0,
      workers: 'max',
    });
    instruments.gauge(METRICS.leaseClockError, {
      read: async () => this.gauge(({ leases }) => leases.clockErrorUs / 1e6, Math.max),
      gone: 0,
      workers: 'max',
    });
  }

  /** Returns the function that stops; what was counted stays. */
  collect(limiter: Limiter, label: string): () => void {
    const statistics = limiter.statistics();
    // It asks nobody, and so has nothing to count.
    if (statistics === undefined) return () => undefined;
    const store = { limiter, label, before: countsOf(statistics) };
    this.stores.add(store);
    return () => {
      this.stores.delete(store);
      this.past.set(label, plus(this.past.get(label) ?? NOTHING, since(store)));
    };
  }

  private counts(): ReadonlyMap<string, StoreCounts> {
    const all = new Map(this.past);
    for (const store of this.stores)
      all.set(store.label, plus(all.get(store.label) ?? NOTHING, since(store)));
    return all;
  }

  /** Limiters of one name are shown as one. */
  private gauge(
    valueOf: (statistics: StoreStatistics) => number,
    together: (a: number, b: number) => number,
  ): readonly { readonly labels: { readonly limiter: string }; readonly value: number }[] {
    const values = new Map<string, number>();
    for (const { limiter, label } of this.stores) {
      const statistics = limiter.statistics();
      if (statistics !== undefined) values.set(label, together(values.get(label) ?? 0, valueOf(statistics)));
    }
    return [...values].map(([limiter, value]) => ({ labels: { limiter }, value }));
  }
}

function countsOf({ calls, leases: { granted, returned, expired } }: StoreStatistics): StoreCounts {
  return { calls, granted, returned, expired };
}

function since({ limiter, before }: CollectedStore): StoreCounts {
  const statistics = limiter.statistics();
  if (statistics === undefined) return NOTHING;
  const now = countsOf(statistics);
  return {
    calls: now.calls - before.calls,
    granted: now.granted - before.granted,
    returned: now.returned - before.returned,
    expired: now.expired - before.expired,
  };
}

function plus(one: StoreCounts, other: StoreCounts): StoreCounts {
  return {
    calls: one.calls + other.calls,
    granted: one.granted + other.granted,
    returned: one.returned + other.returned,
    expired: one.expired + other.expired,
  };
}
