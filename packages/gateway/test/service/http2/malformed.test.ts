// Frames as no client may send them: each ends its call or its connection, with the code of RFC 9113.
import { connect } from 'node:net';
import { once } from 'node:events';
import { expect, onTestFinished, test } from 'vitest';
import { nodeCall } from '../../../src/service/http2/node-call.ts';
import {
  ACK,
  END_HEADERS,
  END_STREAM,
  frame,
  FrameClient,
  headersFrame,
  hpack,
  PSEUDO,
  replaced,
  TYPE,
} from '../../proxy/http2-frames.ts';
import { echo, serveStreams } from './stream-server.ts';

const PADDED = 8;
const PRIORITY = 32;
const PROTOCOL = 1;
const FLOW_CONTROL = 3;
const STREAM_CLOSED = 5;
const FRAME_SIZE = 6;
const COMPRESSION = 9;
const CALM = 11;

const number = (value: number): Buffer => {
  const bytes = Buffer.alloc(4);
  bytes.writeUInt32BE(value);
  return bytes;
};
const setting = (id: number, value: number): Buffer =>
  frame(TYPE.settings, 0, 0, Buffer.concat([Buffer.from([0, id]), number(value)]));
const open = headersFrame(1, PSEUDO, END_HEADERS);
const whole = headersFrame(1, PSEUDO);
const data = (stream: number, text: string, flags = 0): Buffer =>
  frame(TYPE.data, flags, stream, Buffer.from(text));

type Row = readonly [name: string, code: number, ...frames: Buffer[]];
const rowOf = ([name, code, ...frames]: Row) => ({ name, code, frames });

