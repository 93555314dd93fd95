// Slow clients hold no backend: bodies wait until enough of them has come, and responses are kept for those that read
// slowly.
import type { ServerResponse } from 'node:http';
import { once } from 'node:events';
import { connect as connectHttp2 } from 'node:http2';
import { connect } from 'node:net';
import { describe, expect, onTestFinished, test } from 'vitest';
import { frame, FrameClient, headersFrame, replaced, TYPE } from './http2-frames.ts';
import { leave } from './http2-client.ts';
import { letArrive } from './local-server.ts';
import { eventually, RawClient, startOrigin, startRig } from './rig.ts';

const KIB = 1024;
const post = (length: number): string => `POST /up HTTP/1.1\r\nHost: a\r\nContent-Length: ${length}\r\n\r\n`;

test('a small body reaches a backend when it is whole, and none before', async () => {
  const origin = await startOrigin();
  const { port, upstreams } = await startRig({ origin });
  const client = await RawClient.connect(port);

  client.send(`${post(10)}01234`);
  await letArrive();
  client.send('5678');
  await letArrive();
  const before = { asked: origin.requests.length, connections: origin.connections, busy: upstreams.inFlight };
  client.send('9');
  await client.until(({ statuses }) => statuses.length === 1);

  expect(before).toEqual({ asked: 0, connections: 0, busy: 0 });
  expect(client.statuses).toEqual([200]);
  expect(origin.requests).toMatchObject([{ body: '0123456789', complete: true }]);
});

test('a large body is held back until so much of it has come, and then flows', async () => {
  const origin = await startOrigin();
  const { port } = await startRig({ origin, config: { backend: { request_buffer_size: '32KiB' } } });
  const client = await RawClient.connect(port);

  client.send(post(100 * KIB) + 'x'.repeat(31 * KIB));
  await letArrive();
  expect(origin.requests).toEqual([]);
  client.send('y'.repeat(2 * KIB));
  await eventually(() => origin.requests[0]?.body.length === 33 * KIB);
  client.send('z'.repeat(67 * KIB));
  await client.until(({ statuses }) => statuses.length === 1);

  expect(origin.requests).toMatchObject([{ complete: true }]);
  expect(origin.requests[0]?.body).toBe('x'.repeat(31 * KIB) + 'y'.repeat(2 * KIB) + 'z'.repeat(67 * KIB));
});

test('a body of unknown length flows after a second, however little has come', async () => {
  const origin = await startOrigin();
  const { port } = await startRig({ origin });
  const client = await RawClient.connect(port);

  client.send('POST /up HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nab\r\n');
  await eventually(() => origin.requests[0]?.body === 'ab');
  client.send('2\r\ncd\r\n');
  await eventually(() => origin.requests[0]?.body === 'abcd');
  client.send('0\r\n\r\n');
  await client.until(({ statuses }) => statuses.length === 1);

  expect(client.statuses).toEqual([200]);
});

test.each([
  ['is too large', '4\r\nabcd\r\n'.repeat(10), [413]],
  ['is not well-formed', 'nonsense\r\n', [400]],
] as const)('a body that %s while it is held back gets its answer', async (_name, chunks, statuses) => {
  const origin = await startOrigin();
  const { port, finished } = await startRig({ origin, config: { backend: { max_request_body_size: 20 } } });
  const client = await RawClient.connect(port);

  client.send(`POST /up HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nab\r\n${chunks}`);
  await client.untilClosed();
  await eventually(() => finished.length === 1);

  expect(client.statuses).toEqual(statuses);
  expect(origin.requests).toEqual([]);
});

test('a client that leaves in the middle of it costs no backend', async () => {
  const origin = await startOrigin();
  const { port, finished } = await startRig({ origin });
  const client = await RawClient.connect(port);
  client.send(`${post(10)}01234`);
  await letArrive();

  client.socket.resetAndDestroy();
  await eventually(() => finished.length === 1);

  expect(finished).toMatchObject([{ outcome: 'aborted', reason: 'CLIENT_GONE', bytesReceived: 5 }]);
  expect(origin.connections).toBe(0);
});

