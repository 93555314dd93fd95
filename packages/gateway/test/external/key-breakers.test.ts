import { expect, test } from 'vitest';
import { KeyBreakers } from '../../src/external/key-breakers.ts';

const MANY = { threshold: 5, openMs: 30_000, probeLeaseMs: 6000, max: 3, idleMs: 60_000 };

function failKey(breakers: KeyBreakers, key: string, nowMs: number, times = 1): void {
  for (let at = 0; at < times; at += 1) {
    const permit = breakers.enter(key, nowMs);
    if (permit !== undefined) breakers.failed(key, permit, { nowMs, retryAfterMs: 0 });
  }
}

test('one key failing leaves the others alone', () => {
  const breakers = new KeyBreakers(MANY);

  failKey(breakers, 'a', 0, 5);

  expect(breakers.enter('a', 0)).toBeUndefined();
  expect(breakers.enter('b', 0)).toBeDefined();
  expect([breakers.size, breakers.openCount]).toEqual([1, 1]);
});

test('a key that works needs no breaker', () => {
  const breakers = new KeyBreakers(MANY);
  failKey(breakers, 'a', 0, 4);
  expect(breakers.size).toBe(1);

  breakers.succeeded('a', breakers.enter('a', 0) ?? { probe: -1 });

  expect(breakers.size).toBe(0);
});

test('past the bound closed breakers go, the longest unused first, and open ones stay', () => {
  const breakers = new KeyBreakers(MANY);
  failKey(breakers, 'open', 0, 5);
  failKey(breakers, 'old', 1, 4);
  failKey(breakers, 'new', 2, 4);

  failKey(breakers, 'next', 3);

  expect(breakers.size).toBe(3);
  expect(breakers.isOpen('open')).toBe(true);
  failKey(breakers, 'new', 4);
  expect(breakers.isOpen('new')).toBe(true);
  failKey(breakers, 'old', 5);
  expect(breakers.isOpen('old')).toBe(false);
});

test('with only open ones, a flood of other keys closes none of them and takes no memory', () => {
  const breakers = new KeyBreakers(MANY);
  for (const key of ['a', 'b', 'c']) failKey(breakers, key, 0, 5);

  for (let at = 0; at < 1000; at += 1) failKey(breakers, `flood${at}`, 1, 5);

  expect([breakers.size, breakers.openCount]).toEqual([3, 3]);
});

test('what nobody used for 60 s is dropped, but not while it is open', () => {
  const breakers = new KeyBreakers({ ...MANY, openMs: 100_000, max: 10 });
  failKey(breakers, 'idle', 0, 2);
  failKey(breakers, 'open', 0, 5);

  failKey(breakers, 'other', 59_999);
  expect(breakers.size).toBe(3);
  failKey(breakers, 'other', 60_000);
  expect(breakers.size).toBe(2);
  expect(breakers.isOpen('open')).toBe(true);
  failKey(breakers, 'other', 100_000);
  expect(breakers.isOpen('open')).toBe(false);
});
