// What becomes of connections and requests in a pool of HTTP/1.1 connections.
import { createServer as createHttpServer } from 'node:http';
import { PassThrough, Readable } from 'node:stream';
import { afterEach, expect, test, vi } from 'vitest';
import { listen, until } from '../proxy/local-server.ts';
import { startRawOrigin } from '../proxy/raw-origin.ts';
import { fetchWhole, headerLines } from '../../src/http-client/fetch-whole.ts';
import { Asker, ask, poolTo, send, startHolding } from './asking.ts';

afterEach(() => {
  vi.useRealTimers();
});

const OK = 'HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok';

async function startEcho(headers: Record<string, string> = {}) {
  const paths: string[] = [];
  const local = await listen(
    createHttpServer({ keepAliveTimeout: 60_000 }, (asked, response) => {
      paths.push(`${asked.method} ${asked.url}`);
      for (const [name, value] of Object.entries(headers)) response.setHeader(name, value);
      asked.resume().on('end', () => response.end(asked.url));
    }),
  );
  return { ...local, paths, origin: `http://127.0.0.1:${local.port}` };
}

/** Lets virtual time pass, once every connection has had its rest. */
async function advance(ms: number): Promise<void> {
  for (let turn = 0; turn < 3; turn += 1) {
    await new Promise((resolve) => {
      setImmediate(resolve);
    });
  }
  vi.advanceTimersByTime(ms);
}

/** Waits for bytes to arrive, while time stands still. */
async function inTurns(holds: () => boolean): Promise<void> {
  while (!holds()) {
    await new Promise((resolve) => {
      setImmediate(resolve);
    });
  }
}

test('one connection carries requests one after the other, and each gets its own answer', async () => {
  const server = await startEcho();
  const pool = poolTo(server.origin);

  const bodies: string[] = [];
  for (let index = 0; index < 20; index += 1) bodies.push((await ask(pool, { path: `/${index}` })).body);

  expect(bodies).toEqual(Array.from({ length: 20 }, (_, index) => `/${index}`));
  expect(server.accepted()).toBe(1);
  expect(pool.dials.times).toBe(1);
});

test('no more connections are opened than may be, and the requests that wait are served in their order', async () => {
  const server = await startEcho();
  const pool = poolTo(server.origin, { maxConnections: 3 });

  const asked = await Promise.all(
    Array.from({ length: 50 }, async (_, index) => ask(pool, { path: `/${index}` })),
  );

  expect(asked.map(({ body }) => body)).toEqual(Array.from({ length: 50 }, (_, index) => `/${index}`));
  expect(server.accepted()).toBe(3);
});

test('as many requests wait as may, one more is refused, and an end makes room', async () => {
  const { origin, held } = await startHolding();
  const pool = poolTo(origin.url, { maxConnections: 2, maxPending: 1 });
  const first = [send(pool), send(pool), send(pool)];
  await until(() => held.length === 2);

  const refused = await ask(pool);
  held[0]?.socket.write(OK);
  await first[0]?.done;
  const later = send(pool);
  await until(() => held.length === 3);
  const alsoRefused = await ask(pool);
  for (const { socket } of held.slice(1)) socket.write(OK);
  await until(() => held.length === 4);
  held[3]?.socket.write(OK);

  expect(refused.error).toMatchObject({ code: 'QUEUE_FULL' });
  expect(alsoRefused.error).toMatchObject({ code: 'QUEUE_FULL' });
  expect(await Promise.all([...first, later].map(async ({ done }) => (await done).body))).toEqual([
    'ok',
    'ok',
    'ok',
    'ok',
  ]);
});

test('a request that is given up while it waits makes room at once, and never goes out', async () => {
  const { origin, held } = await startHolding();
  const pool = poolTo(origin.url, { maxConnections: 1, maxPending: 1 });
  const first = send(pool, { path: '/first' });
  await until(() => held.length === 1);
  const waiting = send(pool, { path: '/gone' });

  waiting.control?.abort(new Error('enough'));
  const other = send(pool, { path: '/other' });
  held[0]?.socket.write(OK);
  await until(() => held.length === 2);
  held[1]?.socket.write(OK);

  expect((await waiting.done).error?.message).toBe('enough');
  expect((await first.done).body).toBe('ok');
  expect((await other.done).body).toBe('ok');
  expect(origin.received.join('')).not.toContain('/gone');
  expect(waiting.ends).toBe(1);
});

