import type { Clock } from '../clock.ts';
import { StoreLimiter, type Limiter } from '../limiter.ts';
import type { Store } from '../stores/store.ts';
import { isSyncStore } from '../stores/store.ts';
import { storeGuarantees, type Guarantee } from './store-guarantees.ts';
import { runRandomProgram } from './random-program.ts';
import { runSlotProgram } from './slot-program.ts';
import { virtualClock } from './virtual-clock.ts';

/** The functions of the test runner in use: vitest, jest and mocha-like runners, or `node:test`. */
export interface TestRunner {
  readonly describe: (name: string, body: () => void) => unknown;
  readonly test: (name: string, body: () => Promise<void>) => unknown;
}

/** What the store under test can do, and how hard to try it. */
export interface StoreCapabilities {
  /** `checkSync`, `peekSync` and `forgetSync` exist. Default: false. */
  readonly sync?: boolean | undefined;
  /** `release` exists: the store can hold the slots of `limiter.acquire()`. Default: false. */
  readonly slots?: boolean | undefined;
  /** Operations of the random programs. Default: 20,000. */
  readonly operations?: number | undefined;
  /** Needed where `describe` and `test` are no globals: `import { describe, test } from 'vitest'`. */
  readonly runner?: TestRunner | undefined;
}

/** A new, empty store that decides by the given clock. */
export type CreateStore = (clock: Clock) => Store | Promise<Store>;

const DEFAULT_OPERATIONS = 20_000;
const SEEDS = [1, 2, 3, 4];

/**
 * The contract of a store as a test suite: run it on every store you write.
 *
 * @example
 * import { describe, test } from 'vitest';
 * describeStore('memory', (clock) => memoryStore({ clock }), { sync: true, runner: { describe, test } });
 */
export function describeStore(
  name: string,
  createStore: CreateStore,
  capabilities: StoreCapabilities = {},
): void {
  const { describe, test } = capabilities.runner ?? globalRunner();
  const { sync = false, slots = false, operations = DEFAULT_OPERATIONS } = capabilities;
  describe(`the ${name} store`, () => {
    for (const guarantee of storeGuarantees) {
      test(guarantee.name, () => runGuarantee(guarantee, createStore));
    }
    for (const seed of SEEDS) {
      test(`agrees with the algorithms in a random program (seed ${seed})`, async () => {
        await runRandomProgram({ seed, operations: Math.ceil(operations / SEEDS.length), createStore });
      });
    }
    for (const seed of slots ? SEEDS : []) {
      test(`holds slots as a set of holders does, in a random program (seed ${seed})`, async () => {
        await runSlotProgram({ seed, operations: Math.ceil(operations / SEEDS.length), createStore });
      });
    }
    test(sync ? 'decides at once when asked to' : 'does not pretend to decide at once', async () => {
      const store = await createStore(virtualClock());
      const claims = isSyncStore(store);
      await store.close();
      if (claims !== sync)
        throw new Error(`capabilities.sync is ${sync}, but the store ${claims ? 'has' : 'lacks'} checkSync`);
    });
  });
}

async function runGuarantee(guarantee: Guarantee, createStore: CreateStore): Promise<void> {
  const clock = virtualClock();
  const store = await createStore(clock);
  const limiter: Limiter = new StoreLimiter({
    store,
    fallback: undefined,
    failurePolicy: 'failClosed',
    deadlineMs: GENEROUS_DEADLINE_MS,
    clock,
  });
  try {
    await guarantee.run({ limiter, store, clock });
  } finally {
    await limiter.close();
  }
}

/** A contract suite asks what a store answers, not how fast a busy test machine is. */
const GENEROUS_DEADLINE_MS = 10_000;

/** What runners with globals add to the global object. */
interface Globals {
  readonly describe?: TestRunner['describe'];
  readonly test?: TestRunner['test'];
  readonly it?: TestRunner['test'];
}

function globalRunner(): TestRunner {
  const { describe, test, it }: Globals & typeof globalThis = globalThis;
  const testFunction = test ?? it;
  if (describe !== undefined && testFunction !== undefined) return { describe, test: testFunction };
  throw new Error(
    "describeStore() found no global describe() and test(): pass them, as in { runner: { describe, test } } with import { describe, test } from 'vitest'.",
  );
}
