import { once } from 'node:events';
import {
  constants,
  createServer as createHttp2Server,
  type ClientHttp2Session,
  type IncomingHttpHeaders,
} from 'node:http2';
import { expect, test } from 'vitest';
import { ask, session } from './http2-client.ts';
import {
  END_HEADERS,
  END_STREAM,
  frame,
  FrameClient,
  headersFrame,
  PSEUDO,
  replaced,
  TYPE,
} from './http2-frames.ts';
import { startParrot } from './raw-origin.ts';
import { eventually, exchange, listen, RawClient, REFUSED, startOrigin, startRig } from './rig.ts';
import { letArrive } from './local-server.ts';

test('one port speaks both versions', async () => {
  const origin = await startOrigin();
  const { url, port, finished } = await startRig({ origin });

  const second = await ask(session(url), { ':path': '/two', ':method': 'POST' }, 'hello');
  const first = await fetch(`${url}/one`);

  expect(second.headers[':status']).toBe(200);
  expect(second.body).toBe('ok');
  expect(first.status).toBe(200);
  expect(origin.requests).toMatchObject([
    { method: 'POST', url: '/two', body: 'hello' },
    { method: 'GET', url: '/one' },
  ]);
  expect(origin.requests[0]?.header('host')).toBe(`127.0.0.1:${port}`);
  expect(origin.requests[0]?.header('via')).toMatch(/^2\.0 spillgate-/);
  expect(finished.map(({ protocol }) => protocol)).toEqual(['HTTP/2.0', 'HTTP/1.1']);
});

test('without http2 the port speaks only HTTP/1.1', async () => {
  const origin = await startOrigin();
  const { port } = await startRig({ origin, config: { server: { http2: false } } });

  const client = await exchange(port, 'PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n');

  expect(client.statuses).toEqual([400]);
});

test('a preface that comes in pieces is one', async () => {
  const origin = await startOrigin();
  const { port } = await startRig({ origin });
  const client = await FrameClient.connect(port);
  client.socket.destroy();
  const raw = await RawClient.connect(port);
  for (const byte of 'PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n') {
    raw.send(byte);
    await letArrive();
  }
  raw.socket.write(frame(TYPE.settings, 0, 0));

  await raw.until(({ text }) => text.length > 9);

  expect(raw.text.charCodeAt(3)).toBe(TYPE.settings);
});

test('streams of one connection run side by side', async () => {
  const waiting: (() => void)[] = [];
  const origin = await startOrigin((_, response) => {
    waiting.push(() => response.end('ok'));
    if (waiting.length === 20) for (const answer of waiting) answer();
  });
  const { url } = await startRig({ origin });
  const client = session(url);

  const answers = await Promise.all(Array.from({ length: 20 }, async () => ask(client, { ':path': '/' })));

  expect(answers.map(({ body }) => body)).toEqual(answers.map(() => 'ok'));
});

test('no more streams than allowed run at once', async () => {
  let most = 0;
  let underWay = 0;
  const origin = await startOrigin((_, response) => {
    underWay += 1;
    most = Math.max(most, underWay);
    setTimeout(() => {
      underWay -= 1;
      response.end('ok');
    }, 5);
  });
  const { url } = await startRig({ origin, config: { server: { max_streams_per_connection: 4 } } });
  const client = session(url);
  await once(client, 'remoteSettings');

  const answers = await Promise.all(Array.from({ length: 40 }, async () => ask(client, { ':path': '/' })));

  expect(answers.every(({ headers }) => Number(headers[':status']) === 200)).toBe(true);
  expect(most).toBeLessThanOrEqual(4);
});

test('trailers of HTTP/1.1 reach a client of HTTP/2 that asks for them', async () => {
  const origin = await startParrot(
    'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\nX-Sum: 42\r\n\r\n',
  );
  const { url } = await startRig({ origin });
  const client = session(url);

  const asking = await ask(client, { ':path': '/', te: 'trailers' });
  const silent = await ask(client, { ':path': '/' });

  expect(asking).toMatchObject({ body: 'ok', trailers: { 'x-sum': '42' } });
  expect(silent).toMatchObject({ body: 'ok', trailers: undefined });
});

