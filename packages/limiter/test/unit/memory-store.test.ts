import * as fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import {
  createLimiter,
  fixedWindow,
  memoryStore,
  type Limit,
  type Limiter,
  type LimiterEvents,
} from '../../src/index.ts';
import type { AnyState } from '../../src/algorithms/algorithm.ts';
import { virtualClock, type VirtualClock } from '../../src/testing/index.ts';
import { TENS } from './policies.ts';

interface Bench {
  readonly limiter: Limiter;
  readonly clock: VirtualClock;
  readonly overflows: LimiterEvents['overflow'][];
}

function bounded(maxKeys: number): Bench {
  const clock = virtualClock();
  const limiter = createLimiter({ clock, store: memoryStore({ clock, maxKeys }) });
  const overflows: LimiterEvents['overflow'][] = [];
  limiter.on('overflow', (event) => overflows.push(event));
  return { limiter, clock, overflows };
}

async function detail(limiter: Limiter): Promise<string | undefined> {
  return (await limiter.health()).nodes[0]?.detail;
}

describe.each(TENS)('a full store under $algorithm', (policy) => {
  test('the key after the last that fits shares the overflow state, and decision, event and health say so', async () => {
    const { limiter, overflows } = bounded(3);
    for (const key of ['a', 'b', 'c']) await limiter.check(policy.for(key));

    const decision = await limiter.check(policy.for('d'));

    expect(decision).toMatchObject({ allowed: true, source: 'overflow', degraded: false, remaining: 9 });
    expect(overflows).toEqual([{ policy: policy.name, key: 'd' }]);
    expect(await limiter.health()).toMatchObject({ status: 'degraded', nodes: [{ status: 'degraded' }] });
    expect(await detail(limiter)).toMatch(/^3 of 3 keys; .*raise maxKeys/);
  });

  test('keys that were there keep their own state and numbers', async () => {
    const { limiter } = bounded(3);
    await limiter.check(policy.for('a'), { cost: 1 });
    await limiter.check(policy.for('b'), { cost: 2 });
    await limiter.check(policy.for('c'), { cost: 10 });

    for (let key = 0; key < 50; key += 1) await limiter.check(policy.for(`new ${key}`));

    const looks = await Promise.all(['a', 'b', 'c'].map((key) => limiter.peek(policy.for(key))));
    expect(looks.map((look) => [look.remaining, look.source])).toEqual([
      [9, 'store'],
      [8, 'store'],
      [0, 'store'],
    ]);
    expect(await limiter.check(policy.for('b'), { cost: 8 })).toMatchObject({
      allowed: true,
      source: 'store',
    });
  });

  test('a flood of new keys passes once through one shared bucket, and resets nobody', async () => {
    const { limiter } = bounded(3);
    await limiter.check(policy.for('drained'), { cost: 10 });
    for (const key of ['a', 'b']) await limiter.check(policy.for(key));

    let passed = 0;
    for (let key = 0; key < 5000; key += 1) {
      if (limiter.checkSync(policy.for(`flood ${key}`)).allowed) passed += 1;
    }

    expect(passed).toBe(10);
    expect((await limiter.check(policy.for('drained'))).allowed).toBe(false);
    expect(await detail(limiter)).toMatch(/^3 of 3 keys/);
  });

  test('a key that was counted in the overflow state gets no fresh bucket on top when there is room', async () => {
    const { limiter } = bounded(1);
    await limiter.check(policy.for('a'));
    await limiter.check(policy.for('spender'), { cost: 10 });

    await limiter.forget(policy.for('a'));
    const inherits = await limiter.check(policy.for('spender'));
    const look = await limiter.peek(policy.for('spender'), { cost: 0 });

    expect(inherits).toMatchObject({ allowed: false, source: 'overflow' });
    expect(look.remaining).toBe(0);
  });

  test('what a key inherits becomes its own', async () => {
    const { limiter } = bounded(1);
    await limiter.check(policy.for('a'));
    await limiter.check(policy.for('spender'), { cost: 6 });
    await limiter.forget(policy.for('a'));

    const own = await limiter.check(policy.for('spender'), { cost: 3 });
    const denied = await limiter.check(policy.for('spender'), { cost: 2 });

    expect(own).toMatchObject({ allowed: true, remaining: 1, source: 'store' });
    expect(denied).toMatchObject({ allowed: false, remaining: 1, source: 'store' });
  });

  test('states that equal "never used" make room for new keys within a few requests', async () => {
    const { limiter, clock } = bounded(3);
    for (const key of ['a', 'b', 'c']) await limiter.check(policy.for(key));
    clock.advance('1h');

    const sources = [];
    for (let key = 0; key < 20; key += 1)
      sources.push((await limiter.check(policy.for(`new ${key}`))).source);

    expect(sources.filter((source) => source === 'store')).toHaveLength(3);
    expect(await detail(limiter)).toMatch(/^3 of 3 keys/);
  });

  test('the overflow state ends with its own reset', async () => {
    const { limiter, clock } = bounded(1);
    await limiter.check(policy.for('a'));
    const last = await limiter.check(policy.for('b'), { cost: 10 });

    clock.set(clock() + Math.round(last.resetAfterMs * 1000) - 1);
    const before = [(await limiter.health()).status, (await limiter.peek(policy.for('c'))).source];
    clock.set(clock() + 1);
    const after = [(await limiter.health()).status, (await limiter.peek(policy.for('c'))).source];

    expect(before).toEqual(['degraded', 'overflow']);
    expect(after).toEqual(['up', 'store']);
  });

  test('only states that equal "never used" are dropped: one microsecond earlier they are all kept', async () => {
    const { limiter, clock } = bounded(2);
    const [first] = await Promise.all(['a', 'b'].map((key) => limiter.check(policy.for(key), { cost: 4 })));
    const resetUs = clock() + Math.round((first?.resetAfterMs ?? 0) * 1000);

    clock.set(resetUs - 1);
    const early = await limiter.check(policy.for('c'), { cost: 0 });
    const shared = await limiter.check(policy.for('c'));
    clock.set(resetUs);
    const a = await limiter.peek(policy.for('a'));

    expect([early.source, shared.source]).toEqual(['store', 'overflow']);
    expect(a).toMatchObject({ remaining: 10, resetAfterMs: 0 });
  });

  test('a cost that never fits, a look and a cost of 0 take no room', async () => {
    const { limiter } = bounded(1);

    await limiter.check(policy.for('a'), { cost: 11 });
    await limiter.check(policy.for('b'), { cost: 0 });
    await limiter.peek(policy.for('c'));

    expect(await detail(limiter)).toBe('0 of 1 keys');
  });
});

