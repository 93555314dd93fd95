import { expect, test } from 'vitest';
import { until, letArrive } from '../local-server.ts';
import { AGREEMENT, HANDSHAKE, rawClient, startFront } from './tunnel-gateway.ts';
import { echoServer, isOver, rawUpstream, statusOf } from './websocket-sides.ts';

async function refusalBy(answer: string, settings: Parameters<typeof startFront>[1] = {}) {
  const upstream = await rawUpstream(answer);
  const front = await startFront(upstream.url, settings);
  const client = rawClient(front.port, `${HANDSHAKE}early bytes`);
  await until(() => client.closed());
  return { upstream, front, text: client.text() };
}

test('nothing but the handshake reaches the upstream before it agreed', async () => {
  const upstream = await rawUpstream('');
  const front = await startFront(upstream.url);
  const client = rawClient(front.port, `${HANDSHAKE}early bytes`);
  await until(() => upstream.received().endsWith('\r\n\r\n'));
  client.socket.write('more');
  await letArrive();

  expect(upstream.received()).not.toContain('early');
  expect(client.text()).toBe('');
  upstream.sockets[0]?.write(`${AGREEMENT}first words`);
  await until(() => upstream.received().endsWith('early bytesmore') && client.text().endsWith('first words'));

  expect(upstream.received().match(/^Connection: Upgrade\r$/gm)).toHaveLength(1);
  expect(client.text()).toMatch(/^HTTP\/1\.1 101 Switching Protocols\r\n/);
});

test.each([
  ['a wrong Sec-WebSocket-Accept', AGREEMENT.replace('s3pP', 'S3pP')],
  ['no Sec-WebSocket-Accept', AGREEMENT.replace(/Sec-WebSocket-Accept.*\r\n/, '')],
  ['two of them', AGREEMENT.replace(/(Sec-WebSocket-Accept.*\r\n)/, '$1$1')],
  ['another protocol', AGREEMENT.replace('Upgrade: websocket', 'Upgrade: h2c')],
  ['no Upgrade', AGREEMENT.replace('Upgrade: websocket\r\n', '')],
  ['no Connection', AGREEMENT.replace('Connection: Upgrade\r\n', '')],
  ['no HTTP', 'SSH-2.0-OpenSSH_9.2\r\n'],
  ['a flood of 1xx', 'HTTP/1.1 103 Early Hints\r\n\r\n'.repeat(50)],
])('an upstream that answers 101 with %s opens nothing: 502, and no byte passes', async (_name, answer) => {
  const { upstream, front, text } = await refusalBy(`${answer}secret`);

  expect(text).toMatch(/^HTTP\/1\.1 502 /);
  expect(text).toContain('"code":"UPSTREAM_BROKEN"');
  expect(text).toContain('X-Request-Id: request-1');
  expect(text).not.toContain('secret');
  expect(upstream.received()).not.toContain('early');
  expect(front.open()).toBe(0);
  await until(() => front.ends.length === 1);
  expect(front.ends[0]).toMatchObject({ status: 502, reason: 'UPSTREAM_BROKEN' });
  await until(() => isOver(upstream.sockets[0]));
});

test.each([
  [
    'with a length',
    'HTTP/1.1 401 No\r\nContent-Length: 4\r\nWWW-Authenticate: Basic\r\nConnection: keep-alive, x-hop\r\nX-Hop: 1\r\n\r\nwhat',
    'what',
  ],
  [
    'in chunks',
    'HTTP/1.1 401 No\r\nTransfer-Encoding: chunked\r\nWWW-Authenticate: Basic\r\n\r\n4\r\nwhat\r\n0\r\n\r\n',
    '4\r\nwhat\r\n0\r\n\r\n',
  ],
])(
  'an ordinary answer is passed on %s, and the connection closed; what the client sent after its headers is not',
  async (_name, answer, body) => {
    const { upstream, front, text } = await refusalBy(answer);

    expect(text).toMatch(/^HTTP\/1\.1 401 Unauthorized\r\n/);
    expect(text).toContain('WWW-Authenticate: Basic\r\n');
    expect(text).toContain('Connection: close\r\n');
    expect(text).not.toMatch(/keep-alive|x-hop/i);
    expect(text.endsWith(`\r\n\r\n${body}`)).toBe(true);
    expect(upstream.received()).not.toContain('early');
    await until(() => front.ends.length === 1);
    expect(front.ends[0]).toMatchObject({ status: 401, reason: undefined, bytesSent: 4 });
  },
);

const MANY_LINES = Array.from({ length: 1100 }, (_, at) => `X-${at}: x\r\n`).join('');

