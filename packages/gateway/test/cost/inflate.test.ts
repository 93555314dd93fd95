// Unpacks what Node.js has packed, to the byte, however it comes.
import { constants, deflateRawSync, deflateSync, gunzipSync, gzipSync, inflateRawSync } from 'node:zlib';
import * as fc from 'fast-check';
import { expect, test } from 'vitest';
import { runs } from '../../../../test/runs.ts';
import { contentDecoder } from '../../src/cost/content-decoder.ts';

interface Unpacked {
  readonly bytes: Buffer;
  /** How often the end was told. */
  readonly ends: number;
}

function unpack(pieces: readonly Buffer[], encoding: string): Unpacked {
  const parts: Buffer[] = [];
  let ends = 0;
  const decoder = contentDecoder(encoding, {
    data: (bytes) => parts.push(Buffer.from(bytes)),
    ended: () => (ends += 1),
  });
  for (const piece of pieces) decoder?.write(piece);
  decoder?.end();
  return { bytes: Buffer.concat(parts), ends };
}

function cutInto(body: Buffer, places: readonly number[]): readonly Buffer[] {
  const sorted = places.map((place) => place % (body.length + 1)).toSorted((one, other) => one - other);
  return [0, ...sorted].map((from, at) => body.subarray(from, sorted[at] ?? body.length));
}

/** From noise to one letter: every kind of block, and copies from as far back as there are. */
const texts = fc
  .tuple(fc.nat(90_000), fc.constantFrom(1, 2, 3, 16, 256), fc.nat(40_000), fc.nat())
  .map(([length, letters, repeatedAfter, seed]) => {
    const bytes = Buffer.alloc(length);
    let state = (seed % 2_147_483_646) + 1;
    for (let at = 0; at < length; at += 1) {
      state = (state * 48_271) % 2_147_483_647;
      const isRepeated = repeatedAfter > 0 && at >= repeatedAfter && (state >> 8) % 20 > 0;
      bytes[at] = isRepeated ? (bytes[at - repeatedAfter] ?? 0) : (state >> 4) % letters;
    }
    return bytes;
  });
const options = fc.record({
  level: fc.integer({ min: 0, max: 9 }),
  memLevel: fc.integer({ min: 1, max: 9 }),
  windowBits: fc.integer({ min: 9, max: 15 }),
  strategy: fc.constantFrom(
    constants.Z_DEFAULT_STRATEGY,
    constants.Z_FILTERED,
    constants.Z_HUFFMAN_ONLY,
    constants.Z_RLE,
    constants.Z_FIXED,
  ),
});
const cuts = fc.array(fc.nat(100_000), { maxLength: 40 });

test.each([
  ['gzip', gzipSync],
  ['deflate', deflateSync],
  ['deflate', deflateRawSync],
] as const)('what was packed as %s is unpacked, however it is cut', (encoding, pack) => {
  fc.assert(
    fc.property(texts, options, cuts, (text, how, places) => {
      const found = unpack(cutInto(pack(text, how), places), encoding);

      expect(found.bytes.equals(text)).toBe(true);
      expect(found.ends).toBe(1);
    }),
    { numRuns: runs(300) },
  );
});

test('a byte at a time is enough', () => {
  const text = Buffer.from('to be, or not to be, that is the question: '.repeat(40));

  for (const how of [{}, { strategy: constants.Z_FIXED }, { level: 0 }]) {
    const pieces = [...gzipSync(text, how)].map((byte) => Buffer.from([byte]));
    expect(unpack(pieces, 'gzip').bytes.equals(text)).toBe(true);
  }
});

test('members of gzip follow each other, with all that their headers may have', () => {
  const plain = gzipSync('one ');
  const rich = Buffer.concat([
    Buffer.from([0x1f, 0x8b, 8, 2 | 4 | 8 | 16, 0, 0, 0, 0, 0, 3]),
    Buffer.from([3, 0, 1, 2, 3]), // the extra field
    Buffer.from('name\0comment\0'),
    Buffer.from([9, 9]), // the header's checksum
    gzipSync('two ').subarray(10),
  ]);
  const body = Buffer.concat([plain, rich, gzipSync('three'), Buffer.from('garbage')]);
  const pieces = [...body].map((byte) => Buffer.from([byte]));

  expect(unpack([body], 'gzip').bytes.toString()).toBe('one two three');
  expect(unpack(pieces, 'gzip').bytes.toString()).toBe('one two three');
});

test('what was packed up to a moment is unpacked then', () => {
  const text = 'data: {"a":1}\n\n'.repeat(100);
  const packed = gzipSync(text, { finishFlush: constants.Z_SYNC_FLUSH });

  expect(unpack([packed], 'gzip').bytes.toString()).toBe(text);
});

test('bytes that are wrong end it, without more than Node.js itself finds in them', () => {
  const flips = fc.tuple(fc.nat(100_000), fc.nat(7));
  fc.assert(
    fc.property(texts, options, fc.array(flips, { minLength: 1, maxLength: 3 }), (text, how, wrong) => {
      const packed = deflateRawSync(text, how);
      for (const [at, bit] of wrong)
        packed[at % packed.length] = (packed[at % packed.length] ?? 0) ^ (1 << bit);
      // One that looks as if it were wrapped is another case.
      fc.pre(packed[0] !== 0x1f && ((packed[0] ?? 0) & 0x0f) !== 8);
      const found = unpack([packed], 'deflate');

      expect(found.ends).toBe(1);
      const whole = unpackedByNode(() => inflateRawSync(packed));
      if (whole !== undefined) expect(found.bytes.equals(whole)).toBe(true);
    }),
    { numRuns: runs(300) },
  );
});

test.each([
  ['no gzip', Buffer.from('this is no gzip')],
  ['no method', Buffer.from([0x1f, 0x8b, 7, 0, 0, 0, 0, 0, 0, 3, 1])],
  ['no block', Buffer.from([0x07])],
  ['a stored block of a wrong length', Buffer.from([0x01, 5, 0, 5, 0, 1, 2, 3, 4, 5])],
  ['a copy from before the beginning', Buffer.from([0x4b, 0x04, 0x42, 0x00])],
  ['nothing', Buffer.alloc(0)],
])('%s ends it once', (_, body) => {
  const { ends } = unpack([body], 'deflate');

  expect(ends).toBe(1);
});

test('random bytes never throw, and what Node.js takes is the same', () => {
  fc.assert(
    fc.property(fc.uint8Array({ maxLength: 400 }), cuts, (random, places) => {
      const body = Buffer.concat([Buffer.from([0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 3]), random]);
      const found = unpack(cutInto(body, places), 'gzip');

      expect(found.ends).toBe(1);
      const whole = unpackedByNode(() => gunzipSync(body));
      if (whole !== undefined) expect(found.bytes.equals(whole)).toBe(true);
    }),
    { numRuns: runs(2000) },
  );
});

function unpackedByNode(unpacked: () => Buffer): Buffer | undefined {
  try {
    return unpacked();
  } catch {
    return undefined;
  }
}
