// A client that does not wait for its answers gets all of them, in order, and no more is read of it than can be kept.
import type { ServerResponse } from 'node:http';
import { connect } from 'node:net';
import { connect as connectSecure } from 'node:tls';
import { expect, onTestFinished, test } from 'vitest';
import { createCertificates } from '../../../../test/redis/certificates.ts';
import { eventually, RawClient, startOrigin, startRig } from './rig.ts';

const { server: secureContext } = await createCertificates();

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

const LARGE = `GET / HTTP/1.1\r\nHost: a\r\nX: ${'x'.repeat(4000)}\r\n\r\n`;

// Each of them is read in another way.
test.each([
  ['without TLS', {}],
  ['without TLS and HTTP/2', { config: { server: { http2: false } } }],
  ['with TLS', { secureContext }],
])('%s, a client is not read while many of its requests wait, and then it is', async (_name, options) => {
  const held: ServerResponse[] = [];
  let answered = 0;
  const origin = await startOrigin((_request, response) =>
    (answered -= 1) >= 0 ? response.end('ok') : held.push(response),
  );
  const { port, asked } = await startRig({ origin, ...options });
  const socket =
    'secureContext' in options
      ? connectSecure({ port, host: '127.0.0.1', rejectUnauthorized: false })
      : connect({ port, host: '127.0.0.1' });
  onTestFinished(() => void socket.destroy());
  let received = '';
  socket.setEncoding('latin1').on('data', (text: string) => (received += text));

  // About 20 MB: more than the system takes.
  for (let at = 0; at < 50; at += 1) socket.write(LARGE.repeat(100));
  await eventually(() => held.length === 1);
  await new Promise((resolve) => setTimeout(resolve, 200));
  const left = socket.writableLength;
  // Some answers more, and still many wait.
  answered = 20;
  held[0]?.end('ok');
  await eventually(() => held.length === 2);
  await new Promise((resolve) => setTimeout(resolve, 50));
  const stillLeft = socket.writableLength;
  answered = Infinity;
  held[1]?.end('ok');
  await eventually(() => asked.length > 400);

  expect(left).toBeGreaterThan(5_000_000);
  expect(stillLeft).toBe(left);
  expect(received.match(/HTTP\/1\.1 200 /g)?.length).toBeGreaterThan(300);
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
