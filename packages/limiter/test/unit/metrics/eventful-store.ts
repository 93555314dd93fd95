import type {
  Clock,
  LeaseStatistics,
  NodeHealth,
  StoreEvent,
  StoreObserver,
  StoreStatistics,
} from '../../../src/index.ts';
import { remoteStore, type RemoteStore } from '../remote-store.ts';

/** A store on an imagined network, to which things happen on command. */
export interface EventfulStore extends RemoteStore {
  nodes: readonly NodeHealth[];
  counted: StoreStatistics;
  happen(event: StoreEvent): void;
}

export const NO_LEASES: LeaseStatistics = {
  granted: 0,
  returned: 0,
  expired: 0,
  outstanding: 0,
  clockBoundUs: 0,
  clockErrorUs: 0,
};

export function eventfulStore(clock: Clock): EventfulStore {
  const observers = new Set<StoreObserver>();
  const store: EventfulStore = Object.assign(remoteStore(clock), {
    keepsPenalties: true,
    nodes: [],
    counted: { calls: 0, leases: NO_LEASES },
    statistics: () => store.counted,
    health: async () => ({ status: 'up' as const, nodes: store.nodes }),
    observe: (observer: StoreObserver) => void observers.add(observer),
    happen: (event: StoreEvent) => {
      for (const observer of observers) observer(event);
    },
  });
  return store;
}

export function node(name: string, status: NodeHealth['status']): NodeHealth {
  return { name, status, detail: 'as a test wants it' };
}