test('HEAD, 204 and refusals are whole answers', async () => {
  const origin = await startOrigin((incoming, response) => {
    response.writeHead(
      incoming.url === '/204' ? 204 : 200,
      incoming.url === '/204' ? {} : { 'Content-Length': '1234' },
    );
    response.end();
  });
  const rig = await startRig({ origin, rule: ({ path }) => (path === '/no' ? REFUSED : undefined) as never });
  const client = session(rig.url);

  const head = await ask(client, { ':path': '/', ':method': 'HEAD' });
  const empty = await ask(client, { ':path': '/204' });
  const refused = await ask(client, { ':path': '/no', ':method': 'POST' }, 'a body');
  const refusedHead = await ask(client, { ':path': '/no', ':method': 'HEAD' });

  expect(head).toMatchObject({ headers: { ':status': 200, 'content-length': '1234' }, body: '' });
  expect(empty).toMatchObject({ headers: { ':status': 204 }, body: '' });
  expect(refused).toMatchObject({ headers: { ':status': 429, 'retry-after': '7' } });
  expect(refused.body).toContain('"status":429');
  expect(refusedHead).toMatchObject({ headers: { ':status': 429 }, body: '' });
});

test('103 and 100 reach clients of HTTP/2', async () => {
  const origin = await startOrigin((incoming, response) => {
    response.writeEarlyHints({ link: '</a>; rel=preload' });
    incoming.resume();
    incoming.on('end', () => response.end('ok'));
  });
  const { url } = await startRig({ origin });
  const informed: number[] = [];
  const stream = session(url).request({ ':path': '/', ':method': 'POST', expect: '100-continue' });
  stream.on('headers', (headers) => informed.push(Number(headers[':status'])));
  stream.on('continue', () => {
    informed.push(100);
    stream.end('hello');
  });

  await once(stream, 'response');

  expect(new Set(informed)).toEqual(new Set([100, 103]));
  expect(origin.requests).toMatchObject([{ body: 'hello' }]);
});

test('a stream that the client resets takes its upstream request with it', async () => {
  let closed = false;
  const origin = await startOrigin((incoming) => incoming.socket.on('close', () => (closed = true)));
  const { url, finished, upstreams } = await startRig({ origin });
  const stream = session(url).request({ ':path': '/' });
  stream.on('error', () => undefined);
  await eventually(() => origin.requests.length === 1);

  stream.close(constants.NGHTTP2_CANCEL);
  await eventually(() => closed);

  await eventually(() => finished.length === 1);
  expect(finished).toMatchObject([{ outcome: 'aborted', reason: 'CLIENT_GONE' }]);
  expect(upstreams.inFlight).toBe(0);
});

test('an answer that breaks off resets its stream, and only that', async () => {
  const origin = await startOrigin((incoming, response) => {
    if (incoming.url === '/whole') {
      response.end('ok');
      return;
    }
    response.write('begun');
    setTimeout(() => response.destroy(), 20);
  });
  const { url } = await startRig({ origin });
  const client = session(url);

  await expect(ask(client, { ':path': '/' })).rejects.toThrow('NGHTTP2_INTERNAL_ERROR');
  const after = await ask(client, { ':path': '/whole' });

  expect(after.body).toBe('ok');
});

test('an answer before the end of the body tells the client to stop sending', async () => {
  const origin = await startOrigin((_, response) => {
    response.writeHead(403);
    response.end('no');
  });
  const { url } = await startRig({ origin });
  const stream = session(url).request({ ':path': '/', ':method': 'POST' });
  stream.on('error', () => undefined);
  stream.write('begin');
  const [head] = (await once(stream, 'response')) as [IncomingHttpHeaders];
  stream.resume();
  await once(stream, 'close');

  expect(head[':status']).toBe(403);
  expect(stream.rstCode).toBe(constants.NGHTTP2_NO_ERROR);
});

test('a body of single bytes arrives whole', async () => {
  const origin = await startOrigin();
  const { port } = await startRig({ origin });
  const client = await FrameClient.connect(port);
  client.send(headersFrame(1, replaced(':method', 'POST'), END_HEADERS));

  client.send(
    ...Array.from({ length: 5000 }, () => frame(TYPE.data, 0, 1, Buffer.from('x'))),
    frame(TYPE.data, END_STREAM, 1),
  );
  await eventually(() => client.find(TYPE.headers, 1) !== undefined);

  expect(origin.requests).toMatchObject([{ body: 'x'.repeat(5000), complete: true }]);
});

