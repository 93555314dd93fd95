import * as fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import {
  createLimiter,
  fixedWindow,
  leakyBucket,
  slidingWindowCounter,
  slidingWindowLog,
  tokenBucket,
  type FailurePolicy,
  type Limit,
  type Limiter,
  type LimiterOptions,
  type Policy,
} from '../../src/index.ts';
import { virtualClock } from '../../src/testing/index.ts';
import { remoteStore, type RemoteStore } from './remote-store.ts';

const FAILURE_POLICIES = ['passThrough', 'failClosed', 'inMemoryFallback'] as const;
const SOURCES = {
  passThrough: 'failurePolicy',
  failClosed: 'failurePolicy',
  inMemoryFallback: 'fallback',
} as const;

function tens(name: string, failurePolicy: FailurePolicy | undefined): Policy {
  return tokenBucket({ name, average: 10, burst: 10, period: '1m', failurePolicy });
}

const open = tens('open', 'passThrough').for('ann');
const closed = tens('closed', 'failClosed').for('ann');
const local = tens('local', 'inMemoryFallback').for('ann');
const otherLocal = tens('other-local', 'inMemoryFallback').for('ann');

interface Bench {
  readonly limiter: Limiter;
  readonly store: RemoteStore;
}

function outage(options: LimiterOptions = {}): Bench {
  const clock = virtualClock();
  const store = remoteStore(clock);
  store.behaviour = 'rejects';
  return { store, limiter: createLimiter({ clock, store, ...options }) };
}

describe.each(FAILURE_POLICIES)("a limiter's failure policy %s", (ofLimiter) => {
  test('answers for policies that have none of their own', async () => {
    const { limiter } = outage({ failurePolicy: ofLimiter });

    const decision = await limiter.check(tens('api', undefined).for('ann'), { cost: 3 });

    expect(decision).toMatchObject({ allowed: ofLimiter !== 'failClosed', source: SOURCES[ofLimiter] });
  });

  test.each(FAILURE_POLICIES)("loses against a policy's own %s", async (own) => {
    const { limiter } = outage({ failurePolicy: ofLimiter });

    const decision = await limiter.check(tens('api', own).for('ann'), { cost: 3 });

    expect(decision).toMatchObject({
      allowed: own !== 'failClosed',
      remaining: { passThrough: 10, failClosed: 0, inMemoryFallback: 7 }[own],
      source: SOURCES[own],
      degraded: true,
    });
  });
});

describe.each(FAILURE_POLICIES)('the failure policy %s of one call', (ofCall) => {
  test.each(FAILURE_POLICIES)(
    "wins over %s, a policy's own or the limiter's, and holds for that call only",
    async (other) => {
      const { limiter } = outage({ failurePolicy: other });
      const limits = [tens('own', other).for('ann'), tens('none', undefined).for('ann')];

      const chosen = await limiter.check(limits, { cost: 3, failurePolicy: ofCall });
      const looked = await limiter.peek(limits, { failurePolicy: ofCall });
      const next = await limiter.check(limits);

      expect([chosen, looked]).toMatchObject([
        { allowed: ofCall !== 'failClosed', source: SOURCES[ofCall] },
        { allowed: ofCall !== 'failClosed', source: SOURCES[ofCall] },
      ]);
      expect(next).toMatchObject({ allowed: other !== 'failClosed', source: SOURCES[other] });
    },
  );
});

test('the failure policy of a call is that of a local store which fails, too', () => {
  const limiter = createLimiter({ clock: () => 1, failurePolicy: 'failClosed' });
  const limit = tens('api', undefined).for('ann');
  const broken = Object.assign(Object.create(limit.plan.algorithm), {
    decide: () => {
      throw new Error('out of memory');
    },
  });
  Object.assign(limit, { plan: { ...limit.plan, algorithm: broken } });

  expect(limiter.checkSync(limit, { failurePolicy: 'passThrough' })).toMatchObject({
    allowed: true,
    source: 'failurePolicy',
  });
});

test.each<(failurePolicy: FailurePolicy) => Policy>([
  (failurePolicy) => tokenBucket({ name: 'p', average: 10, period: '1m', failurePolicy }),
  (failurePolicy) => leakyBucket({ name: 'p', average: 1, period: '1s', maxDelay: '9s', failurePolicy }),
  (failurePolicy) => fixedWindow({ name: 'p', quota: 10, window: '1m', failurePolicy }),
  (failurePolicy) => slidingWindowLog({ name: 'p', quota: 10, window: '1m', failurePolicy }),
  (failurePolicy) => slidingWindowCounter({ name: 'p', quota: 10, window: '1m', failurePolicy }),
])('every policy function takes a failure policy, and it is not one of the numbers', async (define) => {
  const { limiter } = outage({ failurePolicy: 'inMemoryFallback' });
  const policy = define('failClosed');

  expect(await limiter.check(policy.for('ann'))).toMatchObject({ allowed: false, source: 'failurePolicy' });
  expect(policy.failurePolicy).toBe('failClosed');
  expect(policy.numbers).not.toHaveProperty('failurePolicy');
});

test('other numbers keep the failure policy: for one key, and in a policy made with with()', async () => {
  const { limiter } = outage({ failurePolicy: 'passThrough' });
  const policy = tokenBucket({ name: 'p', average: 10, period: '1m', failurePolicy: 'failClosed' });

  const overridden = await limiter.check(policy.override('ann', { average: 20 }).for('ann'));
  const changed = await limiter.check(policy.with({ average: 20 }).for('bob'));

  expect([overridden.allowed, changed.allowed]).toEqual([false, false]);
  expect([overridden.limit, changed.limit]).toEqual([20, 20]);
});

