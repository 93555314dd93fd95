// What hostile clients do to make others wait.
import { END_HEADERS, frame, headersFrame, PSEUDO, replaced, TYPE } from '../proxy/http2-frames.ts';
import type { Attack } from './attacker-process.ts';

const NOTHING = Buffer.alloc(0);
const QUIET: Attack = {
  connections: 2,
  protocol: 'http/1.1',
  opening: NOTHING,
  piece: NOTHING,
  everyMs: 0,
  reads: true,
  reconnects: true,
  endsAfterMs: 0,
  door: 'clients',
};

const text = (lines: string, times = 1): Buffer => Buffer.from(lines.repeat(times), 'latin1');
const repeat = (count: number, make: (at: number) => Buffer): Buffer =>
  Buffer.concat(Array.from({ length: count }, (_, at) => make(at)));
const streamId = (at: number): number => 2 * at + 1;

const PREFACE = Buffer.from('PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n');
const CANCEL = Buffer.from([0, 0, 0, 8]);
const POST = replaced(':method', 'POST');
const PADDED = 8;

function opening(...frames: readonly Buffer[]): Buffer {
  return Buffer.concat([PREFACE, frame(TYPE.settings, 0, 0), ...frames]);
}

/** The client takes no byte of any response. */
function openingWithoutWindow(...frames: readonly Buffer[]): Buffer {
  return Buffer.concat([PREFACE, frame(TYPE.settings, 0, 0, Buffer.from([0, 4, 0, 0, 0, 0])), ...frames]);
}

const http2 = (part: Partial<Attack>): Attack => ({ ...QUIET, protocol: 'h2', opening: opening(), ...part });

const BIG = repeat(100, (at) => headersFrame(streamId(at), replaced(':path', '/big')));
const UPLOADS = repeat(100, (at) =>
  Buffer.concat([
    headersFrame(streamId(at), [...POST, ['content-length', '100']], END_HEADERS),
    frame(TYPE.data, 0, streamId(at), Buffer.from('x')),
  ]),
);
const ONE_UPLOAD = headersFrame(1, POST, END_HEADERS);
const ONE_CLOSED = Buffer.concat([ONE_UPLOAD, frame(TYPE.reset, 0, 1, CANCEL)]);

/** Each with its name in the table. */
export const ATTACKS: Readonly<Record<string, Attack>> = {
  'pipelined requests without end': { ...QUIET, piece: text('GET / HTTP/1.1\r\nHost: a\r\n\r\n', 500) },
  '300 slow bodies': {
    ...QUIET,
    connections: 300,
    opening: text('POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1000\r\n\r\n'),
    piece: text('x'),
    everyMs: 1000,
  },
  '300 slow bodies, chunked': {
    ...QUIET,
    connections: 300,
    opening: text('POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n'),
    piece: text('1\r\nx\r\n'),
    everyMs: 1000,
  },
  'HTTP/2: 300 bodies that never end': http2({ connections: 3, opening: opening(UPLOADS) }),
  '300 readers that do not read': {
    ...QUIET,
    connections: 300,
    opening: text('GET /big HTTP/1.1\r\nHost: a\r\n\r\n'),
    reads: false,
  },
  'HTTP/2: 300 responses without a window': http2({ connections: 3, opening: openingWithoutWindow(BIG) }),
  'HTTP/2: the same, then the client leaves': http2({
    connections: 3,
    opening: openingWithoutWindow(BIG),
    endsAfterMs: 200,
  }),
  'chunks of one byte': {
    ...QUIET,
    opening: text('POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n'),
    piece: text('1\r\nx\r\n', 5000),
  },
  'HTTP/2: DATA of one byte': http2({
    opening: opening(ONE_UPLOAD),
    piece: repeat(2000, () => frame(TYPE.data, 0, 1, Buffer.from('x'))),
  }),
  'HTTP/2: DATA of padding only': http2({
    opening: opening(ONE_UPLOAD),
    piece: repeat(200, () =>
      frame(TYPE.data, PADDED, 1, Buffer.concat([Buffer.from([200]), Buffer.alloc(200)])),
    ),
  }),
  'HTTP/2: DATA on a closed stream': http2({
    opening: opening(ONE_CLOSED),
    piece: repeat(2000, () => frame(TYPE.data, 0, 1, Buffer.from('x'))),
  }),
  'HTTP/2: HEADERS on a closed stream': http2({
    opening: opening(ONE_CLOSED),
    piece: repeat(500, () => headersFrame(1, PSEUDO)),
  }),
  'HTTP/2: WINDOW_UPDATE': http2({
    piece: repeat(2000, () => frame(TYPE.windowUpdate, 0, 0, Buffer.from([0, 0, 0, 1]))),
  }),
  'HTTP/2: frames of an unknown type': http2({
    piece: repeat(2000, () => frame(0xbe, 0, 0, Buffer.alloc(8))),
  }),
  'HTTP/2: requests that are cancelled': http2({
    piece: repeat(500, (at) =>
      Buffer.concat([headersFrame(streamId(at), PSEUDO), frame(TYPE.reset, 0, streamId(at), CANCEL)]),
    ),
    everyMs: 5,
  }),
  'malformed requests': { ...QUIET, connections: 20, opening: text('GET / HTTP/1.1\r\nHost: a b\r\n\r\n') },
  'admin port: 300 idle connections': {
    ...QUIET,
    connections: 300,
    opening: text('GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n'),
    door: 'admin',
  },
  'bytes that are not HTTP': { ...QUIET, connections: 20, opening: text('nonsense\r\n\r\n') },
};