test('a body that is larger than allowed gets a 413 on its stream', async () => {
  const origin = await startOrigin();
  const { url } = await startRig({ origin, config: { backend: { max_request_body_size: 1000 } } });
  const client = session(url);

  const answer = await ask(client, { ':path': '/', ':method': 'POST' }, 'x'.repeat(1001));
  const after = await ask(client, { ':path': '/' });

  expect(answer.headers[':status']).toBe(413);
  expect(after.headers[':status']).toBe(200);
});

test('more headers than allowed get a 431', async () => {
  const origin = await startOrigin();
  const { url } = await startRig({ origin });
  const many = Object.fromEntries(Array.from({ length: 101 }, (_, at) => [`x-${at}`, 'a']));

  const answer = await ask(session(url), { ':path': '/', ...many });

  expect(answer.headers[':status']).toBe(431);
});

test('a connection without streams is closed after its idle time, and one that never had any after the time for headers', async () => {
  const origin = await startOrigin();
  const idle = await startRig({ origin, config: { server: { idle_timeout: '100ms' } } });
  const silent = await startRig({ origin, config: { server: { header_timeout: '100ms' } } });
  const used = session(idle.url);
  await ask(used, { ':path': '/' });
  const client = await FrameClient.connect(silent.port);

  await eventually(() => used.destroyed && client.closed);

  expect(used.destroyed).toBe(true);
});

test('cookies that HTTP/2 sends in pieces are one line for a backend of HTTP/1.1', async () => {
  const origin = await startOrigin();
  const { port, asked } = await startRig({ origin });
  const client = await FrameClient.connect(port);

  client.send(
    headersFrame(1, [
      ...PSEUDO,
      ['cookie', 'a=1'],
      ['x-between', 'yes'],
      ['cookie', 'b=2'],
      ['cookie', 'c=3'],
    ]),
  );
  await eventually(() => client.find(TYPE.headers, 1) !== undefined);

  const cookies = origin.requests[0]?.rawHeaders.filter((_, at, all) => all[at - 1] === 'cookie');
  expect(cookies).toEqual(['a=1; b=2; c=3']);
  expect(asked[0]?.headers.lines('cookie')).toEqual(['a=1; b=2; c=3']);
  expect(origin.requests[0]?.header('x-between')).toBe('yes');
});

/** The trailers of a request, sent behind a body. */
async function askWithTrailers(client: ClientHttp2Session, headers: Record<string, string>): Promise<void> {
  const stream = client.request({ ':path': '/', ':method': 'POST', ...headers }, { waitForTrailers: true });
  stream.on('wantTrailers', () => stream.sendTrailers({ 'x-tenant-id': 'evil', 'x-sum': 'evil' }));
  stream.end('hello');
  stream.resume();
  await once(stream, 'close');
}

test('trailers of a request are dropped on the way to HTTP/1.1, and never become headers', async () => {
  const origin = await startOrigin();
  const { url, asked } = await startRig({ origin });

  await askWithTrailers(session(url), { trailer: 'x-sum' });

  expect(origin.requests).toMatchObject([{ body: 'hello', complete: true }]);
  expect(JSON.stringify(origin.requests[0]?.rawHeaders)).not.toContain('evil');
  expect(asked[0]?.headers.lines('x-tenant-id')).toEqual([]);
});

test('trailers of a request are dropped on the way to HTTP/2, too: gRPC has none', async () => {
  const seen: unknown[] = [];
  const server = createHttp2Server();
  server.on('stream', (stream, headers) => {
    stream.on('trailers', (trailers) => seen.push(trailers));
    stream.resume().on('end', () => {
      seen.push(headers['x-tenant-id'], stream.rstCode);
      stream.respond({ 'grpc-status': '0' });
      stream.end();
    });
  });
  const url = `http://127.0.0.1:${await listen(server)}`;
  const rig = await startRig({ origin: { url } });

  await askWithTrailers(session(rig.url), { 'content-type': 'application/grpc' });

  expect(seen).toEqual([undefined, 0]);
});