describe('several policies', () => {
  const [first, second] = ['first', 'second'].map((name) =>
    fixedWindow({ name, quota: 5, window: '1h' }),
  ) as [ReturnType<typeof fixedWindow>, ReturnType<typeof fixedWindow>];

  test('share the room, but each has an overflow state of its own', async () => {
    const { limiter } = bounded(2);
    await limiter.check([first.for('a'), second.for('a')]);

    const one = await limiter.check(first.for('b'), { cost: 5 });
    const other = await limiter.check(second.for('b'), { cost: 4 });

    expect([one.remaining, other.remaining]).toEqual([0, 1]);
    expect([one.source, other.source]).toEqual(['overflow', 'overflow']);
  });

  test('new keys of one check that share a state are all charged there, or none', async () => {
    const { limiter } = bounded(1);
    await limiter.check(first.for('a'));
    const together = [first.for('b'), first.for('c')];

    const admitted = [];
    for (let request = 0; request < 4; request += 1) admitted.push((await limiter.check(together)).allowed);

    expect(admitted).toEqual([true, true, false, false]);
    expect((await limiter.peek(first.for('d'))).remaining).toBe(1);
  });

  test('a denial by another limit spends nothing from the overflow state', async () => {
    const { limiter } = bounded(1);
    await limiter.check(first.for('a'), { cost: 5 });
    await limiter.check(second.for('b'), { cost: 2 });

    const denied = await limiter.check([second.for('c'), first.for('a')]);

    expect(denied).toMatchObject({ allowed: false, policy: 'first' });
    expect((await limiter.peek(second.for('c'))).remaining).toBe(3);
  });

  test('a decision about several limits says overflow if any of them was decided there, denied or cost 0', async () => {
    const { limiter } = bounded(1);
    await limiter.check(second.for('own'));
    await limiter.check(first.for('drains the overflow state'), { cost: 5 });
    const limits = [second.for('own'), first.for('new')];

    const denied = await limiter.check(limits);
    const look = await limiter.check(limits, { cost: 0 });
    const ownOnly = await limiter.check([second.for('own')]);

    expect(denied).toMatchObject({ allowed: false, policy: 'first', source: 'overflow' });
    expect(look).toMatchObject({ allowed: true, remaining: 0, source: 'overflow' });
    expect(ownOnly).toMatchObject({ allowed: true, source: 'store' });
  });
});