const BREAKS_CONNECTION: readonly Row[] = [
  ['DATA of the connection', PROTOCOL, data(0, 'a')],
  ['DATA of a stream that was never opened', PROTOCOL, data(1, 'a')],
  ['DATA of a stream of ours', PROTOCOL, open, data(2, 'a')],
  [
    'DATA with more padding than payload',
    PROTOCOL,
    open,
    frame(TYPE.data, PADDED, 1, Buffer.from([5, 1, 2])),
  ],
  ['DATA that has to be padded and is empty', FRAME_SIZE, open, frame(TYPE.data, PADDED, 1)],
  ['a frame of 16,385 bytes', FRAME_SIZE, open, frame(TYPE.data, 0, 1, Buffer.alloc(16_385))],
  ['an unknown frame of 16,385 bytes', FRAME_SIZE, frame(99, 0, 0, Buffer.alloc(16_385))],
  ['HEADERS of the connection', PROTOCOL, headersFrame(0, PSEUDO)],
  ['HEADERS of a stream of ours', PROTOCOL, headersFrame(2, PSEUDO)],
  [
    'HEADERS with more padding than payload',
    PROTOCOL,
    frame(TYPE.headers, PADDED | END_HEADERS, 1, Buffer.from([9])),
  ],
  [
    'HEADERS with half a priority',
    FRAME_SIZE,
    frame(TYPE.headers, PRIORITY | END_HEADERS, 1, Buffer.from([0, 0])),
  ],
  [
    'HEADERS that depend on themselves',
    PROTOCOL,
    frame(
      TYPE.headers,
      PRIORITY | END_HEADERS,
      1,
      Buffer.concat([number(1), Buffer.from([0]), hpack(PSEUDO)]),
    ),
  ],
  ['headers that are no headers', COMPRESSION, frame(TYPE.headers, END_HEADERS, 1, Buffer.from([0xff]))],
  [
    'trailers that are no headers',
    COMPRESSION,
    open,
    frame(TYPE.headers, END_HEADERS | END_STREAM, 1, Buffer.from([0xff])),
  ],
  ['CONTINUATION of nothing', PROTOCOL, frame(TYPE.continuation, END_HEADERS, 1, hpack(PSEUDO))],
  ['CONTINUATION behind complete headers', PROTOCOL, open, frame(TYPE.continuation, END_HEADERS, 1)],
  [
    'CONTINUATION of another stream',
    PROTOCOL,
    headersFrame(1, PSEUDO, 0),
    frame(TYPE.continuation, END_HEADERS, 3),
  ],
  ['a PING within headers', PROTOCOL, headersFrame(1, PSEUDO, 0), frame(TYPE.ping, 0, 0, Buffer.alloc(8))],
  ['an unknown frame within headers', PROTOCOL, headersFrame(1, PSEUDO, 0), frame(99, 0, 1)],
  ['DATA within headers', PROTOCOL, headersFrame(1, PSEUDO, 0), data(1, 'a')],
  [
    'nine CONTINUATIONs',
    CALM,
    headersFrame(1, PSEUDO, 0),
    ...Array.from({ length: 9 }, () => frame(TYPE.continuation, 0, 1)),
  ],
  [
    'headers of 80 kB',
    CALM,
    headersFrame(1, PSEUDO, 0),
    ...Array.from({ length: 5 }, () => frame(TYPE.continuation, 0, 1, Buffer.alloc(16_384, 0x82))),
  ],
  ['PRIORITY of the connection', PROTOCOL, frame(TYPE.priority, 0, 0, Buffer.alloc(5))],
  ['PRIORITY of four bytes', FRAME_SIZE, frame(TYPE.priority, 0, 1, Buffer.alloc(4))],
  ['RST_STREAM of the connection', PROTOCOL, frame(TYPE.reset, 0, 0, number(8))],
  ['RST_STREAM of a stream that was never opened', PROTOCOL, frame(TYPE.reset, 0, 1, number(8))],
  ['RST_STREAM of three bytes', FRAME_SIZE, open, frame(TYPE.reset, 0, 1, Buffer.alloc(3))],
  ['SETTINGS of a stream', PROTOCOL, frame(TYPE.settings, 0, 1)],
  ['SETTINGS of five bytes', FRAME_SIZE, frame(TYPE.settings, 0, 0, Buffer.alloc(5))],
  ['an ACK of SETTINGS with content', FRAME_SIZE, frame(TYPE.settings, ACK, 0, Buffer.alloc(6))],
  ['ENABLE_PUSH of 2', PROTOCOL, setting(2, 2)],
  ['INITIAL_WINDOW_SIZE of 2^31', FLOW_CONTROL, setting(4, 2 ** 31)],
  ['MAX_FRAME_SIZE of 16,383', PROTOCOL, setting(5, 16_383)],
  ['MAX_FRAME_SIZE of 2^24', PROTOCOL, setting(5, 2 ** 24)],
  [
    'INITIAL_WINDOW_SIZE that makes a window too large',
    FLOW_CONTROL,
    open,
    frame(TYPE.windowUpdate, 0, 1, number(2 ** 31 - 1 - 65_535)),
    setting(4, 65_536),
  ],
  ['PUSH_PROMISE', PROTOCOL, open, frame(5, END_HEADERS, 1, Buffer.concat([number(2), hpack(PSEUDO)]))],
  ['PING of a stream', PROTOCOL, frame(TYPE.ping, 0, 1, Buffer.alloc(8))],
  ['PING of seven bytes', FRAME_SIZE, frame(TYPE.ping, 0, 0, Buffer.alloc(7))],
  ['GOAWAY of a stream', PROTOCOL, frame(TYPE.goaway, 0, 1, Buffer.alloc(8))],
  ['GOAWAY of seven bytes', FRAME_SIZE, frame(TYPE.goaway, 0, 0, Buffer.alloc(7))],
  ['WINDOW_UPDATE of three bytes', FRAME_SIZE, frame(TYPE.windowUpdate, 0, 0, Buffer.alloc(3))],
  ['WINDOW_UPDATE of nothing', PROTOCOL, frame(TYPE.windowUpdate, 0, 0, number(0))],
  [
    'WINDOW_UPDATE that makes the window too large',
    FLOW_CONTROL,
    frame(TYPE.windowUpdate, 0, 0, number(2 ** 31 - 1)),
  ],
  ['WINDOW_UPDATE of a stream that was never opened', PROTOCOL, frame(TYPE.windowUpdate, 0, 1, number(1))],
  ['DATA above the highest stream', PROTOCOL, headersFrame(5, PSEUDO), data(7, 'a')],
];

test.each(BREAKS_CONNECTION.map(rowOf))(
  '$name ends the connection with code $code',
  async ({ code, frames }) => {
    const server = await serveStreams(echo);
    const client = await FrameClient.connect(server.port);

    client.send(...frames);
    await expect.poll(() => client.closed).toBe(true);

    expect(client.goaway).toBe(code);
    expect(server.failures).toEqual([]);
  },
);