test('while the store decides, failure policies change nothing', async () => {
  const { limiter, store } = outage();
  store.behaviour = 'answers';

  const decision = await limiter.check([open, closed, local], { cost: 4 });

  expect(decision).toMatchObject({ allowed: true, remaining: 6, source: 'store', degraded: false });
});

describe('limits of different failure policies in one check', () => {
  test('failClosed denies, and what would have been decided locally is not charged', async () => {
    const { limiter } = outage();

    const decision = await limiter.check([local, closed, open], { cost: 4 });

    expect(decision).toMatchObject({
      allowed: false,
      policy: 'closed',
      retryAfterMs: 1000,
      remaining: 0,
      source: 'fallback',
      degraded: true,
    });
    expect(decision.verdicts.map(({ policy, allowed, remaining }) => [policy, allowed, remaining])).toEqual([
      ['local', true, 10],
      ['closed', false, 0],
      ['open', true, 10],
    ]);
    expect((await limiter.peek(local)).remaining).toBe(10);
  });

  test('passThrough allows beside the fallback, which is charged and may deny', async () => {
    const { limiter } = outage();

    const allowed = await limiter.check([open, local], { cost: 8 });
    const denied = await limiter.check([open, local], { cost: 8 });

    expect(allowed).toMatchObject({ allowed: true, policy: 'local', remaining: 2, source: 'fallback' });
    expect(denied).toMatchObject({ allowed: false, policy: 'local', remaining: 2, source: 'fallback' });
    expect(denied.retryAfterMs).toBe(36_000);
    expect(denied.verdicts[0]).toMatchObject({ policy: 'open', allowed: true, retryAfterMs: 0 });
  });

  test('what is decided locally is charged all or none', async () => {
    const { limiter } = outage();
    await limiter.check(otherLocal, { cost: 9 });

    const denied = await limiter.check([local, open, otherLocal], { cost: 2 });

    expect(denied.verdicts.map(({ allowed }) => allowed)).toEqual([true, true, false]);
    expect((await limiter.peek(local)).remaining).toBe(10);
    expect((await limiter.peek(otherLocal)).remaining).toBe(1);
  });

  test('without a limit that is decided locally, nobody counted: the source says so', async () => {
    const { limiter } = outage();

    expect(await limiter.check([open, closed])).toMatchObject({ allowed: false, source: 'failurePolicy' });
    expect(await limiter.check(open)).toMatchObject({ allowed: true, source: 'failurePolicy' });
  });

  test('a look decides the same way and charges nothing', async () => {
    const { limiter } = outage();

    const looks = [await limiter.peek([open, local], { cost: 8 }), await limiter.peek([open, local, closed])];

    expect(looks.map(({ allowed, source }) => [allowed, source])).toEqual([
      [true, 'fallback'],
      [false, 'fallback'],
    ]);
    expect((await limiter.peek(local)).remaining).toBe(10);
  });

  test('any mix: allowed exactly if all allow, charged locally exactly if allowed, verdicts in their places', async () => {
    const limits: readonly Limit[] = ['a', 'b', 'c', 'd'].flatMap((key) =>
      FAILURE_POLICIES.map((failurePolicy) => tens(failurePolicy, failurePolicy).for(key)),
    );
    const batch = fc.record({
      chosen: fc.subarray([...limits], { minLength: 1 }),
      cost: fc.nat({ max: 11 }),
    });
    await fc.assert(
      fc.asyncProperty(fc.array(batch, { maxLength: 12 }), async (batches) => {
        const { limiter } = outage();
        const spent = new Map<Limit, number>();
        for (const { chosen, cost } of batches) {
          const fits = (limit: Limit): boolean =>
            limit.policy.failurePolicy === 'passThrough' ||
            (limit.policy.failurePolicy === 'inMemoryFallback' && (spent.get(limit) ?? 0) + cost <= 10);

          const decision = await limiter.check(chosen, { cost });

          expect(decision.allowed).toBe(chosen.every(fits));
          expect(decision.verdicts.map(({ policy, key, allowed }) => [policy, key, allowed])).toEqual(
            chosen.map((limit) => [limit.policy.name, limit.key, fits(limit)]),
          );
          if (!decision.allowed) continue;
          for (const limit of chosen) spent.set(limit, (spent.get(limit) ?? 0) + cost);
        }
        for (const limit of limits.filter(({ policy }) => policy.failurePolicy === 'inMemoryFallback')) {
          expect((await limiter.peek(limit)).remaining).toBe(10 - (spent.get(limit) ?? 0));
        }
      }),
    );
  });
});

describe('a cost above the limit', () => {
  test('is never allowed again by failClosed: no wait would help', async () => {
    const { limiter } = outage();

    const over = await limiter.check(closed, { cost: 11 });
    const just = await limiter.check(closed, { cost: 10 });

    expect([over.allowed, over.retryAfterMs]).toEqual([false, Infinity]);
    expect([just.allowed, just.retryAfterMs]).toEqual([false, 1000]);
  });

  test('passes with passThrough: nobody counts', async () => {
    const { limiter } = outage();

    expect(await limiter.check(open, { cost: 11 })).toMatchObject({ allowed: true, retryAfterMs: 0 });
  });
});

test('a local store that fails has no second one: inMemoryFallback denies', async () => {
  const limiter = createLimiter({ clock: () => 1, failurePolicy: 'passThrough' });
  const own = tens('local', 'inMemoryFallback').for('ann');
  const broken = Object.assign(Object.create(own.plan.algorithm), {
    decide: () => {
      throw new Error('out of memory');
    },
  });
  Object.assign(own, { plan: { ...own.plan, algorithm: broken } });

  const decision = await limiter.check([open, own]);

  expect(decision).toMatchObject({
    allowed: false,
    policy: 'local',
    source: 'failurePolicy',
    degraded: true,
  });
});
