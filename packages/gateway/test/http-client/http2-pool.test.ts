import { createServer as createHttpServer } from 'node:http';
import { createServer, type Http2Server, type ServerHttp2Stream } from 'node:http2';
import { PassThrough } from 'node:stream';
import { expect, test } from 'vitest';
import { listen, until, type LocalServer } from '../proxy/local-server.ts';
import { Asker, ask, http2PoolTo, send, textOf } from './asking.ts';
import { tap } from './frame-tap.ts';

async function serve(
  onStream: (stream: ServerHttp2Stream, path: string) => void,
  server: Http2Server = createServer(),
): Promise<LocalServer & { readonly origin: string }> {
  server.on('stream', (stream, headers) => {
    stream.on('error', () => {});
    onStream(stream, String(headers[':path']));
  });
  const local = await listen(server);
  return { ...local, origin: `http://127.0.0.1:${local.port}` };
}

/** Reads nothing of the body until it is let. */
class SlowReader extends Asker {
  override onHeaders(status: number, headers: readonly string[]): boolean {
    super.onHeaders(status, headers);
    return false;
  }
}

test('requests share one connection, and a long one holds up no other', async () => {
  const held: ServerHttp2Stream[] = [];
  const server = await serve((stream, path) => {
    if (path === '/long') held.push(stream);
    else stream.end(path);
  });
  const pool = http2PoolTo(server.origin);
  const long = new PassThrough();
  const handler = new SlowReader();
  send(pool, { path: '/long', method: 'POST', body: long }, handler);
  await until(() => held.length === 1);

  const answers = await Promise.all(
    Array.from({ length: 20 }, async (_, index) => textOf(pool, `/${index}`, { method: 'POST', body: 'x' })),
  );

  expect(answers).toEqual(Array.from({ length: 20 }, (_, index) => `/${index}`));
  expect(server.accepted()).toBe(1);
  handler.control?.abort(new Error('enough'));
});

test('all that was sent arrives before the trailers, however slowly it is read', async () => {
  const BYTES = 60_000;
  let closed = false;
  const server = await serve((stream) => {
    stream.respond({ ':status': 200 }, { waitForTrailers: true });
    stream.on('wantTrailers', () => stream.sendTrailers({ 'grpc-status': '0' }));
    stream.end(Buffer.alloc(BYTES));
    stream.on('close', () => (closed = true));
  });
  const handler = new SlowReader();

  send(http2PoolTo(server.origin), {}, handler);
  await until(() => handler.status === 200 && closed);
  expect(handler.bytes).toBe(0);
  handler.control?.resume();
  await handler.done;

  expect(handler.bytes).toBe(BYTES);
  expect(handler.trailers).toEqual(['grpc-status', '0']);
});

test('a slow reader neither fills the memory nor stops others on its connection', async () => {
  const server = await serve((stream, path) => {
    stream.respond({ ':status': 200 });
    if (path === '/fast') stream.end('fast');
    else stream.end(Buffer.alloc(128 * 1024));
  });
  const pool = http2PoolTo(server.origin);
  const slow = Array.from({ length: 50 }, () => new SlowReader());
  for (const handler of slow) send(pool, { path: '/slow' }, handler);
  await until(() => slow.every(({ status }) => status === 200));

  expect(await textOf(pool, '/fast')).toBe('fast');
  expect(server.accepted()).toBe(1);
  for (const handler of slow) handler.control?.abort(new Error('enough'));
});

test('after GOAWAY requests under way are finished, and new ones go over a new connection', async () => {
  const held: ServerHttp2Stream[] = [];
  const server = await serve((stream, path) => {
    if (path === '/held') held.push(stream);
    else stream.end('new');
  });
  const pool = http2PoolTo(server.origin);
  const first = send(pool, { path: '/held' });
  await until(() => held.length === 1);

  held[0]?.session?.goaway();
  held[0]?.write('wh');
  // Then GOAWAY, which was sent before it, has arrived as well.
  await until(() => first.body === 'wh');
  const second = await textOf(pool, '/other');
  held[0]?.end('ole');

  expect(second).toBe('new');
  expect((await first.done).body).toBe('whole');
  expect(server.accepted()).toBe(2);
});

test('a connection is opened when the streams of all others are taken, up to the most there may be, and then requests wait, as many as may', async () => {
  const held: ServerHttp2Stream[] = [];
  const server = await serve(
    (stream) => held.push(stream),
    createServer({ settings: { maxConcurrentStreams: 2 } }),
  );
  const pool = http2PoolTo(server.origin, { maxConnections: 2, maxPending: 1 });
  const first = textOf(pool);
  await until(() => held.length === 1);

  const others = [textOf(pool), textOf(pool), textOf(pool)];
  await until(() => held.length === 4);
  const waiting = textOf(pool);
  const refused = await textOf(pool).catch((failure: unknown) => failure);
  for (const stream of held) stream.end('ok');
  await until(() => held.length === 5);
  held[4]?.end('ok');

  expect(refused).toMatchObject({ code: 'QUEUE_FULL' });
  expect(await Promise.all([first, ...others, waiting])).toEqual(['ok', 'ok', 'ok', 'ok', 'ok']);
  expect(server.accepted()).toBe(2);
});

