import { createServer as createHttpServer } from 'node:http';
import { createServer, type Http2Server, type ServerHttp2Stream } from 'node:http2';
import { PassThrough } from 'node:stream';
import { request, type Dispatcher } from 'undici';
import { expect, onTestFinished, test } from 'vitest';
import { createUpstreams } from '../../../src/proxy/upstreams/configured-upstreams.ts';
import { backendOf, keptLog } from '../gateway-settings.ts';
import { listen, until, type LocalServer } from '../local-server.ts';
import { tap } from './frame-tap.ts';

type Backend = Parameters<typeof backendOf>[0];

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

function http2To(origin: string, backend: Backend = {}): Dispatcher {
  const upstreams = createUpstreams(backendOf({ url: origin, ...backend }), { log: keptLog() });
  onTestFinished(async () => upstreams.close({ force: true }));
  const upstream = upstreams.next();
  if (upstream === undefined) throw new Error('no upstream');
  return upstream.http2;
}

/** A handler that reads nothing until it is let. */
class SlowReader implements Dispatcher.DispatchHandler {
  status = 0;
  bytes = 0;
  trailers: unknown;
  error: Error | undefined;
  controller: Dispatcher.DispatchController | undefined;

  onRequestStart(controller: Dispatcher.DispatchController): void {
    this.controller = controller;
  }

  onResponseStart(controller: Dispatcher.DispatchController, status: number): void {
    this.status = status;
    controller.pause();
  }

  onResponseData(_controller: Dispatcher.DispatchController, chunk: Buffer): void {
    this.bytes += chunk.length;
  }

  onResponseEnd(_controller: Dispatcher.DispatchController, trailers: unknown): void {
    this.trailers = trailers;
  }

  onResponseError(_controller: Dispatcher.DispatchController, error: Error): void {
    this.error = error;
  }
}

async function pause(ms: number): Promise<void> {
  await new Promise((resolve) => {
    setTimeout(resolve, ms);
  });
}

test('requests share one connection, and a long one holds up no other', async () => {
  const held: ServerHttp2Stream[] = [];
  const server = await serve((stream, path) => {
    if (path === '/long') held.push(stream);
    else stream.end(path);
  });
  const dispatcher = http2To(server.origin);
  const long = new PassThrough();
  const handler = new SlowReader();
  dispatcher.dispatch({ path: '/long', method: 'POST', body: long }, handler);
  await until(() => held.length === 1);

  const answers = await Promise.all(
    Array.from({ length: 20 }, async (_, index) => {
      const { body } = await request(`${server.origin}/${index}`, { dispatcher, method: 'POST', body: 'x' });
      return body.text();
    }),
  );

  expect(answers).toEqual(Array.from({ length: 20 }, (_, index) => `/${index}`));
  expect(server.accepted()).toBe(1);
  handler.controller?.abort(new Error('enough'));
});

test('all that was sent arrives before the trailers, however slowly it is read', async () => {
  const BYTES = 60_000;
  const server = await serve((stream) => {
    stream.respond({ ':status': 200 }, { waitForTrailers: true });
    stream.on('wantTrailers', () => stream.sendTrailers({ 'grpc-status': '0' }));
    stream.end(Buffer.alloc(BYTES));
  });
  const handler = new SlowReader();

  http2To(server.origin).dispatch({ path: '/', method: 'GET' }, handler);
  await until(() => handler.status === 200);
  await pause(50);
  expect(handler.bytes).toBe(0);
  handler.controller?.resume();
  await until(() => handler.trailers !== undefined);

  expect(handler.bytes).toBe(BYTES);
  expect(handler.trailers).toMatchObject({ 'grpc-status': '0' });
});

