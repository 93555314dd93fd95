import { getHeapSnapshot } from 'node:v8';
import { describe, expect, test } from 'vitest';
import { createLimiter, fixedWindow, type Limiter } from '../../src/index.ts';
import { toStateKey } from '../../src/limit.ts';
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
    'separators and hash tags': ['a:b', 'a/b', 'a|b', '{a}b', '{a}c', 'a{b}', '*', '?', '[a]', 'once/3'],
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
  test('the engine itself would: 200 parts that are kept keep 200 large texts', async () => {
    const kept = Array.from({ length: 200 }, (_, at) => partOfLargeText('kept', at, 40));

    expect(await countLargeTexts('kept')).toBe(200);
    expect(new Set(kept).size).toBe(200);
  });

  test.each([20, 40, 128])('2,000 keys of %d characters, each out of its own text', async (length) => {
    const limiter = newLimiter();
    const name = `cut at ${length}`;
    const first = countAdmitted(limiter, name, length);

    const alive = await countLargeTexts(name);

    // Room for what the engine itself may hold on to, such as the subject of the last match.
    expect(alive).toBeLessThan(20);
    expect([first, countAdmitted(limiter, name, length)]).toEqual([2000, 0]);
  });
});

/** Returns before anything is measured: a frame that waits would keep its last strings alive. */
function countAdmitted(limiter: Limiter, name: string, length: number): number {
  let admitted = 0;
  for (let at = 0; at < 2000; at += 1) {
    if (limiter.checkSync(once.for(partOfLargeText(name, at, length))).allowed) admitted += 1;
  }
  return admitted;
}

/** Cut out of a text of 100 kB that nothing else refers to, and that says at its start who it is. */
function partOfLargeText(name: string, at: number, length: number): string {
  const bytes = Buffer.alloc(100_000, 'some filling ');
  bytes.write(`<${name} ${at}>`, 0);
  bytes.write(`key ${at} `, 1000);
  return bytes.toString('latin1').slice(1000, 1000 + length);
}

/**
 * How many of the texts are alive. Looks for each of them in a heap snapshot, which collects garbage first: unlike the
 * size of the heap, the answer does not depend on what else is in there.
 */
async function countLargeTexts(name: string): Promise<number> {
  const chunks: string[] = [];
  for await (const chunk of getHeapSnapshot()) chunks.push(String(chunk));
  const starts = chunks.join('').matchAll(new RegExp(`"<${name} (\\d+)>`, 'g'));
  return new Set(Array.from(starts, ([, at]) => at)).size;
}