test('an upload that breaks off does not look complete, and the connection goes on', async () => {
  const server = await serve((stream, path) => {
    if (path === '/upload') stream.resume();
    else stream.end('ok');
  });
  const { port, frames } = await tap(server.port);
  const origin = `http://127.0.0.1:${port}`;
  const pool = http2PoolTo(origin);
  const body = new PassThrough();
  const handler = new SlowReader();
  send(pool, { path: '/upload', method: 'POST', body }, handler);
  body.write('half');
  await until(() => frames().includes('DATA'));

  body.destroy();
  await until(() => handler.error !== undefined && frames().includes('RESET'));

  expect(frames()).toBe('HEADERS DATA RESET 8');
  expect(await textOf(pool)).toBe('ok');
  expect(server.accepted()).toBe(1);
});

test('a response that breaks off is an error, not an end', async () => {
  let breakOff = (): void => undefined;
  const server = await serve((stream) => {
    stream.respond({ ':status': 200 });
    stream.write('half');
    breakOff = () => stream.destroy(new Error('broken'));
  });
  const asker = send(http2PoolTo(server.origin));
  await until(() => asker.body === 'half');

  breakOff();
  await asker.done;

  expect(asker.error).toMatchObject({ code: 'CONNECTION_LOST' });
  expect(asker.complete).toBe(false);
});

test('every line of a header arrives', async () => {
  const server = await serve((stream) => {
    stream.respond({ ':status': 200, 'set-cookie': ['a=1', 'b=2'], 'x-one': '1' });
    stream.end('body');
  });

  const { headers } = await ask(http2PoolTo(server.origin));

  expect(headers.join(' ')).toContain('set-cookie a=1 set-cookie b=2');
  expect(headers.join(' ')).toContain('x-one 1');
});

test('a server that does not answer in time is a timeout, and so is one that falls silent', async () => {
  const server = await serve((stream, path) => {
    if (path === '/half') stream.write('half');
  });
  const pool = http2PoolTo(server.origin);

  const [silent, half] = await Promise.all([
    ask(pool, { headersTimeoutMs: 50 }),
    ask(pool, { path: '/half', bodyTimeoutMs: 50 }),
  ]);

  expect(silent.error).toMatchObject({ code: 'HEADERS_TIMEOUT' });
  expect(half.error).toMatchObject({ code: 'BODY_TIMEOUT' });
});

test('headers that belong to one connection are left out, and repeated ones keep their lines', async () => {
  const server = createServer();
  const local = await listen(server);
  const origin = `http://127.0.0.1:${local.port}`;
  const asked = new Promise<object>((resolve) => {
    server.on('stream', (_stream, fields) => resolve(fields));
  });

  const headers = [
    'Host',
    'shop.example',
    'Connection',
    'close',
    'Transfer-Encoding',
    'chunked',
    'TE',
    'trailers',
  ];
  send(http2PoolTo(origin), {
    path: '/a?b',
    headers: [...headers, 'X-A', '1', 'x-a', '2', 'Upgrade', 'h2c'],
  });
  const received: Record<string, unknown> = { ...(await asked) };

  expect(received).toMatchObject({
    ':authority': 'shop.example',
    ':path': '/a?b',
    ':scheme': 'http',
    'x-a': '1, 2',
    te: 'trailers',
  });
  expect(Object.keys(received)).not.toContain('connection');
  expect(Object.keys(received)).not.toContain('upgrade');
});

test('an unused connection is closed after its idle timeout', async () => {
  const server = await serve((stream) => stream.end('ok'));
  const pool = http2PoolTo(server.origin, { idleTimeoutMs: 100 });

  await textOf(pool);
  expect(server.sockets.size).toBe(1);
  await until(() => server.sockets.size === 0);

  expect(await textOf(pool)).toBe('ok');
});

test('closing waits for requests under way, and refuses new ones', async () => {
  const held: ServerHttp2Stream[] = [];
  const server = await serve((stream) => held.push(stream));
  const pool = http2PoolTo(server.origin);
  const answer = textOf(pool);
  await until(() => held.length === 1);

  const closing = pool.close();
  const refused = await textOf(pool).catch((failure: unknown) => failure);
  held[0]?.end('whole');

  expect(refused).toMatchObject({ code: 'POOL_CLOSED' });
  expect(await answer).toBe('whole');
  await closing;
  await until(() => server.sockets.size === 0);
});

test('every request hears that the server cannot be reached', async () => {
  const pool = http2PoolTo('http://127.0.0.1:1');

  const failures = await Promise.all(
    [1, 2, 3].map(async () => textOf(pool).catch((failure: unknown) => failure)),
  );

  for (const failure of failures) expect(failure).toMatchObject({ code: 'ECONNREFUSED' });
});

test('a burst on a cold pool does not exceed what the server takes at a time', async () => {
  const MAX_STREAMS = 2;
  let open = 0;
  let most = 0;
  const server = await serve(
    (stream) => {
      open += 1;
      most = Math.max(most, open);
      setTimeout(() => {
        open -= 1;
        stream.end('ok');
      }, 5);
    },
    createServer({ settings: { maxConcurrentStreams: MAX_STREAMS } }),
  );
  const pool = http2PoolTo(server.origin, { maxConnections: 1 });

  const answers = await Promise.all(
    Array.from({ length: 30 }, async () => textOf(pool, '/', { method: 'POST', body: 'x' })),
  );

  expect(new Set(answers)).toEqual(new Set(['ok']));
  expect(most).toBeLessThanOrEqual(MAX_STREAMS);
  expect(server.accepted()).toBe(1);
});

test('a server that speaks only HTTP/1.1 is told apart', async () => {
  const { port } = await listen(createHttpServer((_request, response) => response.end('old')));
  const origin = `http://127.0.0.1:${port}`;

  const failure = await textOf(http2PoolTo(origin)).catch((error: unknown) => error);

  expect(failure).toMatchObject({ code: 'NO_HTTP2' });
});