test('100 Continue is said at once, and the body goes on', async () => {
  const origin = await startOrigin();
  const { port } = await startRig({ origin });
  const client = await RawClient.connect(port);

  client.send('POST /up HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 5\r\n\r\n');
  await client.until(({ statuses }) => statuses.length === 1);
  expect(origin.connections).toBe(0);
  client.send('hello');
  await client.until(({ statuses }) => statuses.length === 2);

  expect(client.statuses).toEqual([100, 200]);
  expect(origin.requests).toMatchObject([{ body: 'hello' }]);
});

test('over HTTP/2 bodies that never end hold no backend, and others are served', async () => {
  const origin = await startOrigin();
  const { port, url, upstreams } = await startRig({ origin, maxConnections: 2 });
  const client = await FrameClient.connect(port);
  const head = [...replaced(':method', 'POST'), ['content-length', '100']] as const;
  for (let at = 0; at < 50; at += 1) {
    client.send(headersFrame(2 * at + 1, head, 4), frame(TYPE.data, 0, 2 * at + 1, Buffer.from('x')));
  }
  await letArrive();

  const beside = connectHttp2(url);
  onTestFinished(async () => leave(beside));
  const asked = beside.request({ ':path': '/other' });
  const [{ ':status': status }] = (await once(asked, 'response')) as [{ ':status': number }];
  await eventually(() => upstreams.inFlight === 0);

  expect(status).toBe(200);
  expect(origin.requests.map(({ url: path }) => path)).toEqual(['/other']);
});

test('pieces that arrive together are passed on together', async () => {
  let pieces = 0;
  const origin = await startOrigin((request, response) => {
    request.on('data', () => (pieces += 1)).on('end', () => response.end('ok'));
  });
  const { port } = await startRig({ origin });
  const client = await RawClient.connect(port);

  client.send(
    `POST /up HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n${'1\r\nx\r\n'.repeat(5000)}0\r\n\r\n`,
  );
  await client.until(({ statuses }) => statuses.length === 1);

  expect(origin.requests[0]?.body).toBe('x'.repeat(5000));
  expect(pieces).toBeLessThan(50);
});

describe('responses', () => {
  test('one that fits is kept for a client that does not read, and its backend is free', async () => {
    const origin = await startOrigin((_request, response) => response.end('x'.repeat(60 * KIB)));
    const { port, upstreams } = await startRig({ origin });
    const client = await FrameClient.connect(port, Buffer.from([0, 4, 0, 0, 0, 0]));

    for (let at = 0; at < 20; at += 1) client.send(headersFrame(2 * at + 1, replaced(':path', '/page')));
    await eventually(() => origin.requests.length === 20);

    await eventually(() => upstreams.inFlight === 0);
    expect(client.find(TYPE.data)).toBeUndefined();
    client.send(frame(TYPE.windowUpdate, 0, 1, Buffer.from([0, 1, 0, 0])));
    await eventually(() => client.find(TYPE.data, 1) !== undefined);
  });

  test('a larger one holds its backend up, and no more of it is read', async () => {
    let response: ServerResponse | undefined;
    const origin = await startOrigin((_request, answer) => {
      response = answer;
      answer.write('x'.repeat(20 * 1024 * KIB));
    });
    const { port, upstreams } = await startRig({ origin });
    const socket = connect({ port, host: '127.0.0.1' });
    onTestFinished(() => void socket.destroy());
    socket.pause();
    socket.write('GET /big HTTP/1.1\r\nHost: a\r\n\r\n');
    await eventually(() => response !== undefined);
    await letArrive();

    expect(response?.writableLength).toBeGreaterThan(0);
    expect(upstreams.inFlight).toBe(1);
  });
});
