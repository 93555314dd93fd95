import { once } from 'node:events';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import type { IncomingMessage } from 'node:http';
import { createServer as createHttpsServer } from 'node:https';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, onTestFinished, test, vi } from 'vitest';
import { WebSocket } from 'ws';
import { createCertificates } from '../../../../../test/redis/certificates.ts';
import { letArrive, until, untilSteady } from '../local-server.ts';
import { AGREEMENT, HANDSHAKE, rawClient, startFront } from './tunnel-gateway.ts';
import {
  closeCode,
  echoServer,
  isOver,
  nextClient,
  openClient,
  rawUpstream,
  statusOf,
} from './websocket-sides.ts';

/** From here on timeouts of the gateway, which runs in this process, end only when the test says so. */
function virtualTimeouts(): void {
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] });
  onTestFinished(() => void vi.useRealTimers());
}

test('messages of every size pass in both directions', async () => {
  const { url } = await echoServer();
  const front = await startFront(url);
  const client = await openClient(front);
  const messages = [0, 1, 125, 126, 65_535, 65_536, 1_000_000].map((size) => Buffer.alloc(size, 'x'));

  const echoed: Buffer[] = [];
  client.on('message', (message: Buffer) => echoed.push(message));
  for (const message of messages) client.send(message);
  await until(() => echoed.length === messages.length);

  expect(echoed.map(({ length }) => length)).toEqual(messages.map(({ length }) => length));
  expect(front.open()).toBe(1);
  client.close(1000, 'done');
  const [code, reason] = await once(client, 'close');
  expect([code, String(reason)]).toEqual([1000, 'done']);
  await until(() => front.ends.length === 1);
  expect(front.open()).toBe(0);
  expect(front.ends[0]).toMatchObject({ status: 101, reason: undefined, upstreamMs: expect.any(Number) });
  expect(front.ends[0]?.bytesReceived).toBeGreaterThan(1_131_000);
  expect(front.ends[0]?.bytesSent).toBeGreaterThan(1_131_000);
});

test('subprotocol, extensions and headers of both sides are agreed on end to end', async () => {
  const { url, server } = await echoServer({ perMessageDeflate: true, handleProtocols: () => 'chat.v2' });
  const front = await startFront(url);
  const asked = nextClient(server);

  const client = new WebSocket(`ws://127.0.0.1:${front.port}/chat?room=1`, ['chat.v1', 'chat.v2'], {
    perMessageDeflate: true,
    headers: { 'X-Request-Id': 'request-1' },
  });
  onTestFinished(() => client.terminate());
  const upgraded = new Promise<IncomingMessage>((resolve) => {
    client.once('upgrade', resolve);
  });
  await once(client, 'open');
  const response = await upgraded;
  const { request } = await asked;
  client.send('compressed '.repeat(100));
  const [message] = await once(client, 'message');

  expect(client.protocol).toBe('chat.v2');
  expect(client.extensions).toContain('permessage-deflate');
  expect(response.headers).toMatchObject({ 'x-request-id': 'request-1', upgrade: 'websocket' });
  expect(request.url).toBe('/chat?room=1');
  expect(String(message)).toBe('compressed '.repeat(100));
});

test('a key has at most max_per_key tunnels, and a place is free again when one ends', async () => {
  const { url } = await echoServer();
  const front = await startFront(url, { server: { websocket: { max_per_key: 2 } } });
  const first = await openClient(front);
  await openClient(front);

  expect(await statusOf(front)).toBe(429);
  expect(await statusOf(front, { 'x-key': 'bob' })).toBe(101);
  first.terminate();
  await until(() => front.ends.some(({ status }) => status === 101 && front.open() === 1));

  expect(await statusOf(front)).toBe(101);
});

test('a handshake that fails gives its place back', async () => {
  const front = await startFront('http://127.0.0.1:1', { server: { websocket: { max_per_key: 1 } } });

  for (let turn = 0; turn < 3; turn += 1) {
    expect(await statusOf(front)).toBe(502);
    await until(() => front.ends.length === turn + 1);
  }
});