describe('a store that was closed', () => {
  test('starts empty for the next limiter, and its bound still holds', async () => {
    const clock = virtualClock();
    const store = memoryStore({ clock, maxKeys: 10 });
    const policy = fixedWindow({ name: 'api', quota: 2, window: '1h' });
    const closing = createLimiter({ clock, store });
    for (let key = 0; key < 8; key += 1) await closing.check(policy.for(`old ${key}`));
    await closing.close();
    clock.advance('2h');
    const limiter = createLimiter({ clock, store });

    const empty = await detail(limiter);
    const sources = [];
    for (let key = 0; key < 100; key += 1) {
      sources.push((await limiter.check(policy.for(`new ${key}`))).source);
    }

    expect(empty).toBe('0 of 10 keys');
    expect(sources.filter((source) => source === 'store')).toHaveLength(10);
    expect(await detail(limiter)).toMatch(/^10 of 10 keys/);
  });
});

describe('whatever happens to a full store', () => {
  interface Step {
    readonly policy: number;
    readonly key: number;
    readonly action: 'check' | 'together' | 'forget' | 'wait';
    readonly amount: number;
  }

  const steps: fc.Arbitrary<Step[]> = fc.array(
    fc.record({
      policy: fc.nat({ max: TENS.length - 1 }),
      key: fc.nat({ max: 9 }),
      action: fc.constantFrom('check', 'check', 'check', 'check', 'together', 'forget', 'wait'),
      amount: fc.integer({ min: 0, max: 11 }),
    }),
    { minLength: 20, maxLength: 120 },
  );

  /** What each key alone has been admitted, without any bound. */
  class Ledger {
    private readonly states = new Map<string, AnyState>();

    /** The most that the promise of the limit alone would still allow. */
    room(limit: Limit, nowUs: number): number {
      const { algorithm, numbers } = limit.plan;
      return algorithm.decide(this.states.get(idOf(limit)), numbers, 0, nowUs).remaining;
    }

    spend(limit: Limit, cost: number, nowUs: number): boolean {
      const { algorithm, numbers } = limit.plan;
      const outcome = algorithm.decide(this.states.get(idOf(limit)), numbers, cost, nowUs);
      if (outcome.spent !== undefined) this.states.set(idOf(limit), outcome.spent);
      return outcome.allowed;
    }

    forget(limit: Limit): void {
      this.states.delete(idOf(limit));
    }
  }

  test('no key is ever admitted more than its own policy promises, and the bound holds', async () => {
    await fc.assert(
      fc.asyncProperty(fc.integer({ min: 1, max: 6 }), steps, async (maxKeys, program) => {
        const { limiter, clock } = bounded(maxKeys);
        const ledger = new Ledger();
        for (const step of program) {
          await run(step, limiter, clock, ledger);
          const [, kept = '', bound = ''] = /^(\d+) of (\d+) keys/.exec((await detail(limiter)) ?? '') ?? [];
          expect(Number(kept)).toBeLessThanOrEqual(Number(bound));
        }
      }),
      { numRuns: 100 },
    );
    expect.hasAssertions();
  });

  async function run(step: Step, limiter: Limiter, clock: VirtualClock, ledger: Ledger): Promise<void> {
    const limit = limitOf(step.policy, step.key);
    const partner = limitOf(step.policy + 1, step.key + 1);
    if (step.action === 'wait') clock.advance(step.amount * 7919);
    else if (step.action === 'forget') {
      await limiter.forget(limit);
      ledger.forget(limit);
    } else {
      const limits = step.action === 'together' ? [limit, partner] : [limit];
      const decision = await limiter.check(limits, { cost: step.amount });
      const rooms = limits.map((each) => ledger.room(each, clock()));
      if (decision.allowed) {
        expect(limits.map((each) => ledger.spend(each, step.amount, clock()))).not.toContain(false);
      }
      decision.verdicts.forEach((verdict, at) =>
        expect(verdict.remaining).toBeLessThanOrEqual(rooms[at] ?? 0),
      );
    }
  }

  function limitOf(policy: number, key: number): Limit {
    const chosen = TENS[policy % TENS.length] as (typeof TENS)[number];
    return chosen.for(`key ${key % 10}`);
  }

  function idOf(limit: Limit): string {
    return `${limit.plan.stateId} ${limit.stateKey}`;
  }
});