test.each([
  ['another first frame', [frame(TYPE.ping, 0, 0, Buffer.alloc(8))], PROTOCOL],
  ['an ACK as the first frame', [frame(TYPE.settings, ACK, 0)], PROTOCOL],
])('%s than SETTINGS ends the connection', async (_, frames, code) => {
  const server = await serveStreams(echo);
  const socket = connect(server.port, '127.0.0.1');
  onTestFinished(() => void socket.destroy());
  const chunks: Buffer[] = [];
  socket.on('data', (chunk: Buffer) => chunks.push(chunk));
  socket.write(Buffer.concat([Buffer.from('PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n'), ...frames]));

  await once(socket, 'end');

  expect(Buffer.concat(chunks).readUInt32BE(Buffer.concat(chunks).length - 4)).toBe(code);
});

test('another greeting ends the connection', async () => {
  const server = await serveStreams(echo);
  const socket = connect(server.port, '127.0.0.1');
  onTestFinished(() => void socket.destroy());
  socket.resume().write('PRI * HTTP/2.0\r\n\r\nXX\r\n\r\n');

  await once(socket, 'end');

  expect(server.failures).toEqual([]);
});

const BREAKS_CALL: readonly Row[] = [
  ['DATA behind the end', STREAM_CLOSED, headersFrame(1, replaced(':path', '/slow')), data(1, 'a')],
  ['HEADERS behind the end', STREAM_CLOSED, headersFrame(1, replaced(':path', '/slow')), whole],
  [
    'trailers that do not end the call',
    PROTOCOL,
    open,
    frame(TYPE.headers, END_HEADERS, 1, hpack([['a', 'b']])),
  ],
  ['trailers with a pseudo-header', PROTOCOL, open, headersFrame(1, PSEUDO)],
  ['WINDOW_UPDATE of nothing', PROTOCOL, open, frame(TYPE.windowUpdate, 0, 1, number(0))],
  [
    'WINDOW_UPDATE that makes the window too large',
    FLOW_CONTROL,
    open,
    frame(TYPE.windowUpdate, 0, 1, number(2 ** 31 - 1)),
  ],
  [
    'more headers than we take',
    CALM,
    headersFrame(1, [...PSEUDO, ...Array.from({ length: 125 }, (_, at) => [`x-${at}`, 'a'] as const)]),
  ],
  [
    'less body than its length',
    PROTOCOL,
    headersFrame(1, [...PSEUDO, ['content-length', '5']], END_HEADERS),
    data(1, 'four', END_STREAM),
  ],
  [
    'more body than its length',
    PROTOCOL,
    headersFrame(1, [...PSEUDO, ['content-length', '5']], END_HEADERS),
    data(1, 'sixsix'),
  ],
  ...(
    [
      ['a capital in a name', [...PSEUDO, ['X-Big', 'a']]],
      ['a space in a name', [...PSEUDO, ['x y', 'a']]],
      ['a name of nothing', [...PSEUDO, ['', 'a']]],
      ['a line break in a value', [...PSEUDO, ['x', 'a\nb']]],
      ['NUL in a value', [...PSEUDO, ['x', 'a\0b']]],
      ['a space before a value', [...PSEUDO, ['x', ' a']]],
      ['a tab behind a value', [...PSEUDO, ['x', 'a\t']]],
      ['connection', [...PSEUDO, ['connection', 'close']]],
      ['transfer-encoding', [...PSEUDO, ['transfer-encoding', 'chunked']]],
      ['upgrade', [...PSEUDO, ['upgrade', 'h2c']]],
      ['keep-alive', [...PSEUDO, ['keep-alive', 'a']]],
      ['proxy-connection', [...PSEUDO, ['proxy-connection', 'close']]],
      ['te other than trailers', [...PSEUDO, ['te', 'gzip']]],
      ['two methods', [[':method', 'POST'], ...PSEUDO]],
      ['two paths', [...PSEUDO, [':path', '/y']]],
      ['two lengths', [...PSEUDO, ['content-length', '0'], ['content-length', '0']]],
      ['a length that is no number', [...PSEUDO, ['content-length', '+5']]],
      ['two hosts', [...PSEUDO, ['host', 'a'], ['host', 'a']]],
      ['a pseudo-header of responses', [...PSEUDO, [':status', '200']]],
      ['a pseudo-header behind a header', [['x', 'a'], ...PSEUDO]],
      ['a pseudo-header that nobody knows', [...PSEUDO, [':evil', 'a']]],
      ['no method', PSEUDO.filter(([name]) => name !== ':method')],
      ['no path', PSEUDO.filter(([name]) => name !== ':path')],
      ['no scheme', PSEUDO.filter(([name]) => name !== ':scheme')],
      ['an empty path', replaced(':path', '')],
      ['a path that is no path', replaced(':path', 'x')],
      ['a space in the path', replaced(':path', '/a b')],
      ['a byte outside of ASCII in the path', replaced(':path', '/a\u00e9')],
      ['a space in the method', replaced(':method', 'GET /')],
      ['a space in the authority', replaced(':authority', 'a b')],
      [
        'CONNECT',
        [
          [':method', 'CONNECT'],
          [':authority', 'a'],
        ],
      ],
    ] as const
  ).map(([name, headers]) => [name, PROTOCOL, headersFrame(1, headers)] as const),
];

