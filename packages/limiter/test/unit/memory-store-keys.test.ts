import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { describe, expect, test } from 'vitest';
import { createLimiter, fixedWindow, type Limiter } from '../../src/index.ts';
import { toStateKey } from '../../src/key.ts';
import { seededRandom, virtualClock } from '../../src/testing/index.ts';

const once = fixedWindow({ name: 'once', quota: 1, window: '1h' });

function newLimiter(): Limiter {
  return createLimiter({ clock: virtualClock() });
}

/** True if every key had its one admission, and only that one, whatever the others did. */
function eachHasItsOwn(limiter: Limiter, keys: readonly string[]): { first: number; second: number } {
  const count = () => keys.filter((key) => limiter.checkSync(once.for(key)).allowed).length;
  return { first: count(), second: count() };
}

describe('every key has a state of its own', () => {
  const long = 'x'.repeat(2 ** 20 - 1);
  const HOSTILE: Readonly<Record<string, readonly string[]>> = {
    'names that objects have': [
      '__proto__',
      'constructor',
      'toString',
      'hasOwnProperty',
      'prototype',
      'length',
      'undefined',
      'null',
    ],
    'lone surrogates': [
      '\ud800',
      '\ud801',
      '\udbff',
      '\udc00',
      '\udfff',
      '\ufffd',
      '\ud800\ud800',
      '\udc00\ud800',
    ],
    'NUL and other controls': [
      '\u0000',
      '\u0000\u0000',
      '\u0001',
      '\n',
      '\r\n',
      '\u007f',
      'a',
      'a\u0000',
      '\u0000a',
    ],
    'characters that look alike': [
      '\u00e9',
      'e\u0301',
      'e',
      'E',
      '\u212b',
      '\u00c5',
      ' ',
      '\u00a0',
      '\u200b',
    ],
    'numbers in other clothes': ['0', '-0', '00', '1', '1.0', '1e0', '01', ' 1', '1 '],
    'separators and hash tags': [
      'a:b',
      'a/b',
      'a|b',
      '{a}b',
      '{a}c',
      'a{b}',
      '*',
      '?',
      '[a]',
      'once/fixedWindow',
    ],
    'a mebibyte that differs in its last or first character': [
      `${long}a`,
      `${long}b`,
      `a${long}`,
      `b${long}`,
      long,
    ],
    'the length at which keys are hashed': Array.from({ length: 8 }, (_, at) => 'x'.repeat(125 + at)),
    'keys that spell the hash of another key': [
      long,
      toStateKey(long),
      toStateKey(toStateKey(long)),
      toStateKey(long).slice(1),
      '~',
      toStateKey('~'),
    ],
  };

  test.each(Object.entries(HOSTILE))('%s', (_, keys) => {
    expect(eachHasItsOwn(newLimiter(), keys)).toEqual({ first: keys.length, second: 0 });
  });

  test('100,000 hostile texts', () => {
    const random = seededRandom(42);
    const pieces = [
      '__proto__',
      '\ud800',
      '\udfff',
      '\u0000',
      '~',
      '{',
      '}',
      ':',
      '\n',
      '\u202e',
      'é',
      'e\u0301',
      '\ufffd',
    ];
    const keys = new Set<string>();
    while (keys.size < 100_000) {
      keys.add(Array.from({ length: 1 + random.below(12) }, () => random.pick(pieces)).join(''));
    }

    expect(eachHasItsOwn(newLimiter(), [...keys])).toEqual({ first: 100_000, second: 0 });
  });

  test('the same text is the same key, however it was put together', () => {
    const limiter = newLimiter();
    const parts = ['session', '-', '0123456789abcdef'];

    const first = limiter.checkSync(once.for(parts.join('')));
    const sliced = limiter.checkSync(once.for('[session-0123456789abcdef]'.slice(1, -1)));
    const glued = limiter.checkSync(once.for(`${parts[0]}${parts[1]}${parts[2]}`));

    expect([first.allowed, sliced.allowed, glued.allowed]).toEqual([true, false, false]);
  });

  test('the same key under another policy is another state', () => {
    const limiter = newLimiter();
    const policies = ['a', 'b', 'a.b'].map((name) => fixedWindow({ name, quota: 1, window: '1h' }));

    const decisions = policies.map((policy) => limiter.checkSync(policy.for('ann')).allowed);

    expect(decisions).toEqual([true, true, true]);
  });
});

describe('a key cut out of a large text does not keep that text alive', () => {
  // Never freed, so that no later measurement sees it go.
  const kept: string[] = [];

  test('the engine itself would: 200 parts of 100 kB each keep 20 MB, and the measurement shows it', () => {
    const growth = heapGrowth(() => {
      for (let at = 0; at < 200; at += 1) kept.push(partOfLargeText(at, 40));
    });

    expect(kept).toHaveLength(200);
    expect(growth).toBeGreaterThan(15_000_000);
  });

  test.each([20, 40, 128])('2,000 keys of %d characters, each out of its own 100 kB', (length) => {
    const limiter = newLimiter();

    const growth = heapGrowth(() => {
      for (let at = 0; at < 2000; at += 1) limiter.checkSync(once.for(partOfLargeText(at, length)));
    });

    expect(limiter.checkSync(once.for(partOfLargeText(1999, length))).allowed).toBe(false);
    expect(growth).toBeLessThan(20_000_000);
  });
});

/** Cut out of a text of 100 kB that nothing else refers to. */
function partOfLargeText(at: number, length: number): string {
  const text = Buffer.alloc(100_000, `header ${at} value `).toString('latin1');
  return text.slice(1000, 1000 + length);
}

function heapGrowth(run: () => void): number {
  const before = heapUsed();
  run();
  return heapUsed() - before;
}

function heapUsed(): number {
  setFlagsFromString('--expose-gc');
  const collect = runInNewContext('gc') as () => void;
  // The first pass may leave what only weak references and finalizers of the second let go.
  for (let pass = 0; pass < 3; pass += 1) collect();
  return process.memoryUsage().heapUsed;
}
