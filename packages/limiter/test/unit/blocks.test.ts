import { expect, test } from 'vitest';
import { createLimiter } from '../../src/create-limiter.ts';
import { fixedWindow, tokenBucket } from '../../src/policy.ts';
import { memoryStore } from '../../src/stores/memory-store.ts';
import { virtualClock } from '../../src/testing/index.ts';

const api = () => fixedWindow({ name: 'api', quota: 10, window: '1h' });

test('a blocked key is denied until the moment comes, at no cost, and then has what it had', async () => {
  const clock = virtualClock();
  const limiter = createLimiter({ clock });
  const policy = api();
  limiter.checkSync(policy.for('ann'), { cost: 4 });
  policy.block('ann', clock() / 1000 + 60_000);

  const denied = limiter.checkSync(policy.for('ann'), { cost: 0 });
  const peeked = await limiter.peek(policy.for('ann'));
  clock.advance(59_999.999);
  const last = limiter.checkSync(policy.for('ann'));
  clock.advance(0.001);
  const after = limiter.checkSync(policy.for('ann'));

  expect(denied).toMatchObject({ allowed: false, source: 'block', remaining: 0, retryAfterMs: 60_000 });
  expect(peeked).toMatchObject({ allowed: false, source: 'block', degraded: false });
  expect(last).toMatchObject({ allowed: false, retryAfterMs: 0.001 });
  expect(after).toMatchObject({ allowed: true, source: 'store', remaining: 5 });
});

test('a block of one limit denies the whole check, and charges none', () => {
  const limiter = createLimiter();
  const [policy, other] = [api(), tokenBucket({ name: 'other', average: 5, period: '1h' })];
  policy.block('ann', Infinity);

  const decision = limiter.checkSync([other.for('ann'), policy.for('ann')]);

  expect(decision).toMatchObject({ allowed: false, policy: 'api', source: 'block', retryAfterMs: Infinity });
  expect(decision.verdicts.map(({ allowed }) => allowed)).toEqual([true, false]);
  expect(limiter.checkSync(other.for('ann')).remaining).toBe(4);
});

test('a block and an override of one key know nothing of each other', () => {
  const limiter = createLimiter();
  const policy = api().override('ann', { quota: 20 }).block('ann', Infinity);

  policy.override('ann', { quota: 30 });
  expect(limiter.checkSync(policy.for('ann')).source).toBe('block');
  policy.block('ann', null);
  expect(policy.for('ann').limit).toBe(30);
  policy.block('ann', Infinity).override('ann', null);
  expect(limiter.checkSync(policy.for('ann')).source).toBe('block');
  policy.block('ann', null);

  expect(limiter.checkSync(policy.for('ann'))).toMatchObject({ allowed: true, limit: 10 });
  expect(policy.for('ann').plan).toBe(policy.plan);
});

test('other numbers for a request do not lift a block, whenever it was set', () => {
  const limiter = createLimiter();
  const policy = api();
  const larger = policy.with({ quota: 50 });
  policy.block('ann', Infinity);
  const largest = larger.with({ quota: 500 });

  const denied = [larger, largest].map((other) => limiter.checkSync(other.for('ann')));
  policy.block('ann', null);

  expect(denied.map(({ source, allowed }) => [source, allowed])).toEqual([
    ['block', false],
    ['block', false],
  ]);
  expect(limiter.checkSync(larger.for('ann'))).toMatchObject({ allowed: true, remaining: 49 });
  expect(larger.for('ann').plan).toBe(larger.plan);
});

test('a store that cannot decide is not asked about a blocked key', async () => {
  const store = memoryStore();
  const failing = Object.assign(store, {
    checkSync: () => {
      throw new Error('planted');
    },
  });
  const limiter = createLimiter({ store: failing });
  const policy = api().block('ann', Infinity);

  expect(await limiter.check(policy.for('ann'))).toMatchObject({ source: 'block', degraded: false });
});

test.each([NaN, -1, 'soon', undefined])('a block until %s is refused', (until) => {
  expect(() => api().block('ann', until as number)).toThrow(
    /The end of a block is .*; expected milliseconds/,
  );
});
