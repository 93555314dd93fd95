import { memoryStore, type Clock, type Store, type StoreVerdict } from '../../src/index.ts';

/** How the store behind an imagined network answers the next call. */
type Behaviour = 'answers' | 'rejects' | 'throws' | 'hangs' | 'says nonsense';

/** A store that is not synchronous, counts its calls, and fails on command. */
export interface RemoteStore extends Store {
  behaviour: Behaviour;
  readonly calls: string[];
}

type Compute = () => Promise<readonly StoreVerdict[]>;

export const NETWORK_ERROR = new Error('connection reset');

export function remoteStore(clock: Clock): RemoteStore {
  const memory = memoryStore({ clock });
  const calls: string[] = [];
  const answer = (name: string, compute: Compute) => {
    calls.push(name);
    return RESPONSES[store.behaviour](compute);
  };
  const store: RemoteStore = {
    behaviour: 'answers',
    calls,
    check: (limits, cost) => answer('check', () => memory.check(limits, cost)),
    peek: (limits, cost) => answer('peek', () => memory.peek(limits, cost)),
    async release(limits) {
      await answer('release', async () => {
        await memory.release(limits);
        return [];
      });
    },
    async forget(limits) {
      calls.push('forget');
      await memory.forget(limits);
    },
    async health() {
      calls.push('health');
      return memory.health();
    },
    async close() {
      calls.push('close');
    },
  };
  return store;
}

/** Kept apart from the store, so that a behaviour is added in one place. */
const RESPONSES: Readonly<Record<Behaviour, (compute: Compute) => ReturnType<Compute>>> = {
  answers: (compute) => compute(),
  rejects: () => Promise.reject(NETWORK_ERROR),
  throws: () => {
    throw NETWORK_ERROR;
  },
  hangs: () => new Promise(() => undefined),
  'says nonsense': () => Promise.resolve([]),
};
