import * as fc from 'fast-check';
import { expect, test } from 'vitest';
import { KeySketch, mergeSketches, type SketchSnapshot } from '../../src/fleet/key-sketch.ts';

/** Skewed, so that some keys are worth a counter and most are not. */
const KEYS = fc.array(
  fc.integer({ min: 0, max: 30 }).map((n) => `k${Math.floor(n ** 2 / 30)}`),
  { maxLength: 400 },
);

function counted(keys: readonly string[]): ReadonlyMap<string, number> {
  const counts = new Map<string, number>();
  for (const key of keys) counts.set(key, (counts.get(key) ?? 0) + 1);
  return counts;
}

function sketched(keys: readonly string[], capacity: number): KeySketch {
  const sketch = new KeySketch(capacity);
  for (const key of keys) sketch.add('api', key);
  return sketch;
}

/** Every count is at least the true one and at most `error` above it; what is not listed is below the floor. */
function expectBounds({ keys, floor }: SketchSnapshot, truth: ReadonlyMap<string, number>): void {
  for (const { key, count, error } of keys) {
    expect(count).toBeGreaterThanOrEqual(truth.get(key) ?? 0);
    expect(count - error).toBeLessThanOrEqual(truth.get(key) ?? 0);
  }
  const listed = new Set(keys.map(({ key }) => key));
  for (const [key, count] of truth) if (!listed.has(key)) expect(count).toBeLessThanOrEqual(floor);
}

test('the bounds of a sketch hold for every stream, and a frequent key is always listed', () => {
  fc.assert(
    fc.property(KEYS, fc.integer({ min: 1, max: 12 }), (keys, capacity) => {
      const snapshot = sketched(keys, capacity).snapshot();
      const truth = counted(keys);

      expectBounds(snapshot, truth);
      expect(snapshot.keys.length).toBeLessThanOrEqual(capacity);
      const frequent = [...truth].filter(([, count]) => count > keys.length / capacity);
      const listed = snapshot.keys.map(({ key }) => key);
      expect(listed).toEqual(expect.arrayContaining(frequent.map(([key]) => key)));
    }),
  );
});

test('they also hold when the sketches of several instances are merged, whole or cut short', () => {
  fc.assert(
    fc.property(
      fc.array(KEYS, { minLength: 1, maxLength: 4 }),
      fc.integer({ min: 1, max: 8 }),
      fc.integer({ min: 1, max: 8 }),
      (streams, capacity, most) => {
        const snapshots = streams.map((keys) => sketched(keys, capacity).snapshot(most));

        const merged = mergeSketches(snapshots, most);

        expectBounds(merged, counted(streams.flat()));
        expect(merged.keys.length).toBeLessThanOrEqual(most);
      },
    ),
  );
});

test('keys of two policies are different keys', () => {
  const sketch = new KeySketch(4);
  sketch.add('a', 'ann');
  sketch.add('b', 'ann');
  sketch.add('b', 'ann');

  expect(sketch.snapshot().keys).toEqual([
    { policy: 'b', key: 'ann', count: 2, error: 0 },
    { policy: 'a', key: 'ann', count: 1, error: 0 },
  ]);
});
