import { deflateRawSync, deflateSync, gzipSync } from 'node:zlib';
import * as fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { runs } from '../../../../test/runs.ts';
import { UsageTap, type TappedHead } from '../../src/cost/usage-tap.ts';
import type { CountedTokens, UsageCount } from '../../src/cost/token-usage.ts';
import { events, EVENTS, JSON_TYPE, namedEvents, RESPONSES } from './provider-responses.ts';

const CHUNKINGS = runs(1000);
const TOTAL: UsageCount = { count: 'total', cached_input: 'counted' };

interface Tapped {
  readonly tap: UsageTap;
  readonly used: CountedTokens;
}

/** Gives a response to a tap in pieces. */
function tapped(pieces: readonly Buffer[], head: Partial<TappedHead>, count: UsageCount = TOTAL): Tapped {
  const tap = new UsageTap({ status: 200, contentType: JSON_TYPE, contentEncoding: '', ...head });
  for (const piece of pieces) tap.write(piece);
  tap.end();
  return { tap, used: tap.used(count, () => 1000) };
}

function cutAt(body: Buffer, places: readonly number[]): readonly Buffer[] {
  const sorted = [...new Set(places.map((place) => place % body.length))].toSorted(
    (one, other) => one - other,
  );
  return [0, ...sorted].map((from, at) => body.subarray(from, sorted[at] ?? body.length));
}

const places = fc.array(fc.nat(100_000), { maxLength: 60 });

describe.each(RESPONSES)('$name', ({ contentType, body, used }) => {
  test.each(['total', 'input', 'output'] as const)(
    'says the same %s however it is cut into pieces',
    (count) => {
      const bytes = Buffer.from(body);
      fc.assert(
        fc.property(places, (cuts) => {
          const found = tapped(cutAt(bytes, cuts), { contentType }, { ...TOTAL, count });
          expect(found.used).toEqual({ tokens: used[count], estimated: false });
        }),
        { numRuns: CHUNKINGS },
      );
    },
  );

  test.each([
    ['gzip', gzipSync],
    ['deflate', deflateSync],
    ['deflate', deflateRawSync],
  ] as const)('is read as %s', (contentEncoding, compress) => {
    const bytes = compress(Buffer.from(body));
    fc.assert(
      fc.property(places, (cuts) => {
        const found = tapped(cutAt(bytes, cuts), { contentType, contentEncoding });
        expect(found.used).toEqual({ tokens: used.total, estimated: false });
      }),
      { numRuns: 20 },
    );
  });

  test('says the same one byte at a time', () => {
    const pieces = [...Buffer.from(body)].map((byte) => Buffer.from([byte]));

    expect(tapped(pieces, { contentType }).used).toEqual({ tokens: used.total, estimated: false });
  });
});

function usedBy(body: string, head: Partial<TappedHead> = {}, count = TOTAL): CountedTokens {
  return tapped([Buffer.from(body)], head, count).used;
}

test('lines of a stream may end in every way that the standard knows', () => {
  const stream = events({ usage: { prompt_tokens: 2, total_tokens: 5 } }, '[DONE]');

  for (const end of ['\n', '\r\n', '\r']) {
    const found = tapped(
      [...Buffer.from(`\uFEFF: hello${end}${stream.replaceAll('\n', end)}`)].map((byte) =>
        Buffer.from([byte]),
      ),
      { contentType: EVENTS },
    );
    expect(found.used).toEqual({ tokens: 5, estimated: false });
  }
});

test('data over several lines is one text', () => {
  const stream = 'data: {"usage":\ndata:{"prompt_tokens":2,\ndata: "total_tokens":5}}\n\n';

  expect(usedBy(stream, { contentType: EVENTS })).toEqual({ tokens: 5, estimated: false });
});

test.each([
  ['a string', '{"content":"\\"usage\\":{\\"total_tokens\\":5}"}'],
  ['an array', '[{"usage":{"prompt_tokens":1,"total_tokens":5}}]'],
  ['a member of something else', '{"metadata":{"usage":{"prompt_tokens":1,"total_tokens":5}}}'],
  ['a message of another type', '{"type":"ping","message":{"usage":{"input_tokens":1,"output_tokens":5}}}'],
  ['text that is not JSON', '{"usage":{"prompt_tokens":1,"total_tokens":5}'],
  ['text with something behind it', '{"usage":{"prompt_tokens":1,"total_tokens":5}} {}'],
  ['a fraction', '{"usage":{"prompt_tokens":1.5,"total_tokens":5.5}}'],
  ['a number below zero', '{"usage":{"prompt_tokens":-1,"total_tokens":-5}}'],
  ['a number that is too long', `{"usage":{"total_tokens":${'9'.repeat(400)}}}`],
  ['text', '{"usage":{"prompt_tokens":"1","total_tokens":"5"}}'],
])('usage in %s is none', (_, body) => {
  expect(usedBy(body).estimated).toBe(true);
});