test('a request that is given up ends its connection, and what was done about it later does nothing', async () => {
  const { origin, held } = await startHolding();
  const pool = poolTo(origin.url, { maxConnections: 1 });
  const given = send(pool, { path: '/given-up' });
  await until(() => held.length === 1);

  given.control?.abort(new Error('enough'));
  await until(() => origin.sockets[0]?.readableEnded === true);
  const next = send(pool, { path: '/next' });
  await until(() => held.length === 2);
  given.control?.abort(new Error('again'));
  given.control?.resume();
  held[1]?.socket.write(OK);

  expect((await next.done).body).toBe('ok');
  expect(given).toMatchObject({ ends: 1, complete: false });
});

test('a connection that the server closes while it is unused is forgotten', async () => {
  const origin = await startRawOrigin((socket) => socket.write(OK));
  const pool = poolTo(origin.url);
  await ask(pool);

  origin.sockets[0]?.end();
  await until(() => origin.sockets[0]?.destroyed === true);
  const next = await ask(pool);

  expect(next).toMatchObject({ body: 'ok', error: undefined });
  expect(pool.dials.times).toBe(2);
});

test('a request that meets the end of its connection hears of a broken connection', async () => {
  const origin = await startRawOrigin((socket, text) => {
    if (text.includes('/second')) socket.destroy();
    else socket.write(OK);
  });
  const pool = poolTo(origin.url, { maxConnections: 1 });
  await ask(pool);

  const broken = await ask(pool, { path: '/second' });

  expect(['CONNECTION_LOST', 'ECONNRESET', 'EPIPE']).toContain(broken.error?.code);
});

test('an unused connection is closed after its time, and the newest is used first', async () => {
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout', 'performance'] });
  const server = await startEcho();
  const pool = poolTo(server.origin, { idleTimeoutMs: 150 });
  await Promise.all([ask(pool), ask(pool)]);
  expect(server.sockets.size).toBe(2);

  for (let turn = 0; turn < 3; turn += 1) {
    await advance(60);
    await ask(pool);
  }
  await inTurns(() => server.sockets.size === 1);
  await advance(149);
  await ask(pool);
  await advance(150);
  await inTurns(() => server.sockets.size === 0);

  expect(server.accepted()).toBe(2);
});

test('a connection is not used again if the answer came before the end of the request', async () => {
  const origin = await startRawOrigin((socket, text) => {
    if (text.includes('first bytes') || text.startsWith('GET')) socket.write(OK);
  });
  const pool = poolTo(origin.url, { maxConnections: 1 });
  const body = new PassThrough();
  body.write('first bytes');

  const early = await ask(pool, { method: 'POST', body });
  const next = await ask(pool);

  expect(early).toMatchObject({ body: 'ok', complete: true });
  expect(body.destroyed).toBe(true);
  expect(next.body).toBe('ok');
  expect(origin.received).toHaveLength(2);
});

test('nor if the answer came before the server took the end of the request', async () => {
  const origin = await startRawOrigin((socket, text) => {
    if (text.startsWith('POST')) socket.pause();
    socket.write(OK);
  });
  const pool = poolTo(origin.url, { maxConnections: 1 });
  const body = Readable.from([Buffer.alloc(30_000_000)]);

  const early = await ask(pool, { method: 'POST', body });
  const next = await ask(pool);

  expect(early).toMatchObject({ body: 'ok', complete: true });
  expect(next.body).toBe('ok');
  expect(origin.received).toHaveLength(2);
});

test('an unused connection is closed before the server would do it', async () => {
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout', 'performance'] });
  const server = await startEcho({ 'Keep-Alive': 'timeout=3', Connection: 'keep-alive' });
  const pool = poolTo(server.origin);
  await ask(pool);

  await advance(999);
  await ask(pool);
  expect(server.accepted()).toBe(1);
  await advance(1000);
  await inTurns(() => server.sockets.size === 0);

  expect(server.accepted()).toBe(1);
});