test('a silent tunnel is closed after idle_timeout, and both sides are told', async () => {
  const { url, server } = await echoServer();
  const front = await startFront(url, { server: { websocket: { idle_timeout: '100ms' } } });
  const connected = nextClient(server);
  const client = await openClient(front);
  const { socket: upstream } = await connected;
  const told = Promise.all([closeCode(client), closeCode(upstream)]);

  expect(await told).toEqual([1001, 1001]);
  await until(() => front.ends.length === 1);
  expect(front.ends[0]?.reason).toBe('IDLE_TIMEOUT');
});

test('a tunnel that is used stays open for longer than idle_timeout', async () => {
  const { url } = await echoServer();
  const front = await startFront(url, { server: { websocket: { idle_timeout: '1s' } } });
  virtualTimeouts();
  const client = await openClient(front);

  for (let turn = 0; turn < 5; turn += 1) {
    vi.advanceTimersByTime(999);
    client.send('ping');
    await once(client, 'message');
  }

  expect(front.open()).toBe(1);
  vi.advanceTimersByTime(1000);
  await until(() => front.ends.length === 1);
  expect(front.ends[0]?.reason).toBe('IDLE_TIMEOUT');
});

test('what exceeds max_transfer_bytes does not pass, and the tunnel ends', async () => {
  const { url } = await echoServer();
  const front = await startFront(url, { server: { websocket: { max_transfer_bytes: 1000 } } });
  const client = await openClient(front);
  const messages: number[] = [];
  client.on('message', (message: Buffer) => messages.push(message.length));

  client.send(Buffer.alloc(900));
  await until(() => messages.length === 1);
  client.send(Buffer.alloc(900));

  expect(await closeCode(client)).toBe(1008);
  expect(messages).toEqual([900]);
  await until(() => front.ends.length === 1);
  expect(front.ends[0]?.reason).toBe('TRANSFER_LIMIT');
  expect(front.ends[0]?.bytesReceived).toBeLessThanOrEqual(1000);
});

test('a side that does not read holds the other one up, instead of filling the memory', async () => {
  const upstream = await rawUpstream(AGREEMENT);
  const front = await startFront(upstream.url);
  const client = rawClient(front.port, HANDSHAKE);
  await until(() => client.text().includes('101'));
  const [server] = upstream.sockets;
  const sent = (): number => (server?.bytesWritten ?? 0) - (server?.writableLength ?? 0);

  client.socket.pause();
  for (let written = 0; written < 200; written += 1) server?.write(Buffer.alloc(2 ** 18));
  await untilSteady(sent);
  const whilePaused = sent();
  client.socket.resume();
  await until(() => client.socket.bytesRead > 200 * 2 ** 18);

  expect(whilePaused).toBeLessThan(30 * 2 ** 20);
});

test('one side may finish before the other', async () => {
  const upstream = await rawUpstream(AGREEMENT);
  const front = await startFront(upstream.url);
  const client = rawClient(front.port, HANDSHAKE);
  await until(() => client.text().includes('101'));

  client.socket.end('last words');
  await until(() => upstream.sockets[0]?.readableEnded === true);
  upstream.sockets[0]?.end('answer');
  await until(() => front.ends.length === 1);

  expect(upstream.received()).toContain('last words');
  await expect.poll(() => client.text()).toContain('answer');
  expect(front.ends[0]?.reason).toBeUndefined();
});

test.each(['client', 'upstream'] as const)(
  'when the %s breaks off, the other side is closed at once',
  async (who) => {
    const upstream = await rawUpstream(AGREEMENT);
    const front = await startFront(upstream.url);
    const client = rawClient(front.port, HANDSHAKE);
    await until(() => client.text().includes('101'));

    if (who === 'client') client.socket.resetAndDestroy();
    else upstream.sockets[0]?.resetAndDestroy();

    await until(() => front.ends.length === 1);
    expect(front.open()).toBe(0);
    await until(() => client.closed() && isOver(upstream.sockets[0]));
  },
);

