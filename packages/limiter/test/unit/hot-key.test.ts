import { expect, test } from 'vitest';
import { createLimiter, fixedWindow, memoryStore, type Limiter } from '../../src/index.ts';
import { PackedKey } from '../../src/stores/memory/slab.ts';
import { virtualClock } from '../../src/testing/index.ts';

const CALLS = 1000;
const OTHERS = 5000;
const api = fixedWindow({ name: 'api', quota: 1_000_000, window: '1h' });

function newLimiter(): Limiter {
  const clock = virtualClock();
  return createLimiter({ store: memoryStore({ clock }), clock });
}

/** Often enough that the table has noted where it is. */
function askOften(limiter: Limiter, key: string): void {
  for (let call = 0; call < CALLS; call += 1) limiter.checkSync(api.for(key));
}

function spentBy(limiter: Limiter, key: string): number {
  const { limit, remaining } = limiter.checkSync(api.for(key), { cost: 0 });
  return limit - remaining;
}

test('a key that is asked for all the time is counted on while its table grows around it', () => {
  const limiter = newLimiter();
  askOften(limiter, 'ann');

  for (let other = 0; other < OTHERS; other += 1) {
    limiter.checkSync(api.for(`other ${other}`));
    limiter.checkSync(api.for('ann'));
  }

  expect(spentBy(limiter, 'ann')).toBe(CALLS + OTHERS);
  expect(spentBy(limiter, 'other 0')).toBe(1);
});

test('and while keys around it are forgotten, which moves those behind them', async () => {
  const limiter = newLimiter();
  const others = Array.from({ length: OTHERS }, (_, other) => `other ${other}`);
  for (const other of others) limiter.checkSync(api.for(other));
  askOften(limiter, 'ann');

  for (const other of others) {
    await limiter.forget(api.for(other));
    limiter.checkSync(api.for('ann'));
  }

  expect(spentBy(limiter, 'ann')).toBe(CALLS + OTHERS);
  expect(others.filter((other) => spentBy(limiter, other) !== 0)).toEqual([]);
});

test('forgotten, it starts anew, and whoever gets its place does not inherit from it', async () => {
  const limiter = newLimiter();
  askOften(limiter, 'ann');
  await limiter.forget(api.for('ann'));

  const afresh = limiter.checkSync(api.for('ann'));

  expect(afresh.limit - afresh.remaining).toBe(1);
  expect(spentBy(limiter, 'bob')).toBe(0);
});

test('a key whose characters share the bytes of another is not that one', () => {
  const packed = new PackedKey(7);
  packed.pack('ab');
  const narrow = packed.words[0];
  // U+6261 has in its two bytes what "a" and "b" have in one each.
  packed.pack('\u6261\u0000');

  expect(packed.words[0]).toBe(narrow);
  expect(packed.isNarrow).toBe(false);
});

test.each(['1', 'ab', 'abc', 'abcd', 'abcde', 'é', 'x'.repeat(39), 'x'.repeat(40), 'x'.repeat(41), '€uro'])(
  'a key %j is told apart from all that differ in one character',
  (key) => {
    const limiter = newLimiter();
    const neighbours = Array.from(key, (_, at) => `${key.slice(0, at)}!${key.slice(at + 1)}`);
    limiter.checkSync(api.for(key), { cost: 5 });

    for (const neighbour of neighbours) limiter.checkSync(api.for(neighbour));

    expect(spentBy(limiter, key)).toBe(5);
    for (const neighbour of neighbours) expect(spentBy(limiter, neighbour)).toBe(1);
  },
);
