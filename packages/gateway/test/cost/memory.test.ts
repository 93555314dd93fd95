// What a stream takes while it is watched does not depend on what is in it.
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { deflateRawSync, deflateSync, gzipSync } from 'node:zlib';
import { expect, test } from 'vitest';
import { UsageTap } from '../../src/cost/usage-tap.ts';
import { openAiStream } from './provider-responses.ts';

const STREAMS = 50;
const MOST_BYTES = 65_536;
const PIECE_BYTES = 16_384;

setFlagsFromString('--expose-gc');
const collect = runInNewContext('gc') as () => void;

/** What is in use behind a collection, in the heap and in buffers beside it. */
function bytesInUse(): number {
  collect();
  collect();
  const { heapUsed, external } = process.memoryUsage();
  return heapUsed + external;
}

/** Pseudo-random text: it does not compress well, and so fills the whole window. */
function noise(bytes: number): string {
  let state = 1;
  let text = '';
  while (text.length < bytes) {
    state = (state * 48_271) % 2_147_483_647;
    text += state.toString(36);
  }
  return text;
}

const EVENTS = 'text/event-stream';
const JSON_TYPE = 'application/json';
const words = Array.from({ length: 2000 }, (_, at) => `word ${at}`);
const stream = openAiStream(words, { input: 5, output: 2000 });

test.each([
  ['an event stream', EVENTS, () => Buffer.from(stream.slice(0, -500))],
  ['one event that does not end', EVENTS, () => Buffer.from(`data: {"a":"${'x'.repeat(1_000_000)}`)],
  ['one line that does not end', EVENTS, () => Buffer.from('y'.repeat(1_000_000))],
  ['one huge string', JSON_TYPE, () => Buffer.from(`{"a":"${'x'.repeat(1_000_000)}`)],
  ['one huge name', JSON_TYPE, () => Buffer.from(`{"${'x'.repeat(1_000_000)}`)],
  ['one huge number', JSON_TYPE, () => Buffer.from(`{"a":${'9'.repeat(1_000_000)}`)],
  ['deep nesting', JSON_TYPE, () => Buffer.from('{"a":['.repeat(100_000))],
  ['many members', JSON_TYPE, () => Buffer.from(`{${'"usage":{"a":1},'.repeat(60_000)}`)],
  ['gzip', EVENTS, () => gzipSync(`data: "${noise(200_000)}"`).subarray(0, -100), 'gzip'],
  ['deflate', JSON_TYPE, () => deflateSync(`"${noise(200_000)}"`).subarray(0, -100), 'deflate'],
  ['bare deflate', JSON_TYPE, () => deflateRawSync(`"${noise(200_000)}"`).subarray(0, -100), 'deflate'],
  ['a bomb', JSON_TYPE, () => gzipSync(`"${' '.repeat(8_000_000)}`).subarray(0, -100), 'gzip'],
])('%s takes less than 64 KiB', (_, contentType, body, contentEncoding = '') => {
  const bytes = body();
  const pieces = Array.from({ length: Math.ceil(bytes.length / PIECE_BYTES) }, (__, at) =>
    bytes.subarray(at * PIECE_BYTES, (at + 1) * PIECE_BYTES),
  );
  const watch = (): UsageTap => {
    const tap = new UsageTap({ status: 200, contentType, contentEncoding });
    for (const piece of pieces) tap.write(piece);
    return tap;
  };
  // What is made once, whatever the number of streams.
  watch();

  const before = bytesInUse();
  const taps = Array.from({ length: STREAMS }, watch);
  const perStream = (bytesInUse() - before) / taps.length;

  expect(perStream).toBeLessThan(MOST_BYTES);
  if (process.env['SHOW_MEMORY'] === '1') process.stdout.write(`${Math.round(perStream)} bytes\n`);
});