test.each([
  ['two lengths', 'HTTP/1.1 200 OK\r\nContent-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n'],
  [
    'too many lines',
    `HTTP/1.1 200 OK\r\n${MANY_LINES}Content-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n`,
  ],
  ['no status', 'HTTP/1.1 000 None\r\nContent-Length: 4\r\n\r\nwhat'],
  ['a bare line feed', 'HTTP/1.1 200 OK\nContent-Length: 4\r\n\r\nwhat'],
])('an ordinary answer with %s is read as strictly as any other: 502', async (_name, answer) => {
  const { text } = await refusalBy(answer);

  expect(text).toMatch(/^HTTP\/1\.1 502 /);
  expect(text).toContain('"code":"UPSTREAM_BROKEN"');
});

test('bytes behind an ordinary answer are not passed on, and keep nobody waiting', async () => {
  const { text } = await refusalBy('HTTP/1.1 401 No\r\nContent-Length: 4\r\n\r\nwhatever');

  expect(text).toMatch(/^HTTP\/1\.1 401 /);
  expect(text.endsWith('\r\n\r\nwhat')).toBe(true);
});

test('an ordinary answer that breaks off does not look whole', async () => {
  const upstream = await rawUpstream('HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nhalf\r\n');
  const front = await startFront(upstream.url);
  const client = rawClient(front.port, HANDSHAKE);
  await until(() => client.text().includes('half'));

  upstream.sockets[0]?.destroy();
  await until(() => client.closed());

  expect(client.text()).not.toContain('0\r\n\r\n');
});

test('a second request behind the handshake is never seen by an upstream that declines', async () => {
  const upstream = await rawUpstream('HTTP/1.1 426 Upgrade Required\r\nContent-Length: 0\r\n\r\n');
  const front = await startFront(upstream.url);

  const client = rawClient(front.port, `${HANDSHAKE}GET /admin HTTP/1.1\r\nHost: x\r\n\r\n`);
  await until(() => client.closed());

  expect(client.text()).toMatch(/^HTTP\/1\.1 426 /);
  expect(upstream.received()).not.toContain('/admin');
});

test('a request for another protocol opens no tunnel: it is forwarded as any other, without its offer', async () => {
  const upstream = await rawUpstream('HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n');
  const front = await startFront(upstream.url);

  const client = rawClient(front.port, HANDSHAKE.replace('Upgrade: websocket', 'Upgrade: h2c'));
  await until(() => client.closed());

  expect(client.text()).toMatch(/^HTTP\/1\.1 200 /);
  expect(upstream.received()).not.toMatch(/^Upgrade:/im);
  expect(front.open()).toBe(0);
});

test.each([
  ['no key', HANDSHAKE.replace(/Sec-WebSocket-Key.*\r\n/, '')],
  ['two keys', HANDSHAKE.replace(/(Sec-WebSocket-Key.*\r\n)/, '$1$1')],
  ['a short key', HANDSHAKE.replace('dGhlIHNh', '')],
  ['another method', HANDSHAKE.replace('GET', 'POST')],
])('a request with %s is no handshake: 400, and the upstream is not asked', async (_name, request) => {
  const upstream = await rawUpstream(AGREEMENT);
  const front = await startFront(upstream.url);

  const client = rawClient(front.port, request);
  await until(() => client.closed());

  expect(client.text()).toMatch(/^HTTP\/1\.1 400 /);
  expect(upstream.sockets).toHaveLength(0);
});

test('an upstream that cannot be reached is a 502, one that does not answer a 504', async () => {
  const refused = await startFront('http://127.0.0.1:1');
  const silent = await rawUpstream('');
  const late = await startFront(silent.url, { backend: { timeout: '50ms' } });

  expect(await statusOf(refused)).toBe(502);
  expect(await statusOf(late)).toBe(504);
  await until(() => refused.ends.length === 1 && late.ends.length === 1);
  expect(refused.ends[0]?.reason).toBe('UPSTREAM_UNREACHABLE');
  expect(late.ends[0]?.reason).toBe('UPSTREAM_TIMEOUT');
  await until(() => isOver(silent.sockets[0]));
});

test('pages of other origins get a 403, and so does who names none', async () => {
  const { url } = await echoServer();
  const front = await startFront(url, {
    server: { websocket: { allowed_origins: ['https://shop.example'] } },
  });

  expect(await statusOf(front, { origin: 'https://SHOP.example' })).toBe(101);
  expect(await statusOf(front, { origin: 'https://shop.example.evil' })).toBe(403);
  expect(await statusOf(front, { origin: 'null' })).toBe(403);
  expect(await statusOf(front)).toBe(403);
});
