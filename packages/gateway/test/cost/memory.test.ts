// What a stream takes while it is watched does not depend on what is in it.
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { constants, createGzip, deflateSync } from 'node:zlib';
import { expect, test } from 'vitest';
import { UsageTap } from '../../src/cost/usage-tap.ts';
import { openAiStream } from './provider-responses.ts';

const STREAMS = 200;
const MOST_BYTES = 65_536;
const PIECE_BYTES = 16_384;

setFlagsFromString('--expose-gc');
const collect = runInNewContext('gc') as () => void;

/** What is in use behind a collection, in the heap and beside it, as buffers and zlib's windows are. */
function bytesInUse(): number {
  collect();
  collect();
  const { heapUsed, external } = process.memoryUsage();
  return heapUsed + external;
}

async function gzipped(text: string): Promise<Buffer> {
  const stream = createGzip({ flush: constants.Z_SYNC_FLUSH });
  const pieces: Buffer[] = [];
  stream.on('data', (piece: Buffer) => pieces.push(piece));
  await new Promise<void>((resolve) => {
    stream.write(text, () => {
      stream.flush(() => resolve());
    });
  });
  stream.destroy();
  return Buffer.concat(pieces);
}

/** Pseudo-random text: it does not compress well, and so moves the whole window. */
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
  ['an event stream', EVENTS, '', async () => Buffer.from(stream.slice(0, -500))],
  [
    'one event that does not end',
    EVENTS,
    '',
    async () => Buffer.from(`data: {"a":"${'x'.repeat(1_000_000)}`),
  ],
  ['one line that does not end', EVENTS, '', async () => Buffer.from('y'.repeat(1_000_000))],
  ['one huge string', JSON_TYPE, '', async () => Buffer.from(`{"a":"${'x'.repeat(1_000_000)}`)],
  ['one huge name', JSON_TYPE, '', async () => Buffer.from(`{"${'x'.repeat(1_000_000)}`)],
  ['one huge number', JSON_TYPE, '', async () => Buffer.from(`{"a":${'9'.repeat(1_000_000)}`)],
  ['deep nesting', JSON_TYPE, '', async () => Buffer.from('{"a":['.repeat(100_000))],
  ['many members', JSON_TYPE, '', async () => Buffer.from(`{${'"usage":{"a":1},'.repeat(60_000)}`)],
  ['gzip', EVENTS, 'gzip', async () => gzipped(`data: "${noise(200_000)}`)],
  ['deflate', JSON_TYPE, 'deflate', async () => deflateSync(`"${noise(200_000)}"`).subarray(0, -100)],
  ['a bomb', JSON_TYPE, 'gzip', async () => gzipped(`"${' '.repeat(8_000_000)}`)],
])('%s takes less than 64 KiB', async (_, contentType, contentEncoding, body) => {
  const bytes = await body();
  const pieces = Array.from({ length: Math.ceil(bytes.length / PIECE_BYTES) }, (__, at) =>
    bytes.subarray(at * PIECE_BYTES, (at + 1) * PIECE_BYTES),
  );
  const watch = async (): Promise<UsageTap> => {
    let drained: () => void = () => undefined;
    const tap = new UsageTap(
      { status: 200, contentType, contentEncoding },
      { tapDrained: () => drained(), tapEnded: () => undefined },
    );
    for (const piece of pieces) {
      const wait = new Promise<void>((resolve) => {
        drained = resolve;
      });
      if (!tap.write(piece)) await wait;
    }
    return tap;
  };
  // What is made once, whatever the number of streams.
  await watch();

  const before = bytesInUse();
  const taps: UsageTap[] = [];
  for (let at = 0; at < STREAMS; at += 1) taps.push(await watch());
  const perStream = (bytesInUse() - before) / taps.length;

  expect(perStream).toBeLessThan(MOST_BYTES);
  if (process.env['SHOW_MEMORY'] === '1') process.stdout.write(`${Math.round(perStream)} bytes\n`);
});
