import { createHash } from 'node:crypto';
import * as fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { MAX_KEY_LENGTH, MAX_PLAIN_KEY_LENGTH, toStateKey } from '../../src/limit.ts';
import { sha256Hex } from '../../src/sha256.ts';
import { seededRandom, type Random } from '../../src/testing/index.ts';
import { runs } from '../../../../test/runs.ts';

/** The platform's SHA-256 of the UTF-16 code units, big-endian. */
function referenceHash(text: string): string {
  return createHash('sha256').update(Buffer.from(text, 'utf16le').swap16()).digest('hex');
}

describe('sha256Hex', () => {
  test('agrees with node:crypto at every length from 0 to 200', () => {
    const random = seededRandom(1);
    const texts = Array.from({ length: 201 }, (_, length) => randomText(random, length));

    expect(texts.map(sha256Hex)).toEqual(texts.map(referenceHash));
  });

  test('agrees with node:crypto on 500 random texts of up to 2000 code units', () => {
    const random = seededRandom(2);
    const texts = Array.from({ length: 500 }, () => randomText(random, random.below(2000)));

    expect(texts.map(sha256Hex)).toEqual(texts.map(referenceHash));
  });

  test('agrees with node:crypto on text as people write it', () => {
    fc.assert(
      fc.property(fc.string({ unit: 'grapheme', maxLength: 300 }), (text) => {
        expect(sha256Hex(text)).toBe(referenceHash(text));
      }),
      { numRuns: runs(500) },
    );
    expect.hasAssertions();
  });

  test('agrees with node:crypto on a mebibyte', () => {
    const text = '\udfff'.repeat(2 ** 20);

    expect(sha256Hex(text)).toBe(referenceHash(text));
  });
});

describe('toStateKey', () => {
  test(`keeps up to ${MAX_PLAIN_KEY_LENGTH} characters as they are, and hashes what is longer`, () => {
    const [plain, long] = ['x'.repeat(MAX_PLAIN_KEY_LENGTH), 'x'.repeat(MAX_PLAIN_KEY_LENGTH + 1)];

    expect(toStateKey(plain)).toBe(plain);
    expect(toStateKey(long)).toBe(`~${referenceHash(long)}`);
  });

  test('hashes short keys that look like a hash, so nobody can spell the hash of another key', () => {
    const long = 'victim'.repeat(100);
    const spelt = toStateKey(long);

    expect(toStateKey(spelt)).not.toBe(spelt);
    expect(toStateKey('~')).toBe(`~${referenceHash('~')}`);
    expect(toStateKey('a~')).toBe('a~');
  });

  test('never makes one state key of two keys', () => {
    const alphabet = fc.constantFrom('~', 'a', '0', '\ud800', '\udc00', '\u0000');
    const piece = fc.string({ unit: alphabet, minLength: 1, maxLength: 140 });
    fc.assert(
      fc.property(piece, piece, (one, other) => {
        expect(toStateKey(one) === toStateKey(other)).toBe(one === other);
      }),
      { numRuns: runs(2000) },
    );
    expect.hasAssertions();
  });

  test('is bounded for every key it accepts', () => {
    const keys = ['a', 'x'.repeat(128), 'x'.repeat(129), '~'.repeat(64), 'x'.repeat(MAX_KEY_LENGTH)];

    expect(keys.map((key) => toStateKey(key).length)).toEqual([1, 128, 65, 65, 65]);
  });
});

/** Any code units at all: lone surrogates, NULs, noncharacters. */
function randomText(random: Random, length: number): string {
  return String.fromCharCode(...Array.from({ length }, () => random.below(0x1_00_00)));
}
