import { describe, expect, test } from 'vitest';
import {
  createLimiter,
  fixedWindow,
  leakyBucket,
  slidingWindowCounter,
  slidingWindowLog,
  tokenBucket,
  type Limiter,
  type Policy,
} from '../../src/index.ts';
import { virtualClock } from '../../src/testing/index.ts';

interface Subject {
  readonly name: string;
  /** A policy that admits `capacity` at once. */
  readonly define: (capacity: number) => Policy;
  readonly numbers: (capacity: number) => object;
}

const SUBJECTS: readonly Subject[] = [
  {
    name: 'tokenBucket',
    define: (burst) => tokenBucket({ name: 'p', average: 1, burst, period: '1h' }),
    numbers: (burst) => ({ burst }),
  },
  {
    name: 'leakyBucket',
    define: (capacity) => leakyBucket({ name: 'p', average: 1, period: '1h', maxDelay: `${capacity - 1}h` }),
    numbers: (capacity) => ({ maxDelay: `${capacity - 1}h` }),
  },
  {
    name: 'fixedWindow',
    define: (quota) => fixedWindow({ name: 'p', quota, window: '1h' }),
    numbers: (quota) => ({ quota }),
  },
  {
    name: 'slidingWindowLog',
    define: (quota) => slidingWindowLog({ name: 'p', quota, window: '1h' }),
    numbers: (quota) => ({ quota }),
  },
  {
    name: 'slidingWindowCounter',
    define: (quota) => slidingWindowCounter({ name: 'p', quota, window: '1h' }),
    numbers: (quota) => ({ quota }),
  },
];

function newLimiter(): Limiter {
  return createLimiter({ clock: virtualClock() });
}

async function remaining(limiter: Limiter, policy: Policy, key: string): Promise<number> {
  return (await limiter.peek(policy.for(key))).remaining;
}

describe.each(SUBJECTS)('the numbers of one key under $name', ({ define, numbers }) => {
  test('raised: only the difference is free', async () => {
    const limiter = newLimiter();
    const policy = define(10);
    await limiter.check(policy.for('ann'), { cost: 8 });

    policy.override('ann', numbers(15));

    expect(await remaining(limiter, policy, 'ann')).toBe(7);
    expect(policy.for('ann').plan.limit).toBe(15);
  });

  test('lowered: it acts at once, and what was spent stays spent', async () => {
    const limiter = newLimiter();
    const policy = define(10);
    await limiter.check(policy.for('ann'), { cost: 8 });

    policy.override('ann', numbers(9));
    const justRoom = await remaining(limiter, policy, 'ann');
    policy.override('ann', numbers(5));

    expect(justRoom).toBe(1);
    expect(await remaining(limiter, policy, 'ann')).toBe(0);
  });

  test('removed: the policy’s own numbers again, and what was spent stays spent', async () => {
    const limiter = newLimiter();
    const policy = define(10).override('ann', numbers(20));
    await limiter.check(policy.for('ann'), { cost: 13 });

    policy.override('ann', null);

    expect(await remaining(limiter, policy, 'ann')).toBe(0);
    policy.override('ann', numbers(20));
    expect(await remaining(limiter, policy, 'ann')).toBe(7);
  });

  test('touch no other key, and not the policy', async () => {
    const limiter = newLimiter();
    const policy = define(10).override('ann', numbers(20));

    expect(await remaining(limiter, policy, 'ann')).toBe(20);
    expect(await remaining(limiter, policy, 'bob')).toBe(10);
    expect(policy.limit).toBe(10);
  });

  test('a rejected change changes nothing', async () => {
    const limiter = newLimiter();
    const policy = define(10).override('ann', numbers(20));

    expect(() => policy.override('ann', { ...numbers(30), nonsense: 1 })).toThrow('does not know "nonsense"');

    expect(await remaining(limiter, policy, 'ann')).toBe(20);
  });

  test('with() makes another policy of the same name that shares the state of every key', async () => {
    const limiter = newLimiter();
    const policy = define(10);
    const larger = policy.with(numbers(20));
    await limiter.check(larger.for('ann'), { cost: 8 });

    expect([policy.limit, larger.limit, larger.name]).toEqual([10, 20, 'p']);
    expect(await remaining(limiter, policy, 'ann')).toBe(2);
    expect(await remaining(limiter, larger, 'ann')).toBe(12);
  });
});

test('a faster rate carries the debt over in tokens', async () => {
  const limiter = newLimiter();
  const api = tokenBucket({ name: 'api', average: 10, burst: 10, period: '1m' });
  await limiter.check(api.for('ann'), { cost: 6 });

  api.override('ann', { average: 100 });
  const decision = await limiter.check(api.for('ann'));

  expect(decision).toMatchObject({ allowed: true, remaining: 3, resetAfterMs: 4200 });
});

test('an override of a long key reaches that key', () => {
  const api = tokenBucket({ name: 'api', average: 10, burst: 10, period: '1m' });
  const long = 'x'.repeat(5000);

  api.override(`${long}1`, { burst: 3 });

  expect([api.for(`${long}1`).plan.limit, api.for(`${long}2`).plan.limit]).toEqual([3, 10]);
});

test('a policy keeps the numbers it was given', () => {
  const numbers = { name: 'api', average: 10, burst: 20, period: '1m' };
  const api = tokenBucket(numbers);

  numbers.burst = 999;

  expect(api.numbers).toEqual({ average: 10, burst: 20, period: '1m' });
  expect(api.with({ average: 11 }).numbers).toEqual({ average: 11, burst: 20, period: '1m' });
  expect(api.limit).toBe(20);
});
