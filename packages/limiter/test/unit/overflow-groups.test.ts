import { expect, onTestFinished, test, vi } from 'vitest';
import { createLimiter, memoryStore, tokenBucket } from '../../src/index.ts';
import { PackedKey } from '../../src/stores/memory/slab.ts';
import { seededRandom, virtualClock } from '../../src/testing/index.ts';

const SEED = 7;
/** Of a store of a thousand keys: so many low bits of a hash name a segment that cannot be split. */
const SEGMENT_BITS = 10;
const SEGMENT_CAPACITY = 118;

function useKnownSeed(): void {
  const spy = vi.spyOn(crypto, 'getRandomValues').mockImplementation((array) => {
    if (array instanceof Int32Array) array[0] = SEED;
    return array;
  });
  onTestFinished(() => spy.mockRestore());
}

/** Keys that all belong into one segment, as somebody chooses them who knows the seed. */
function collidingKeys(count: number): readonly string[] {
  const packed = new PackedKey(SEED);
  const keys: string[] = [];
  for (let at = 0; keys.length < count; at += 1) {
    const key = `mallory ${at}`;
    packed.pack(key);
    if ((packed.hash & (2 ** SEGMENT_BITS - 1)) === 0) keys.push(key);
  }
  return keys;
}

test('keys that collide in one segment spend nothing of what other new keys share', () => {
  useKnownSeed();
  const clock = virtualClock();
  const limiter = createLimiter({ store: memoryStore({ clock, maxKeys: 1000 }), clock });
  const api = tokenBucket({ name: 'api', average: 3, burst: 3, period: '1h' });
  const keys = collidingKeys(SEGMENT_CAPACITY + 5);

  const crowd = keys.map((key) => limiter.checkSync(api.for(key)));
  const late = crowd.slice(SEGMENT_CAPACITY);
  const others = Array.from({ length: 50 }, (_, at) => limiter.checkSync(api.for(`honest ${at}`)));

  // Three of the crowd without a place pass: together they have what one key may have.
  expect(late.map(({ allowed, source }) => [allowed, source])).toEqual(
    [true, true, true, false, false].map((allowed) => [allowed, 'overflow']),
  );
  expect(others.every(({ remaining, source }) => remaining === 2 && source === 'store')).toBe(true);
});

test('a crowd keeps its state when the store is full, and when its table is empty', () => {
  useKnownSeed();
  const clock = virtualClock();
  const store = memoryStore({ clock, maxKeys: 1000 });
  const limiter = createLimiter({ store, clock });
  const api = tokenBucket({ name: 'api', average: 3, burst: 3, period: '1h' });
  const keys = collidingKeys(SEGMENT_CAPACITY + 1);
  const last = keys.at(-1) ?? '';
  for (const key of keys.slice(0, -1)) limiter.checkSync(api.for(key));
  limiter.checkSync(api.for(last), { cost: 3 });

  store.resize(1);
  const full = limiter.checkSync(api.for(last));
  store.resize(1000);
  for (const key of keys.slice(0, -1)) store.forgetSync([api.for(key)]);
  const other = tokenBucket({ name: 'other', average: 1, period: '1s' });
  for (let at = 0; at < 2000; at += 1) limiter.checkSync(other.for(`sweeper ${at % 900}`));
  const emptied = limiter.checkSync(api.for(last));

  expect([full.allowed, emptied.allowed]).toEqual([false, false]);
});

test('a key whose rate is overridden again and again gets no fresh burst in a full store', () => {
  const clock = virtualClock();
  const limiter = createLimiter({ store: memoryStore({ clock, maxKeys: 1 }), clock });
  const filler = tokenBucket({ name: 'filler', average: 1, period: '365d' });
  limiter.checkSync(filler.for('filler'));
  const api = tokenBucket({ name: 'api', average: 10, burst: 10, period: '1h' });
  let admitted = 0;

  for (const average of [10, 11, 12, 13, 14, 15, 10, 12, 14]) {
    api.override('k', { average });
    while (limiter.checkSync(api.for('k')).allowed) admitted += 1;
  }

  expect(admitted).toBe(10);
});

test.each([1, 2, 3, 4, 5])(
  'overridden rates never loosen what a key of a full store may do (seed %i)',
  (seed) => {
    const random = seededRandom(seed);
    const clock = virtualClock();
    const crowded = createLimiter({ store: memoryStore({ clock, maxKeys: 1 }), clock });
    const roomy = createLimiter({ store: memoryStore({ clock }), clock });
    crowded.checkSync(tokenBucket({ name: 'filler', average: 1, period: '3650d' }).for('filler'));
    const api = tokenBucket({ name: 'api', average: 10, burst: 10, period: '1m' });

    let looser = 0;

    for (let step = 0; step < 3000; step += 1) {
      clock.set(clock() + random.below(3_000_000));
      const key = `k${random.below(4)}`;
      if (random.below(10) === 0)
        api.override(key, { average: 1 + random.below(40), burst: 1 + random.below(20) });
      const limit = api.for(key);
      // What the crowded store admits, a state of the key's own has to admit too.
      if (crowded.checkSync(limit).allowed) looser += roomy.checkSync(limit).allowed ? 0 : 1;
      // Else it sees the rate in use now as well, and spends nothing.
      else roomy.checkSync(limit, { cost: limit.limit + 1 });
    }

    expect(looser).toBe(0);
  },
);