test.each(BREAKS_CALL.map(rowOf))(
  '$name ends the call with code $code, and not the connection',
  async ({ code, frames }) => {
    const served: string[] = [];
    const server = await serveStreams((stream, socket) => {
      served.push(stream.head.path);
      if (stream.head.path === '/slow') nodeCall(stream, socket);
      else echo(stream, socket);
    });
    const client = await FrameClient.connect(server.port);

    client.send(...frames, headersFrame(3, replaced(':path', '/next')));
    const answered = (): number | undefined => client.find(TYPE.headers, 3)?.flags;
    await expect.poll(answered).toBeDefined();

    expect(client.find(TYPE.reset, 1)?.payload.readUInt32BE(0)).toBe(code);
    expect(served.at(-1)).toBe('/next');
    expect(client.goaway).toBeUndefined();
    expect(server.failures).toEqual([]);
  },
);

test('more DATA than the windows take ends the connection', async () => {
  const server = await serveStreams((stream) => {
    stream.listener = { data: () => false, end: () => undefined, closed: () => undefined };
  });
  const client = await FrameClient.connect(server.port);

  client.send(open, ...Array.from({ length: 5 }, () => frame(TYPE.data, 0, 1, Buffer.alloc(16_384))));
  await expect.poll(() => client.closed).toBe(true);

  expect(client.goaway).toBe(FLOW_CONTROL);
});

test('what is allowed and rare harms nothing', async () => {
  const server = await serveStreams(echo);
  const client = await FrameClient.connect(server.port);
  const padded = Buffer.concat([Buffer.from([3]), Buffer.from('hi'), Buffer.alloc(3)]);
  const [one, two] = [hpack(PSEUDO).subarray(0, 10), hpack(PSEUDO).subarray(10)];

  client.send(
    frame(99, 255, 7, Buffer.from('unknown')),
    setting(99, 1),
    frame(TYPE.priority, 0, 9, Buffer.from([0, 0, 0, 3, 1])),
    frame(
      TYPE.headers,
      PADDED | PRIORITY,
      1,
      Buffer.concat([Buffer.from([2]), number(0), Buffer.from([16]), one, Buffer.alloc(2)]),
    ),
    frame(TYPE.continuation, 0, 1),
    frame(TYPE.continuation, END_HEADERS, 1, two),
    frame(TYPE.data, PADDED, 1, padded),
    frame(TYPE.headers, END_HEADERS | END_STREAM, 1, hpack([['a-trailer', 'b']])),
  );
  await expect.poll(() => client.find(TYPE.data, 1)?.payload.toString()).toBe('hi');
  await expect
    .poll(() => client.frames.some(({ flags, stream }) => stream === 1 && flags % 2 === 1))
    .toBe(true);
  // The call is over here, and the client may not know.
  client.send(
    frame(TYPE.windowUpdate, 0, 1, number(1)),
    frame(TYPE.data, 0, 1, Buffer.from('late')),
    frame(TYPE.headers, END_HEADERS | END_STREAM, 1, hpack([['late', 'b']])),
    frame(TYPE.reset, 0, 1, number(8)),
    frame(TYPE.ping, 0, 0, Buffer.from('12345678')),
  );
  await expect.poll(() => client.find(TYPE.ping)?.flags).toBe(ACK);

  expect(client.goaway).toBeUndefined();
});

test('a call that comes behind a later one is refused, and does not wait', async () => {
  const server = await serveStreams(echo);
  const client = await FrameClient.connect(server.port);

  client.send(headersFrame(5, PSEUDO), headersFrame(3, PSEUDO));
  await expect.poll(() => client.find(TYPE.headers, 5)).toBeDefined();
  await expect.poll(() => client.find(TYPE.reset, 3)).toBeDefined();

  expect(client.find(TYPE.reset, 3)?.payload.readUInt32BE(0)).toBe(STREAM_CLOSED);
  expect(client.goaway).toBeUndefined();
});
