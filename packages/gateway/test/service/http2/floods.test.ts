// Who floods a connection is cut off, or waits: nobody's memory grows, and others are served meanwhile.
import { once } from 'node:events';
import { connect as connectSocket } from 'node:net';
import { connect } from 'node:http2';
import { Duplex } from 'node:stream';
import { buffer } from 'node:stream/consumers';
import { expect, onTestFinished, test, vi } from 'vitest';
import { FrameConnection } from '../../../src/service/http2/connection.ts';
import { encodeHeaders } from '../../../src/service/http2/hpack.ts';
import {
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

const CALM = 11;
const CANCEL = Buffer.from([0, 0, 0, 8]);
const many = (count: number, make: (at: number) => Buffer): Buffer =>
  Buffer.concat(Array.from({ length: count }, (_, at) => make(at)));
const POST = replaced(':method', 'POST');
const id = (at: number): number => 2 * at + 1;

test.each([
  [
    'calls that are broken off at once',
    many(2000, (at) => Buffer.concat([headersFrame(id(at), PSEUDO), frame(TYPE.reset, 0, id(at), CANCEL)])),
  ],
  [
    'calls that we are made to break off',
    many(2000, (at) =>
      Buffer.concat([
        headersFrame(id(at), POST, END_HEADERS),
        frame(TYPE.windowUpdate, 0, id(at), Buffer.alloc(4)),
      ]),
    ),
  ],
  [
    'calls with another body than they announce',
    many(2000, (at) => headersFrame(id(at), [...PSEUDO, ['content-length', '5']])),
  ],
  [
    'calls with more of a body than they announce',
    many(2000, (at) =>
      Buffer.concat([
        headersFrame(id(at), [...POST, ['content-length', '0']], END_HEADERS),
        frame(TYPE.data, 0, id(at), Buffer.alloc(1)),
      ]),
    ),
  ],
  ['malformed calls', many(2000, (at) => headersFrame(id(at), [...PSEUDO, ['Bad', 'a']]))],
  ['more calls at a time than are allowed', many(2500, (at) => headersFrame(id(at), POST, END_HEADERS))],
  [
    'DATA of no bytes',
    Buffer.concat([headersFrame(1, POST, END_HEADERS), many(20_000, () => frame(TYPE.data, 0, 1))]),
  ],
  [
    'DATA of one byte',
    Buffer.concat([
      headersFrame(1, POST, END_HEADERS),
      many(20_000, () => frame(TYPE.data, 0, 1, Buffer.from('x'))),
    ]),
  ],
  [
    'DATA of calls that are over',
    Buffer.concat([
      headersFrame(1, POST, END_HEADERS),
      frame(TYPE.reset, 0, 1, CANCEL),
      many(20_000, () => frame(TYPE.data, 0, 1)),
    ]),
  ],
  [
    'trailers of calls that are over',
    Buffer.concat([
      headersFrame(1, POST, END_HEADERS),
      frame(TYPE.reset, 0, 1, CANCEL),
      many(20_000, () => headersFrame(1, [['a', 'b']])),
    ]),
  ],
  ['SETTINGS', many(20_000, () => frame(TYPE.settings, 0, 0, Buffer.from([0, 3, 0, 0, 0, 100])))],
  ['PRIORITY', many(20_000, () => frame(TYPE.priority, 0, 1, Buffer.from([0, 0, 0, 3, 1])))],
  ['frames that nobody knows', many(20_000, () => frame(99, 0, 0))],
])('%s end the connection, and others are served', async (_, flood) => {
  const server = await serveStreams(echo);
  const client = await FrameClient.connect(server.port);
  const other = connect(`http://127.0.0.1:${server.port}`);
  onTestFinished(() => other.destroy());

  client.send(flood);
  const served = other.request({ ':method': 'POST', ':path': '/' }).end('hello');

  expect((await buffer(served)).toString()).toBe('hello');
  await expect.poll(() => client.closed).toBe(true);
  expect(client.goaway).toBe(CALM);
  expect(server.failures).toEqual([]);
});

test('what many clients do is no flood: a PING per answer, a WINDOW_UPDATE per call', async () => {
  const server = await serveStreams(echo);
  const client = await FrameClient.connect(server.port);
  const update = Buffer.from([0, 0, 0, 1]);

  for (let round = 0; round < 40; round += 1) {
    client.send(
      many(500, (at) => {
        const stream = id(500 * round + at);
        return Buffer.concat([
          headersFrame(stream, PSEUDO),
          frame(TYPE.ping, 0, 0, Buffer.alloc(8)),
          frame(TYPE.windowUpdate, 0, 0, update),
        ]);
      }),
    );
    await expect
      .poll(() => client.frames.filter(({ type }) => type === TYPE.ping).length)
      .toBe(500 * (round + 1));
  }

  expect(client.goaway).toBeUndefined();
  expect(client.closed).toBe(false);
});

test('a client that takes no answers is not read any more, and goes on where it stopped', async () => {
  const server = await serveStreams((stream) => {
    stream.listener = { data: () => true, end: () => undefined, closed: () => undefined };
  });
  const socket = connectSocket(server.port, '127.0.0.1');
  onTestFinished(() => void socket.destroy());
  await once(socket, 'connect');
  socket.pause();
  const pings = 1_000_000;
  socket.write(Buffer.concat([Buffer.from('PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n'), frame(TYPE.settings, 0, 0)]));
  const sent = new Promise((resolve) => {
    socket.write(
      many(pings, () => frame(TYPE.ping, 0, 0, Buffer.alloc(8))),
      resolve,
    );
  });
  // It stands still: what the system holds for both of us is full, and so is our own bound.
  let before = -1;
  await expect
    .poll(
      () => {
        const now = socket.bytesWritten - socket.writableLength;
        const still = now === before && socket.writableLength > 0;
        before = now;
        return still;
      },
      { interval: 300 },
    )
    .toBe(true);

  let received = 0;
  socket.on('data', (chunk: Buffer) => (received += chunk.length));
  socket.resume();
  await sent;

  // SETTINGS of 12 bytes, the ACK, and every PING.
  await expect.poll(() => received).toBe(9 + 12 + 9 + 17 * pings);
});

test('bodies that are never complete are bounded over all calls of a connection', async () => {
  const server = await serveStreams((stream) => {
    stream.listener = { data: () => true, end: () => undefined, closed: () => undefined };
  });
  const session = connect(`http://127.0.0.1:${server.port}`);
  onTestFinished(() => session.destroy());
  const code = new Promise((resolve) => session.once('goaway', resolve));
  for (let at = 0; at < 80; at += 1) {
    const call = session.request({ ':method': 'POST', ':path': '/' });
    call.on('error', () => undefined).write(Buffer.alloc(2 ** 20));
  }
  session.on('error', () => undefined);

  expect(await code).toBe(CALM);
});

test('headers in many small frames are bounded, and those of calls that nobody serves keep the table', async () => {
  const server = await serveStreams(echo);
  const client = await FrameClient.connect(server.port);
  const indexed = Buffer.concat([hpack(PSEUDO), Buffer.from([0x40]), hpack([['x-kept', 'yes']]).subarray(1)]);

  client.send(
    headersFrame(1, [...PSEUDO, ['Bad', 'a']]),
    frame(TYPE.headers, END_HEADERS, 3, Buffer.concat([indexed, hpack([['Bad', 'a']])])),
    frame(TYPE.headers, END_HEADERS | END_STREAM, 5, Buffer.concat([hpack(PSEUDO), Buffer.from([0xbe])])),
  );
  await expect.poll(() => client.find(TYPE.headers, 5)).toBeDefined();

  expect(client.find(TYPE.headers, 5)?.payload.toString('latin1')).toContain('x-kept');
  expect(client.find(TYPE.reset, 3)).toBeDefined();
});

test('SETTINGS that resize the windows of a thousand calls again and again make little work', async () => {
  const server = await serveStreams((stream) => {
    stream.listener = { data: () => true, end: () => undefined, closed: () => undefined };
  });
  const client = await FrameClient.connect(server.port);
  const resize = (bytes: number): Buffer => Buffer.from([0, 4, 0, 0, 0, bytes]);
  const flood = frame(
    TYPE.settings,
    0,
    0,
    many(2730, (at) => resize(at % 2)),
  );
  client.send(many(1000, (at) => headersFrame(id(at), POST, END_HEADERS)));

  // Looked at one by one, these would take minutes.
  for (let at = 0; at < 2000; at += 1) client.socket.write(flood);
  client.send(frame(TYPE.ping, 0, 0, Buffer.alloc(8)));

  await expect.poll(() => client.find(TYPE.ping)).toBeDefined();
  expect(client.goaway).toBeUndefined();
});

test('answers that nobody takes stop what is read within the same turn', async () => {
  const answers: (() => void)[] = [];
  const socket = new Duplex({
    read: () => undefined,
    write: (_chunk, _encoding, done) => answers.push(done),
  });
  let opened = 0;
  void new FrameConnection(socket, {
    open: (stream) => {
      opened += 1;
      stream.answer(encodeHeaders([], 200), Buffer.alloc(16_384), encodeHeaders([['grpc-status', '0']]));
    },
    failed: (failure) => expect(failure).toBeUndefined(),
  });
  const largest = Buffer.from([0, 4, 0x7f, 0xff, 0xff, 0xff]);
  socket.push(
    Buffer.concat([
      Buffer.from('PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n'),
      frame(TYPE.settings, 0, 0, largest),
      frame(TYPE.windowUpdate, 0, 0, Buffer.from([0x7f, 0, 0, 0])),
    ]),
  );
  await new Promise((resolve) => setImmediate(resolve));

  for (let at = 0; at < 1000; at += 1) socket.push(headersFrame(id(at), PSEUDO));

  // 1 MiB is what may wait.
  expect(opened).toBe(64);
  const takeAnswer = (): number => {
    answers.shift()?.();
    return opened;
  };
  await expect.poll(takeAnswer, { interval: 1 }).toBe(1000);
  expect(socket.destroyed).toBe(false);
});

test('who sends no more and takes no answer is cut off after ten seconds', async () => {
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] });
  onTestFinished(() => void vi.useRealTimers());
  const socket = new Duplex({ read: () => undefined, write: () => undefined });
  void new FrameConnection(socket, { open: () => undefined, failed: () => undefined });
  const ended = once(socket, 'end');
  socket.push(null);
  await ended;

  vi.advanceTimersByTime(9999);
  expect(socket.destroyed).toBe(false);
  vi.advanceTimersByTime(1);
  expect(socket.destroyed).toBe(true);
});
