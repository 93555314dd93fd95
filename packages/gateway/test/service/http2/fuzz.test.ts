// Whatever comes over a connection, it is served or refused by the rules; nothing of ours breaks.
import { Duplex } from 'node:stream';
import type { Socket } from 'node:net';
import * as fc from 'fast-check';
import { expect, test } from 'vitest';
import { FrameConnection } from '../../../src/service/http2/connection.ts';
import { encodeHeaders } from '../../../src/service/http2/hpack.ts';
import { frame, hpack, PSEUDO, replaced, TYPE } from '../../proxy/http2-frames.ts';
import { echo } from './stream-server.ts';

const PREFACE = Buffer.concat([Buffer.from('PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n'), frame(TYPE.settings, 0, 0)]);
const POST = hpack(replaced(':method', 'POST'));
const INDEXED = Buffer.concat([POST, Buffer.from([0x40]), hpack([['a', 'b']]).subarray(1)]);
const KNOWN_PAYLOADS = [
  POST,
  INDEXED,
  Buffer.concat([POST, Buffer.from([0xbe])]),
  hpack([...PSEUDO, ['content-length', '3']]),
  hpack([['a', 'b']]),
  Buffer.from('abc'),
  Buffer.alloc(4),
  Buffer.from([0, 0, 0, 8]),
  Buffer.from([0x7f, 0xff, 0xff, 0xff]),
  Buffer.alloc(5),
  Buffer.alloc(8),
  Buffer.from([0, 4, 0, 0, 0, 3]),
  Buffer.from([0, 4, 0x7f, 0xff, 0xff, 0xff]),
  Buffer.alloc(16_384, 'x'),
];

const anyFrame = fc
  .record({
    type: fc.oneof({ weight: 4, arbitrary: fc.constantFrom(0, 1, 3, 8, 9) }, fc.nat({ max: 12 })),
    flags: fc.oneof({ weight: 4, arbitrary: fc.constantFrom(0, 1, 4, 5) }, fc.nat({ max: 255 })),
    stream: fc.oneof({ weight: 4, arbitrary: fc.constantFrom(1, 3, 5, 7, 9) }, fc.nat({ max: 2 ** 31 - 1 })),
    payload: fc.oneof(
      { weight: 4, arbitrary: fc.constantFrom(...KNOWN_PAYLOADS) },
      fc.uint8Array({ maxLength: 64 }).map((bytes) => Buffer.from(bytes)),
    ),
  })
  .map(({ type, flags, stream, payload }) => frame(type, flags, stream, payload));

/** Frames of any kind, some bytes of them changed, in pieces of any size. */
const conversation = fc.record({
  frames: fc.array(anyFrame, { minLength: 1, maxLength: 40 }),
  changes: fc.array(fc.record({ at: fc.nat({ max: 5000 }), to: fc.nat({ max: 255 }) }), { maxLength: 4 }),
  cut: fc.integer({ min: 1, max: 5000 }),
});

function talk({
  frames,
  changes,
  cut,
}: {
  frames: Buffer[];
  changes: { at: number; to: number }[];
  cut: number;
}) {
  const sent: Buffer[] = [];
  const failures: unknown[] = [];
  const socket = new Duplex({
    read: () => undefined,
    write: (chunk: Buffer, _, done) => {
      sent.push(chunk);
      done();
    },
  });
  void new FrameConnection(socket, {
    open: (stream) => {
      if (stream.id % 4 === 1) echo(stream, socket as Socket);
      else {
        stream.listener = {
          data: () => true,
          end: () =>
            stream.answer(
              encodeHeaders([], 200),
              Buffer.from('answer'),
              encodeHeaders([['grpc-status', '0']]),
            ),
          closed: () => undefined,
        };
      }
    },
    failed: (failure) => failures.push(failure),
  });
  const bytes = Buffer.concat([PREFACE, ...frames]);
  for (const { at, to } of changes) bytes[at % bytes.length] = to;
  for (let at = 0; at < bytes.length; at += cut) socket.push(bytes.subarray(at, at + cut));
  return { socket, sent, failures };
}

test('any frames in any order: nothing breaks, and what is answered is frames', async () => {
  await fc.assert(
    fc.asyncProperty(conversation, async (spoken) => {
      const { socket, sent, failures } = talk(spoken);
      for (let turn = 0; turn < 4; turn += 1) await new Promise((resolve) => setImmediate(resolve));

      expect(failures).toEqual([]);
      const heard = Buffer.concat(sent);
      let at = 0;
      while (at < heard.length) at += 9 + heard.readUIntBE(at, 3);
      expect(at).toBe(heard.length);
      socket.destroy();
    }),
    { numRuns: 3000 },
  );
});