test('a name with escapes is the name that they spell', () => {
  expect(usedBy('{"\\u0075sage":{"prompt_tokens":1,"total\\u005ftokens":5}}')).toEqual({
    tokens: 5,
    estimated: false,
  });
});

test('tokens from the cache of the provider can be free', () => {
  const free: UsageCount = { count: 'total', cached_input: 'free' };
  const openAi =
    '{"usage":{"prompt_tokens":100,"completion_tokens":5,"total_tokens":105,"prompt_tokens_details":{"cached_tokens":60}}}';
  const anthropic =
    '{"usage":{"input_tokens":10,"cache_read_input_tokens":60,"cache_creation_input_tokens":3,"output_tokens":5}}';

  expect(usedBy(openAi, {}, free)).toEqual({ tokens: 45, estimated: false });
  expect(usedBy(anthropic, {}, free)).toEqual({ tokens: 18, estimated: false });
  expect(usedBy(anthropic)).toEqual({ tokens: 78, estimated: false });
});

test('a stream without usage is estimated from what the model said', () => {
  const words = Array.from({ length: 10 }, () => ({ choices: [{ delta: { content: 'four' } }] }));

  expect(usedBy(events(...words, '[DONE]'), { contentType: EVENTS })).toEqual({
    tokens: 1010,
    estimated: true,
  });
});

test('a stream that breaks off is charged for what it was asked, as the provider said, and what was sent', () => {
  const start = {
    type: 'message_start',
    message: { usage: { input_tokens: 40, output_tokens: 1 } },
  };
  const word = { type: 'content_block_delta', delta: { type: 'text_delta', text: 'four' } };

  expect(usedBy(namedEvents(start, word, word, word), { contentType: EVENTS })).toEqual({
    tokens: 43,
    estimated: true,
  });
});

test('JSON without usage is estimated from its length, and an error has used nothing', () => {
  const body = JSON.stringify({ choices: [], padding: 'x'.repeat(367) });

  expect(usedBy(body)).toEqual({ tokens: 1000 + Math.ceil(body.length / 4), estimated: true });
  expect(usedBy('{"error":{"message":"no"}}', { status: 429 })).toEqual({
    tokens: 0,
    estimated: false,
  });
});

test('what nobody can read says so', () => {
  expect(tapped([], { contentType: 'audio/mpeg' }).tap.isUnreadable).toBe(true);
  for (const contentEncoding of ['gzip, br', 'br', 'zstd', 'compress']) {
    expect(tapped([], { contentEncoding }).tap.isUnreadable).toBe(true);
  }
});

test('a bomb is left alone', () => {
  const bomb = gzipSync(`"${' '.repeat(64 * 2 ** 20)}"`);

  const { used: counted } = tapped([bomb], { contentEncoding: 'gzip' });

  expect(counted.estimated).toBe(true);
  // What was decoded before it was clear: 4 MiB and 32 times its length.
  expect(counted.tokens).toBeLessThan(1000 + (4 * 2 ** 20 + 33 * bomb.length) / 4);
});

test('compressed bytes that are none end the reading, and nothing else', () => {
  const found = tapped([Buffer.from('this is no gzip')], { contentEncoding: 'gzip' });

  expect(found.used.estimated).toBe(true);
});

const SHAPES = fc.letrec((tie) => ({
  value: fc.oneof(
    { maxDepth: 4 },
    fc.string({ unit: 'binary', maxLength: 12 }),
    fc.double({ noNaN: true, noDefaultInfinity: true }),
    fc.boolean(),
    fc.constant(null),
    fc.array(tie('value'), { maxLength: 4 }),
    fc.dictionary(fc.constantFrom('usage', 'total_tokens', 'message', 'response', 'a"b'), tie('value'), {
      maxKeys: 4,
    }),
  ),
})).value;

test('every JSON text is found to be whole, and only what it says at its place counts', () => {
  fc.assert(
    fc.property(SHAPES, fc.nat(1000), places, fc.nat(4), (content, total, cuts, indent) => {
      const body = JSON.stringify(
        { content, usage: { prompt_tokens: 1, total_tokens: total } },
        null,
        indent,
      );
      const found = tapped(cutAt(Buffer.from(body), cuts), {});
      expect(found.used).toEqual({ tokens: total, estimated: false });
    }),
    { numRuns: runs(1000) },
  );
});