test('a slow reader neither fills the memory nor stops others on its connection', async () => {
  const server = await serve((stream, path) => {
    stream.respond({ ':status': 200 });
    if (path === '/fast') stream.end('fast');
    else stream.end(Buffer.alloc(128 * 1024));
  });
  const dispatcher = http2To(server.origin);
  const slow = Array.from({ length: 50 }, () => new SlowReader());
  for (const handler of slow) dispatcher.dispatch({ path: '/slow', method: 'GET' }, handler);
  await until(() => slow.every(({ status }) => status === 200));
  await pause(100);

  const { body } = await request(`${server.origin}/fast`, { dispatcher });

  expect(await body.text()).toBe('fast');
  expect(server.accepted()).toBe(1);
  for (const handler of slow) handler.controller?.abort(new Error('enough'));
});

test('after GOAWAY requests under way are finished, and new ones go over a new connection', async () => {
  const held: ServerHttp2Stream[] = [];
  const server = await serve((stream, path) => {
    if (path === '/held') held.push(stream);
    else stream.end('new');
  });
  const dispatcher = http2To(server.origin);
  const first = request(`${server.origin}/held`, { dispatcher });
  await until(() => held.length === 1);

  held[0]?.session?.goaway();
  await pause(50);
  const second = await request(`${server.origin}/other`, { dispatcher });
  held[0]?.end('whole');

  expect(await second.body.text()).toBe('new');
  expect(await (await first).body.text()).toBe('whole');
  expect(server.accepted()).toBe(2);
});

test('a connection is opened when the streams of all others are taken, up to max_conns, and then requests wait, as many as may', async () => {
  const held: ServerHttp2Stream[] = [];
  const server = await serve(
    (stream) => held.push(stream),
    createServer({ settings: { maxConcurrentStreams: 2 } }),
  );
  const dispatcher = http2To(server.origin, { max_conns: 2, max_pending_requests: 1 });
  const ask = async (): Promise<string> => {
    const { body } = await request(server.origin, { dispatcher });
    return body.text();
  };
  const first = ask();
  await until(() => held.length === 1);

  const others = [ask(), ask(), ask()];
  await until(() => held.length === 4);
  const waiting = ask();
  const refused = await ask().catch((failure: unknown) => failure);
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
  const dispatcher = http2To(origin);
  const body = new PassThrough();
  const handler = new SlowReader();
  dispatcher.dispatch({ path: '/upload', method: 'POST', body }, handler);
  body.write('half');
  await until(() => frames().includes('DATA'));

  body.destroy();
  await until(() => handler.error !== undefined && frames().includes('RESET'));

  expect(frames()).toBe('HEADERS DATA RESET 8');
  expect(await (await request(origin, { dispatcher })).body.text()).toBe('ok');
  expect(server.accepted()).toBe(1);
});

test('a response that breaks off is an error, not an end', async () => {
  const server = await serve((stream) => {
    stream.respond({ ':status': 200 });
    stream.write('half');
    setTimeout(() => stream.destroy(new Error('broken')), 50);
  });
  const handler = new SlowReader();
  http2To(server.origin).dispatch({ path: '/', method: 'GET' }, handler);
  await until(() => handler.status === 200);
  handler.controller?.resume();

  await until(() => handler.error !== undefined);

  expect(handler.error).toMatchObject({ code: 'UND_ERR_SOCKET' });
  expect(handler.trailers).toBeUndefined();
});

test('every line of a header arrives, for handlers of the older style as well', async () => {
  const server = await serve((stream) => {
    stream.respond({ ':status': 200, 'set-cookie': ['a=1', 'b=2'], 'x-one': '1' });
    stream.end('body');
  });
  let raw: readonly string[] = [];
  let complete = false;

  /* oxlint-disable typescript/no-deprecated -- undici 7 itself still makes handlers of this style */
  http2To(server.origin).dispatch(
    { path: '/', method: 'GET' },
    {
      onConnect: () => {},
      onHeaders: (_status, headers) => {
        raw = headers.map(String);
        return true;
      },
      onData: () => true,
      onComplete: () => {
        complete = true;
      },
      onError: () => {},
    },
  );
  /* oxlint-enable typescript/no-deprecated */
  await until(() => complete);

  expect(raw.join(' ')).toContain('set-cookie a=1 set-cookie b=2');
  expect(raw.join(' ')).toContain('x-one 1');
});

