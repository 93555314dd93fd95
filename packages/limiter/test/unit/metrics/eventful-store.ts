import type { Clock, NodeHealth, StoreEvent, StoreObserver } from '../../../src/index.ts';
import { remoteStore, type RemoteStore } from '../remote-store.ts';

/** A store on an imagined network, to which things happen on command. */
export interface EventfulStore extends RemoteStore {
  nodes: readonly NodeHealth[];
  happen(event: StoreEvent): void;
}

export function eventfulStore(clock: Clock): EventfulStore {
  const observers = new Set<StoreObserver>();
  const store: EventfulStore = Object.assign(remoteStore(clock), {
    nodes: [],
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