test('every request hears that the server cannot be reached, and the pool goes on', async () => {
  const pool = poolTo('http://127.0.0.1:1', { maxConnections: 2 });

  const failed = await Promise.all([1, 2, 3, 4, 5].map(async () => ask(pool)));

  expect(failed.map(({ error, ends }) => [error?.code, ends])).toEqual(failed.map(() => ['ECONNREFUSED', 1]));
  expect(pool.dials.errors).toHaveLength(5);
});

test('closing waits for what is under way, refuses the rest, and ends all connections', async () => {
  const { origin, held } = await startHolding();
  const pool = poolTo(origin.url, { maxConnections: 1 });
  const first = send(pool);
  const waiting = send(pool);
  await until(() => held.length === 1);

  const closing = pool.close();
  const refused = await ask(pool);
  held[0]?.socket.write(OK);
  await until(() => held.length === 2);
  held[1]?.socket.write(OK);
  await closing;

  expect(refused.error).toMatchObject({ code: 'POOL_CLOSED' });
  expect([(await first.done).body, (await waiting.done).body]).toEqual(['ok', 'ok']);
  await until(() => origin.sockets.every(({ readableEnded }) => readableEnded));
});

test('destroying fails what is under way and what waits, once', async () => {
  const { origin, held } = await startHolding();
  const pool = poolTo(origin.url, { maxConnections: 1 });
  const asked = [send(pool), send(pool)];
  await until(() => held.length === 1);

  await pool.destroy();

  for (const { error, ends } of asked) {
    expect(error).toMatchObject({ code: 'POOL_CLOSED' });
    expect(ends).toBe(1);
  }
  await until(() => origin.sockets.every(({ readableEnded }) => readableEnded));
});

test('a handler that throws when it is told of the start is not started', async () => {
  const server = await startEcho();
  const pool = poolTo(server.origin, { maxConnections: 1, maxPending: 0 });
  class Throwing extends Asker {
    override onConnect(): void {
      throw new Error('planted');
    }
  }

  const throwing = await send(pool, {}, new Throwing()).done;
  const next = await ask(pool);

  expect(throwing.error?.message).toBe('planted');
  expect(next.complete).toBe(true);
  expect(server.paths).toEqual(['GET /']);
});

test('a handler that throws loses its own answer, and nothing else', async () => {
  const server = await startEcho();
  const pool = poolTo(server.origin, { maxConnections: 1 });
  class Throwing extends Asker {
    override onHeaders(): boolean {
      throw new Error('planted');
    }
  }

  const throwing = await send(pool, {}, new Throwing()).done;
  const next = await ask(pool, { path: '/next' });

  expect(throwing.error?.message).toBe('planted');
  expect(throwing.ends).toBe(1);
  expect(next.body).toBe('/next');
});

test('a whole request and response: headers, a body with its length, and a signal that ends it', async () => {
  const server = await startEcho();
  const pool = poolTo(server.origin);

  const first = await fetchWhole(pool, { method: 'POST', path: '/a', headers: ['x-a', '1'], body: 'x' });
  const aborted = fetchWhole(pool, { method: 'GET', path: '/b', signal: AbortSignal.abort() });

  expect(first.status).toBe(200);
  expect(headerLines(first.headers, 'content-length')).toEqual(['2']);
  expect(first.body.toString()).toBe('/a');
  await expect(aborted).rejects.toMatchObject({ name: 'AbortError' });
  expect(server.paths).toEqual(['POST /a']);
});

test('no more of a body is read than is wanted, and none of it where none is', async () => {
  const server = await startEcho();
  const pool = poolTo(server.origin);
  const asked = { method: 'GET', path: '/0123456789' };

  const part = await fetchWhole(pool, { ...asked, maxBodyBytes: () => 5 });
  const none = await fetchWhole(pool, { ...asked, maxBodyBytes: () => 0 });
  const all = await fetchWhole(pool, { ...asked, maxBodyBytes: () => 11 });

  expect([part, none, all].map(({ body, truncated }) => [body.toString(), truncated])).toEqual([
    ['/0123', true],
    ['', false],
    ['/0123456789', false],
  ]);
});