test('a server that does not answer in time is a timeout, and so is one that falls silent', async () => {
  const server = await serve((stream, path) => {
    if (path === '/half') stream.write('half');
  });
  const dispatcher = http2To(server.origin);
  const silent = new SlowReader();
  const half = new SlowReader();

  dispatcher.dispatch({ path: '/', method: 'GET', headersTimeout: 50 }, silent);
  dispatcher.dispatch({ path: '/half', method: 'GET', bodyTimeout: 50 }, half);
  await until(() => half.status === 200);
  half.controller?.resume();
  await until(() => silent.error !== undefined && half.error !== undefined);

  expect(silent.error).toMatchObject({ code: 'UND_ERR_HEADERS_TIMEOUT' });
  expect(half.error).toMatchObject({ code: 'UND_ERR_BODY_TIMEOUT' });
});

test('headers that belong to one connection are left out, and repeated ones keep their lines', async () => {
  const server = createServer();
  const local = await listen(server);
  const origin = `http://127.0.0.1:${local.port}`;
  const asked = new Promise<object>((resolve) => {
    server.on('stream', (_stream, fields) => resolve(fields));
  });
  const handler = new SlowReader();

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
  http2To(origin).dispatch(
    { path: '/a?b', method: 'GET', headers: [...headers, 'X-A', '1', 'x-a', '2', 'Upgrade', 'h2c'] },
    handler,
  );
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

test('an unused connection is closed after idle_conn_timeout', async () => {
  const server = await serve((stream) => stream.end('ok'));
  const dispatcher = http2To(server.origin, { idle_conn_timeout: '100ms' });

  await (await request(server.origin, { dispatcher })).body.text();
  expect(server.sockets.size).toBe(1);
  await until(() => server.sockets.size === 0);

  expect(await (await request(server.origin, { dispatcher })).body.text()).toBe('ok');
});

test('closing waits for requests under way, and refuses new ones', async () => {
  const held: ServerHttp2Stream[] = [];
  const server = await serve((stream) => held.push(stream));
  const dispatcher = http2To(server.origin);
  const answer = request(server.origin, { dispatcher });
  await until(() => held.length === 1);

  const closing = dispatcher.close();
  const refused = await request(server.origin, { dispatcher }).catch((failure: unknown) => failure);
  held[0]?.end('whole');

  expect(refused).toMatchObject({ code: 'UND_ERR_CLOSED' });
  expect(await (await answer).body.text()).toBe('whole');
  await closing;
  await until(() => server.sockets.size === 0);
});

test('every request hears that the server cannot be reached', async () => {
  const dispatcher = http2To('http://127.0.0.1:1');

  const failures = await Promise.all(
    [1, 2, 3].map(async () =>
      request('http://127.0.0.1:1', { dispatcher }).catch((failure: unknown) => failure),
    ),
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
  const dispatcher = http2To(server.origin, { max_conns: 1 });

  const answers = await Promise.all(
    Array.from({ length: 30 }, async () => {
      const { body } = await request(server.origin, { dispatcher, method: 'POST', body: 'x' });
      return body.text();
    }),
  );

  expect(new Set(answers)).toEqual(new Set(['ok']));
  expect(most).toBeLessThanOrEqual(MAX_STREAMS);
  expect(server.accepted()).toBe(1);
});

test('a server that speaks only HTTP/1.1 is told apart', async () => {
  const { port } = await listen(createHttpServer((_request, response) => response.end('old')));
  const origin = `http://127.0.0.1:${port}`;

  const failure = await request(origin, { dispatcher: http2To(origin) }).catch((error: unknown) => error);

  expect(failure).toMatchObject({ code: 'NO_HTTP2' });
});