test('a client that leaves during the handshake leaves nothing behind', async () => {
  const upstream = await rawUpstream('');
  const front = await startFront(upstream.url, { backend: { timeout: '10s' } });
  const client = rawClient(front.port, HANDSHAKE);
  await until(() => upstream.received().endsWith('\r\n\r\n'));

  client.socket.resetAndDestroy();
  await until(() => front.ends.length === 1);

  expect(front.ends[0]?.status).toBeUndefined();
  await until(() => isOver(upstream.sockets[0]));
});

test('at shutdown both sides are told, and new tunnels get a 503', async () => {
  const { url, server } = await echoServer();
  const front = await startFront(url);
  const connected = nextClient(server);
  const client = await openClient(front);
  const { socket: upstream } = await connected;
  const told = Promise.all([closeCode(client), closeCode(upstream)]);

  // The test would wait for as long if a side was not told.
  const drained = front.tunnels.drain(86_400_000);
  const status = await statusOf(front);
  await drained;

  expect(await told).toEqual([1001, 1001]);
  expect(status).toBe(503);
  await until(() => front.ends.some(({ reason }) => reason === 'SHUTTING_DOWN'));
});

test('a shutdown does not cut a frame: it waits for its end, and cuts at the deadline', async () => {
  const upstream = await rawUpstream(AGREEMENT);
  const front = await startFront(upstream.url);
  const client = rawClient(front.port, HANDSHAKE);
  await until(() => client.text().includes('101'));
  upstream.sockets[0]?.write(Buffer.from([0x82, 4, 65, 66]));
  await until(() => client.text().endsWith('AB'));

  virtualTimeouts();
  const drained = front.tunnels.drain(300);
  await until(() => upstream.received().includes('\u0088\u0082'));
  expect(client.text().endsWith('AB')).toBe(true);
  upstream.sockets[0]?.write(Buffer.from([67, 68, 0x82, 1, 69]));
  await until(() => client.text().endsWith('ABCD\u0088\u0002\u0003\u00E9'));
  vi.advanceTimersByTime(299);
  await letArrive();
  expect(client.closed()).toBe(false);
  vi.advanceTimersByTime(1);
  await drained;

  expect(client.text()).not.toContain('E\u0082');
});

test('many tunnels that come and go leave nothing behind', async () => {
  const { url, server } = await echoServer();
  const front = await startFront(url, { server: { websocket: { max_per_key: 25 } } });

  for (let round = 0; round < 4; round += 1) {
    const clients = await Promise.all(Array.from({ length: 25 }, async () => openClient(front)));
    for (const [index, client] of clients.entries()) {
      if (index % 3 === 0) client.terminate();
      else client.close();
    }
    await until(() => front.open() === 0 && front.ends.length === (round + 1) * 25);
  }

  await until(() => server.clients.size === 0);
  expect(front.ends.every(({ status, reason }) => status === 101 && reason === undefined)).toBe(true);
});

test('an upstream behind TLS is asked over TLS', async () => {
  const certificates = await createCertificates();
  const folder = mkdtempSync(join(tmpdir(), 'spillgate-tunnel-'));
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
  writeFileSync(join(folder, 'ca.crt'), certificates.ca);
  const { url } = await echoServer({}, createHttpsServer(certificates.server));
  const secure = url.replace('http:', 'https:');
  const front = await startFront(secure, {
    backend: { transport: { tls: { ca_file: join(folder, 'ca.crt') } } },
  });
  const untrusting = await startFront(secure);

  const client = await openClient(front);
  client.send('secret');
  const [message] = await once(client, 'message');

  expect(String(message)).toBe('secret');
  expect(await statusOf(untrusting)).toBe(502);
});
