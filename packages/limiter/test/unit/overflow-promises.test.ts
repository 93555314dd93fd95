import { expect, test } from 'vitest';
import { createLimiter, memoryStore, tokenBucket, type Limiter, type Policy } from '../../src/index.ts';
import { seededRandom, virtualClock, type VirtualClock } from '../../src/testing/index.ts';

interface Full {
  readonly limiter: Limiter;
  readonly clock: VirtualClock;
}

/** A store without room for another key. */
function fullStore(maxKeys: number): Full {
  const clock = virtualClock();
  const limiter = createLimiter({ clock, store: memoryStore({ clock, maxKeys }) });
  const filler = tokenBucket({ name: 'filler', average: 1, period: '365d' });
  for (let key = 0; key < maxKeys; key += 1) limiter.checkSync(filler.for(`filler ${key}`));
  return { limiter, clock };
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

test.each([1, 2, 3, 4, 5, 6])(
  'no key of a crowded store gets more than burst and rate, whatever is checked together (seed %i)',
  (seed) => {
    const random = seededRandom(seed);
    const clock = virtualClock();
    const limiter = createLimiter({ clock, store: memoryStore({ clock, maxKeys: 1 + random.below(6) }) });
    const policies = ['a', 'b'].map((name) => tokenBucket({ name, average: 2, burst: 3, period: '1s' }));
    const admissions = new Map<string, number[]>();

    for (let step = 0; step < 4000; step += 1) {
      if (random.below(3) === 0) clock.set(clock() + random.below(600_000));
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

/** By how much the admissions up to the last one exceed 3 + 2 per second, over all spans that end there. */
function mostAbove(timesUs: readonly number[]): number {
  const last = timesUs.at(-1) ?? 0;
  return Math.max(...timesUs.map((first, at) => timesUs.length - at - 3 - (2 * (last - first)) / 1_000_000));
}
