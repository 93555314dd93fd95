import { expect, test } from 'vitest';
import {
  createLimiter,
  memoryStore,
  tokenBucket,
  type Limiter,
  type MemoryStore,
  type Policy,
} from '../../src/index.ts';
import { seededRandom, virtualClock, type VirtualClock } from '../../src/testing/index.ts';

interface Full {
  readonly limiter: Limiter;
  readonly store: MemoryStore;
  readonly clock: VirtualClock;
}

/** A store without room for another key. */
function fullStore(maxKeys: number): Full {
  const clock = virtualClock();
  const store = memoryStore({ clock, maxKeys });
  const limiter = createLimiter({ clock, store });
  const filler = tokenBucket({ name: 'filler', average: 1, period: '365d' });
  for (let key = 0; key < maxKeys; key += 1) limiter.checkSync(filler.for(`filler ${key}`));
  return { limiter, store, clock };
}

test('switching numbers back and forth gives nothing back, however large the debt', () => {
  const clock = virtualClock();
  const limiter = createLimiter({ clock });
  const daily = tokenBucket({ name: 'daily', average: 1_234_567, period: '1d' });
  limiter.checkSync(daily.for('k'), { cost: 1_234_567 });

  const lowered = limiter.checkSync(daily.override('k', { burst: 1000 }).for('k'));
  const restored = limiter.checkSync(daily.override('k', null).for('k'));

  expect([lowered.allowed, restored.allowed, restored.remaining]).toEqual([false, false, 0]);
});

test('a generous override does not loosen the limit of keys that share its overflow', () => {
  const { limiter, clock } = fullStore(1);
  const hourly = tokenBucket({ name: 'hourly', average: 1, period: '1h' });
  hourly.override('vip', { average: 1000, burst: 1000, period: '1s' });
  let admitted = 0;

  for (let step = 0; step < 500; step += 1) {
    limiter.checkSync(hourly.for('vip'));
    if (limiter.checkSync(hourly.for('mallory')).allowed) admitted += 1;
    clock.advance(1);
  }

  expect(admitted).toBe(1);
});

test('new keys that do not fit into one shared state are told to come back, not to stay away', () => {
  const { limiter } = fullStore(1);
  const single = tokenBucket({ name: 'single', average: 1, period: '1m' });

  const decision = limiter.checkSync([single.for('a'), single.for('b')]);

  expect(decision.allowed).toBe(false);
  expect(decision.retryAfterMs).toBeLessThan(Infinity);
});

test.each([
  [1, false],
  [2, false],
  [3, false],
  [4, false],
  [5, false],
  [6, false],
  [7, true],
  [8, true],
  [9, true],
])(
  'no key of a crowded store gets more than burst and rate, whatever is checked together (seed %i, resized: %s)',
  (seed, resized) => {
    const random = seededRandom(seed);
    const clock = virtualClock();
    const store = memoryStore({ clock, maxKeys: 1 + random.below(6) });
    const limiter = createLimiter({ clock, store });
    const policies = ['a', 'b'].map((name) => tokenBucket({ name, average: 2, burst: 3, period: '1s' }));
    const admissions = new Map<string, number[]>();

    for (let step = 0; step < 4000; step += 1) {
      if (random.below(3) === 0) clock.set(clock() + random.below(600_000));
      if (resized && random.below(20) === 0) store.resize(1 + random.below(12));
      const limits = policies
        .slice(random.below(2))
        .map((policy: Policy) => policy.for(`k${random.below(9)}`));
      if (!limiter.checkSync(limits).allowed) continue;
      for (const { policy, key } of limits) {
        const times = admissions.get(policy.name + key) ?? [];
        admissions.set(policy.name + key, [...times.slice(-40), clock()]);
        expect(mostAbove(times.slice(-40).concat(clock()))).toBeLessThanOrEqual(0);
      }
    }
  },
);

test('a store with more keys than it may have keeps them all, and new ones share one state, also together', () => {
  const clock = virtualClock();
  const store = memoryStore({ clock, maxKeys: 10 });
  const limiter = createLimiter({ clock, store });
  const single = tokenBucket({ name: 'single', average: 1, period: '1m' });
  for (let key = 0; key < 10; key += 1) limiter.checkSync(single.for(`known ${key}`));

  store.resize(3);
  const known = Array.from({ length: 10 }, (_, key) => limiter.checkSync(single.for(`known ${key}`)));
  const together = limiter.checkSync([single.for('a'), single.for('b')]);
  const [first, second] = [limiter.checkSync(single.for('a')), limiter.checkSync(single.for('b'))];

  expect(known.map(({ allowed, source }) => [allowed, source])).toEqual(
    Array.from({ length: 10 }, () => [false, 'store']),
  );
  expect(together.allowed).toBe(false);
  expect([first.allowed, first.source, second.allowed]).toEqual([true, 'overflow', false]);
});

test('a store that may have more keys gives new ones a state of their own, behind what they spent together', async () => {
  const { limiter, clock, store } = fullStore(1);
  const pair = tokenBucket({ name: 'pair', average: 2, burst: 2, period: '1m' });
  limiter.checkSync(pair.for('a'));

  store.resize(100_000);
  const after = [limiter.checkSync(pair.for('a')), limiter.checkSync(pair.for('a'))];
  clock.advance(60_000);
  const later = Array.from({ length: 20_000 }, (_, key) => limiter.checkSync(pair.for(`later ${key}`)));

  expect(after.map(({ allowed, source }) => [allowed, source])).toEqual([
    [true, 'store'],
    [false, 'store'],
  ]);
  // Also in the table that was made for one key.
  expect(later.every(({ remaining, source }) => remaining === 1 && source === 'store')).toBe(true);
  expect((await limiter.health()).nodes[0]?.detail).toMatch(/^\d+ of 100000 keys$/);
});

test.each([0, 1.5, 100_000_001, Number.NaN])('a store cannot be resized to %d keys', (maxKeys) => {
  const store = memoryStore({ maxKeys: 5 });

  expect(() => store.resize(maxKeys)).toThrow(/^maxKeys is .*; expected an integer from 1 to 100000000/);
});

/** By how much the admissions up to the last one exceed 3 + 2 per second, over all spans that end there. */
function mostAbove(timesUs: readonly number[]): number {
  const last = timesUs.at(-1) ?? 0;
  return Math.max(...timesUs.map((first, at) => timesUs.length - at - 3 - (2 * (last - first)) / 1_000_000));
}
