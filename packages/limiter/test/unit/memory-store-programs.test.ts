import { describe, expect, test } from 'vitest';
import {
  createLimiter,
  memoryStore,
  tokenBucket,
  type Limit,
  type Limiter,
  type Policy,
} from '../../src/index.ts';
import type { AnyState } from '../../src/algorithms/algorithm.ts';
import { seededRandom, virtualClock, type Random, type VirtualClock } from '../../src/testing/index.ts';
import { TENS } from './policies.ts';

// The store's own hash table splits, merges, grows and shrinks while it works; a plain Map does nothing of the kind.
// Whatever the program, both have to give the same answers and count the same keys.

interface Program {
  readonly what: string;
  readonly seed: number;
  readonly operations: number;
  /** Keys to choose from: few are hit again and again, many make the table grow. */
  readonly keys: number;
  readonly maxKeys: number;
  /** Out of 100 operations, how many forget, and how many let time pass. */
  readonly forgets: number;
  readonly waits: number;
}

const PROGRAMS: readonly Program[] = [
  { what: 'few keys', seed: 1, operations: 40_000, keys: 40, maxKeys: 200, forgets: 30, waits: 0 },
  {
    what: 'insert as often as forget',
    seed: 2,
    operations: 60_000,
    keys: 2000,
    maxKeys: 10_000,
    forgets: 50,
    waits: 0,
  },
  { what: 'grow', seed: 3, operations: 60_000, keys: 50_000, maxKeys: 1_000_000, forgets: 5, waits: 0 },
  {
    what: 'grow and expire',
    seed: 4,
    operations: 60_000,
    keys: 20_000,
    maxKeys: 1_000_000,
    forgets: 5,
    waits: 1,
  },
  {
    what: 'few keys that expire',
    seed: 5,
    operations: 40_000,
    keys: 60,
    maxKeys: 300,
    forgets: 10,
    waits: 20,
  },
];

describe.each(PROGRAMS)('a random program agrees with a plain Map: $what', (program) => {
  test(`${program.operations} operations`, async () => {
    const bench = newBench(program);
    const mismatches: string[] = [];

    for (let operation = 0; operation < program.operations; operation += 1) {
      const mismatch = step(bench, program);
      if (mismatch !== undefined) mismatches.push(`operation ${operation}: ${mismatch}`);
      if (operation % 2000 === 0) mismatches.push(...(await miscount(bench, program)));
    }

    expect(mismatches.slice(0, 5)).toEqual([]);
  });
});

test('after everything was forgotten nothing is left, and the store works on', async () => {
  const clock = virtualClock();
  const limiter = createLimiter({ clock, store: memoryStore({ clock, maxKeys: 100_000 }) });
  const limits = Array.from({ length: 50_000 }, (_, key) =>
    TENS[key % TENS.length]?.for(`key ${key}`),
  ).filter(isLimit);
  for (const limit of limits) limiter.checkSync(limit, { cost: 10 });

  for (const limit of limits) await limiter.forget(limit);
  const left = await countKeys(limiter);
  const again = limits.filter((limit) => limiter.checkSync(limit, { cost: 10 }).allowed);

  expect(left).toBe(0);
  expect(again).toHaveLength(50_000);
  expect(await countKeys(limiter)).toBe(50_000);
});

/** Some keys meet two rates in turn, as they do when a policy is changed while instances still use the old one. */
const POLICIES: readonly Policy[] = [
  ...TENS,
  tokenBucket({ name: 'bucket', average: 30, burst: 10, period: '1m' }),
];

/** Short, long and beyond Latin-1: keys may be kept in different places. */
function keyOf(number: number): string {
  return [`key ${number}`, `${'long '.repeat(20)}${number}`, `\ud83d\ud83d ${number}`][number % 3] ?? '';
}

interface Bench {
  readonly limiter: Limiter;
  readonly clock: VirtualClock;
  readonly random: Random;
  readonly reference: Map<string, { limit: Limit; state: AnyState }>;
}

function newBench({ seed, maxKeys }: Program): Bench {
  const clock = virtualClock();
  const limiter = createLimiter({ clock, store: memoryStore({ clock, maxKeys }) });
  return { limiter, clock, random: seededRandom(seed), reference: new Map() };
}

function step(bench: Bench, { keys, forgets, waits }: Program): string | undefined {
  const { limiter, clock, random, reference } = bench;
  const choice = random.below(100);
  if (choice < waits) {
    clock.set(clock() + random.below(3_000_000));
    return undefined;
  }
  const limit = random.pick(POLICIES).for(keyOf(random.below(keys)));
  const id = `${limit.policy.name} ${limit.key}`;
  if (choice < waits + forgets) {
    reference.delete(id);
    void limiter.forget(limit);
    return undefined;
  }
  const cost = random.below(6);
  const { algorithm, numbers } = limit.plan;
  const expected = algorithm.decide(reference.get(id)?.state, numbers, cost, clock());
  const next = expected.allowed ? expected.spent : expected.carried;
  if (next !== undefined) reference.set(id, { limit, state: next });
  const decision = limiter.checkSync(limit, { cost });
  const same =
    decision.allowed === expected.allowed &&
    decision.remaining === expected.remaining &&
    Math.round(decision.retryAfterMs * 1000) === expected.retryAfterUs &&
    decision.source === 'store';
  return same ? undefined : `${id} at cost ${cost}: ${JSON.stringify([decision, expected])}`;
}

/** Without waits the counts are equal; with them, an expired key may or may not have been swept yet. */
async function miscount(
  { limiter, clock, reference }: Bench,
  { waits }: Program,
): Promise<readonly string[]> {
  const kept = await countKeys(limiter);
  const most = reference.size;
  const live = [...reference.values()].filter(
    ({ limit, state }) => limit.plan.algorithm.absentAtUs(state, limit.plan.numbers) > clock(),
  ).length;
  const least = waits === 0 ? most : live;
  return kept >= least && kept <= most ? [] : [`health counts ${kept} keys, not ${least} to ${most}`];
}

async function countKeys(limiter: Limiter): Promise<number> {
  const { nodes } = await limiter.health();
  return Number(/^(\d+) of /.exec(nodes[0]?.detail ?? '')?.[1] ?? Number.NaN);
}

function isLimit(limit: Limit | undefined): limit is Limit {
  return limit !== undefined;
}
