// A client that does not wait for its answers gets all of them, in order, and no more is read of it than can be kept.
import type { ServerResponse } from 'node:http';
import { expect, test } from 'vitest';
import { eventually, RawClient, startOrigin, startRig } from './rig.ts';

const get = (path: string): string => `GET ${path} HTTP/1.1\r\nHost: a\r\n\r\n`;
const many = (count: number): string => Array.from({ length: count }, (_, at) => get(`/${at}`)).join('');
const paths = (count: number): readonly string[] => Array.from({ length: count }, (_, at) => `/${at}`);

/** What the answers say, in order. */
function bodies({ text }: RawClient): readonly string[] {
  return [...text.matchAll(/\r\n\r\n(\/\d+|\{[^\r]*?\})/g)].map(([, body = '']) => body);
}

async function start(config?: object) {
  const origin = await startOrigin((request, response) => response.end(request.url));
  const rig = await startRig({ origin, config });
  return { origin, rig, client: await RawClient.connect(rig.port) };
}

test('300 requests in one packet are all answered, in order', async () => {
  const count = 300;
  const { origin, rig, client } = await start();

  client.send(many(count));
  await client.until(({ statuses, closed }) => closed || statuses.length === count);

  expect(bodies(client)).toEqual(paths(count));
  expect(origin.requests).toHaveLength(count);
  expect(rig.asked).toHaveLength(count);
  client.send(get('/last'));
  await client.until(({ text }) => text.endsWith('/last'));
});

test('a client is not read while many of its requests wait', async () => {
  const held: ServerResponse[] = [];
  const origin = await startOrigin((_request, response) => held.push(response));
  const { port } = await startRig({ origin });
  const client = await RawClient.connect(port);
  const large = `GET / HTTP/1.1\r\nHost: a\r\nX: ${'x'.repeat(4000)}\r\n\r\n`;

  // About 80 MB: no buffer of the system holds that.
  for (let at = 0; at < 200; at += 1) client.send(large.repeat(100));
  await eventually(() => held.length === 1);
  await new Promise((resolve) => setTimeout(resolve, 200));

  expect(client.socket.writableLength).toBeGreaterThan(60_000_000);
});

test('answers that wait are not lost when the client is refused behind them', async () => {
  const { client } = await start({ server: { max_requests_per_connection: 100 } });

  client.send(many(600));
  await client.untilClosed();

  expect(bodies(client)).toEqual(paths(100));
});

test.each([
  ['bytes that are no request', 'BLAH\r\n\r\n', 400],
  ['a header that is too large', `GET / HTTP/1.1\r\nX: ${'x'.repeat(40_000)}\r\n\r\n`, 431],
  ['CONNECT', 'CONNECT a:1 HTTP/1.1\r\nHost: a\r\n\r\n', 405],
  ['a body that breaks off', 'POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n', 400],
])('%s behind requests are answered behind them', async (_name, bytes, status) => {
  const { rig, client } = await start();

  client.send(many(3) + bytes);
  await client.untilClosed();

  expect(client.statuses).toEqual([200, 200, 200, status]);
  expect(bodies(client).slice(0, 3)).toEqual(paths(3));
  await eventually(() => rig.finished.length === 4);
  expect(rig.finished.map(({ status: said }) => said)).toEqual([200, 200, 200, status]);
  expect(rig.asked).toHaveLength(3);
});

test('bytes that are no request do not cut off the answer before them, however often they come', async () => {
  const held: ServerResponse[] = [];
  const origin = await startOrigin((_request, response) => {
    response.write('begun,');
    held.push(response);
  });
  const { port } = await startRig({ origin });
  const client = await RawClient.connect(port);
  client.send(get('/'));
  await client.until(({ text }) => text.includes('begun'));

  for (let at = 0; at < 3; at += 1) {
    client.send('BLAH\r\n\r\n');
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
  held[0]?.end('done');
  await client.untilClosed();

  expect(client.statuses).toEqual([200, 400]);
  expect(client.text).toContain('done');
});
