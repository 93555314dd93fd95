// A client that does not wait for its answers gets all of them, in order, and no more is read of it than can be kept.
import { IncomingMessage, request as ask, type ServerResponse } from 'node:http';
import { request as askSecure } from 'node:https';
import { connect } from 'node:net';
import { text as wholeText } from 'node:stream/consumers';
import { connect as connectSecure } from 'node:tls';
import { describe, expect, onTestFinished, test, vi } from 'vitest';
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

const SMALL = get('/');
const LARGE = `GET / HTTP/1.1\r\nHost: a\r\nX: ${'x'.repeat(4000)}\r\n\r\n`;
/** More than the system takes. */
const FLOOD_BYTES = 20_000_000;

// Each of them is read in another way.
describe.each([
  ['without TLS', {}],
  ['without TLS and HTTP/2', { config: { server: { http2: false } } }],
  ['with TLS', { secureContext }],
])('%s', (_name, options) => {
  test.each([
    ['small', SMALL],
    ['large', LARGE],
  ])('a client is not read while many of its %s requests wait, and then it is', async (_size, request) => {
    const held: ServerResponse[] = [];
    let answered = 0;
    const origin = await startOrigin(({ url }, response) =>
      url === '/other' || (answered -= 1) >= 0 ? response.end('ok') : held.push(response),
    );
    const { port, asked } = await startRig({ origin, ...options });
    const other = (): Promise<string> => askBeside(port, 'secureContext' in options);
    const socket =
      'secureContext' in options
        ? connectSecure({ port, host: '127.0.0.1', rejectUnauthorized: false })
        : connect({ port, host: '127.0.0.1' });
    onTestFinished(() => void socket.destroy());
    let received = '';
    socket.setEncoding('latin1').on('data', (text: string) => (received += text));

    const packet = request.repeat(Math.ceil(100_000 / request.length));
    for (let sent = 0; sent < FLOOD_BYTES; sent += packet.length) socket.write(packet);
    await eventually(() => held.length === 1);
    const left = await settled(() => socket.writableLength);
    const beside = await other();
    // Some answers more, and still many wait.
    answered = 20;
    held[0]?.end('ok');
    await eventually(() => held.length === 2);
    const stillLeft = await settled(() => socket.writableLength);
    answered = Infinity;
    held[1]?.end('ok');
    const meanwhile = await other();
    await eventually(() => asked.length > 400);
    socket.destroy();
    const afterwards = await other();

    expect(left).toBeGreaterThan(FLOOD_BYTES / 4);
    expect(stillLeft).toBe(left);
    expect(received.match(/HTTP\/1\.1 200 /g)?.length).toBeGreaterThan(300);
    expect([beside, meanwhile, afterwards]).toEqual(['ok', 'ok', 'ok']);
  });
});

/** Waits until a number stays the same over many looks, and answers it. */
async function settled(look: () => number): Promise<number> {
  let same = 0;
  let last = look();
  await eventually(() => {
    const now = look();
    same = now === last ? same + 1 : 0;
    last = now;
    return same === 20;
  });
  return last;
}

/** What another client gets. */
async function askBeside(port: number, secure: boolean): Promise<string> {
  const request = { port, host: '127.0.0.1', path: '/other', agent: false };
  return new Promise((resolve, reject) => {
    const asked = secure ? askSecure({ ...request, rejectUnauthorized: false }) : ask(request);
    asked.on('error', reject).on('response', (response) => void wholeText(response).then(resolve, reject));
    asked.end();
  });
}

test('requests that still waited when their client left cost nothing any more', async () => {
  const count = 1000;
  const held: ServerResponse[] = [];
  const origin = await startOrigin((_request, response) => held.push(response));
  const { port, finished } = await startRig({ origin });
  const client = await RawClient.connect(port);
  client.send(many(count));
  await eventually(() => held.length === 1);
  const ended = vi.spyOn(IncomingMessage.prototype, '_destroy');

  client.socket.resetAndDestroy();
  await settled(() => held.length);
  held[0]?.end('nobody reads this');
  await eventually(() => finished.length === 1);

  // The one that was under way, at the front and at the backend.
  expect(await settled(() => ended.mock.calls.length)).toBeLessThan(10);
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
    await settled(() => client.text.length);
  }
  held[0]?.end('done');
  await client.untilClosed();

  expect(client.statuses).toEqual([200, 400]);
  expect(client.text).toContain('done');
});
