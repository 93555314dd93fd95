// Our connections of HTTP/2 with the client of Node.js: whatever it sends arrives, and whatever is sent arrives there.
import { connect, type ClientHttp2Session, type IncomingHttpHeaders } from 'node:http2';
import { buffer } from 'node:stream/consumers';
import * as fc from 'fast-check';
import { expect, onTestFinished, test } from 'vitest';
import { encodeHeaders } from '../../../src/service/http2/hpack.ts';
import { FrameClient, frame, headersFrame, END_HEADERS, PSEUDO, TYPE } from '../../proxy/http2-frames.ts';
import { echo, serveStreams } from './stream-server.ts';

interface Call {
  readonly headers: Readonly<Record<string, string>>;
  readonly bytes: number;
}

const name = fc.stringMatching(/^x-[a-z0-9_.-]{1,30}$/);
// Few different values, so that the table is used; and some that Huffman makes longer.
const value = fc.oneof(
  fc.constantFrom('', 'trailers', '1', 'application/grpc'),
  fc.stringMatching(/^[!-~](?:[ -~]{0,300}[!-~])?$/),
  fc.stringMatching(/^[\x80-\xff]{1,20}$/),
);
const call = fc.record<Call>({
  headers: fc.dictionary(name, value, { maxKeys: 8 }),
  bytes: fc.oneof(fc.constantFrom(0, 1, 16_384, 16_385, 65_535, 65_536), fc.nat({ max: 200_000 })),
});
/** How much the client takes at once. */
const window = fc.constantFrom(1, 100, 16_383, 65_535, 1_000_000);

function sessionTo(port: number, initialWindowSize = 65_535): ClientHttp2Session {
  const session = connect(`http://127.0.0.1:${port}`, { settings: { initialWindowSize } });
  onTestFinished(() => session.destroy());
  return session;
}

async function ask(session: ClientHttp2Session, { headers, bytes }: Call) {
  const stream = session.request({ ':method': 'POST', ':path': '/', ...headers });
  const answered = new Promise<IncomingHttpHeaders>((resolve, reject) => {
    stream.once('response', resolve).once('error', reject);
  });
  const body = Buffer.alloc(bytes, 'abcdefg');
  stream.end(body);
  const [got, back] = await Promise.all([answered, buffer(stream)]);
  return { got: JSON.parse(decodeURIComponent(String(got['x-got']))) as object, same: back.equals(body) };
}

test('headers and bodies of any size go both ways unchanged, many calls at once, whatever the windows', async () => {
  const server = await serveStreams(echo);

  await fc.assert(
    fc.asyncProperty(fc.array(call, { minLength: 1, maxLength: 8 }), window, async (calls, size) => {
      const session = sessionTo(server.port, size);
      // Where every byte needs an update, short bodies are enough.
      const sent = calls.map(({ headers, bytes }) => ({ headers, bytes: Math.min(bytes, size * 50) }));

      const answers = await Promise.all(sent.map(async (each) => ask(session, each)));

      for (const [at, { got, same }] of answers.entries()) {
        expect(got).toMatchObject(sent[at]?.headers ?? {});
        expect(same).toBe(true);
      }
      session.close();
    }),
    { numRuns: 60 },
  );

  expect(server.failures).toEqual([]);
});

test('an answer waits for the window of its stream and of the connection, and is never larger', async () => {
  const server = await serveStreams((stream) => {
    stream.listener = { data: () => true, end: () => undefined, closed: () => undefined };
    stream.answer(encodeHeaders([], 200), Buffer.alloc(70_000), encodeHeaders([['grpc-status', '0']]));
  });
  const client = await FrameClient.connect(server.port, Buffer.from([0, 4, 0, 0, 0, 10]));
  const received = (): number =>
    client.frames
      .filter(({ type }) => type === TYPE.data)
      .reduce((sum, { payload }) => sum + payload.length, 0);
  const grow = (stream: number, bytes: number): void => {
    const payload = Buffer.alloc(4);
    payload.writeUInt32BE(bytes);
    client.send(frame(TYPE.windowUpdate, 0, stream, payload));
  };

  client.send(headersFrame(1, PSEUDO));
  await expect.poll(received).toBe(10);
  grow(1, 5);
  await expect.poll(received).toBe(15);
  // The first window of all streams is smaller now: that of this one is below nothing.
  client.send(frame(TYPE.settings, 0, 0, Buffer.from([0, 4, 0, 0, 0, 0])));
  grow(1, 10);
  client.send(frame(TYPE.ping, 0, 0, Buffer.alloc(8)));
  await expect.poll(() => client.find(TYPE.ping)).toBeDefined();
  expect(received()).toBe(15);
  grow(1, 100_000);
  // What the connection takes.
  await expect.poll(received).toBe(65_535);
  grow(0, 100_000);
  await expect.poll(received).toBe(70_000);

  const last = client.frames.findLast(({ stream }) => stream === 1);
  expect(last).toMatchObject({ type: TYPE.headers, flags: 5 });
  expect(
    client.frames.filter(({ type }) => type === TYPE.data).every(({ payload }) => payload.length <= 16_384),
  ).toBe(true);
});

test('a body that nobody reads stops at the window, and leaves the connection to others', async () => {
  const server = await serveStreams((stream, socket) => {
    if (stream.head.path === '/ignored')
      stream.listener = { data: () => false, end: () => undefined, closed: () => stream.credit(65_535) };
    else echo(stream, socket);
  });
  const session = sessionTo(server.port);
  const ignored = session.request({ ':method': 'POST', ':path': '/ignored' });
  ignored.on('error', () => undefined).end(Buffer.alloc(200_000));
  await expect.poll(() => session.state.remoteWindowSize).toBe(0);

  ignored.close(8);

  expect(await ask(session, { headers: {}, bytes: 200_000 })).toMatchObject({ same: true });
});

test('what comes byte by byte is put together', async () => {
  const server = await serveStreams(echo);
  const client = await FrameClient.connect(server.port);
  client.socket.setNoDelay(true);
  const bytes = Buffer.concat([
    headersFrame(1, PSEUDO, END_HEADERS),
    frame(TYPE.data, 0, 1, Buffer.from('hel')),
    frame(TYPE.data, 1, 1, Buffer.from('lo')),
  ]);

  for (const byte of bytes) {
    client.socket.write(Buffer.from([byte]));
    await new Promise((resolve) => setImmediate(resolve));
  }

  const text = (): string =>
    client.frames
      .filter(({ type }) => type === TYPE.data)
      .map(({ payload }) => payload.toString())
      .join('');
  await expect.poll(text).toBe('hello');
});
