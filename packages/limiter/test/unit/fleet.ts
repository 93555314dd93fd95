import {
  createLimiter,
  type Decision,
  type Limit,
  type Limiter,
  type Store,
  type StoreVerdict,
} from '../../src/index.ts';
import { virtualClock, type VirtualClock } from '../../src/testing/index.ts';
import { ReferenceStore } from '../../src/testing/reference-store.ts';

/** What becomes of a call on its way to the store and back. */
export type Link = 'answers' | 'rejects' | 'loses the answer' | 'says nonsense';

interface Admission {
  readonly key: string;
  readonly atUs: number;
  readonly cost: number;
  readonly source: string;
}

/** Several instances of an application that share one store, each over a link of its own. */
export interface Fleet {
  readonly limiters: readonly Limiter[];
  /** One per instance; change them as you like. */
  readonly links: Link[];
  readonly clock: VirtualClock;
  readonly admissions: readonly Admission[];
  check(instance: number, limit: Limit, cost: number): Promise<Decision>;
  /** The cost admitted so far, by whomever. */
  admitted(key: string): number;
}

export function fleet(instances: number): Fleet {
  const clock = virtualClock();
  const shared = new ReferenceStore(clock);
  const links = Array.from({ length: instances }, (): Link => 'answers');
  const admissions: Admission[] = [];
  const limiters = links.map((_, at) =>
    createLimiter({ clock, instances, store: linkedStore(shared, () => links[at] ?? 'answers') }),
  );
  return {
    limiters,
    links,
    clock,
    admissions,
    async check(instance, limit, cost) {
      const decision = await limiters[instance]?.check(limit, { cost });
      if (decision === undefined) throw new Error(`there is no instance ${instance}`);
      if (decision.allowed) {
        admissions.push({ key: limit.key, atUs: clock(), cost, source: decision.source });
      }
      return decision;
    },
    admitted: (key) =>
      admissions
        .filter((admission) => admission.key === key)
        .reduce((total, admission) => total + admission.cost, 0),
  };
}

function linkedStore(shared: ReferenceStore, link: () => Link): Store {
  const pass = async (compute: () => readonly StoreVerdict[]): Promise<readonly StoreVerdict[]> => {
    const state = link();
    if (state === 'rejects') throw new Error('no route');
    const verdicts = compute();
    if (state === 'loses the answer') throw new Error('connection reset');
    return state === 'says nonsense'
      ? verdicts.map((each) => ({ ...each, remaining: Number.NaN }))
      : verdicts;
  };
  return {
    check: (limits, cost) => pass(() => shared.check(limits, cost)),
    peek: (limits, cost) => pass(() => shared.peek(limits, cost)),
    forget: async (limits) => shared.forget(limits),
    health: async () => ({ status: 'up', nodes: [] }),
    close: async () => undefined,
  };
}
