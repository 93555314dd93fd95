// What comes back: informational answers, heads without bodies, trailers, events one by one, and answers that are
// broken.
import { once } from 'node:events';
import { request as nodeRequest } from 'node:http';
import { expect, test } from 'vitest';
import { ADMITTED, eventually, exchange, RawClient, REFUSED, startOrigin, startRig } from './rig.ts';
import { startParrot, startRawOrigin } from './raw-origin.ts';

const GET = 'GET / HTTP/1.1\r\nHost: a\r\n\r\n';
const EXPECTING = 'POST / HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 5\r\n\r\n';

test('a refused request that waits for 100 gets its final answer at once, and the connection ends', async () => {
  const origin = await startOrigin();
  const { port } = await startRig({ origin, rule: () => REFUSED });

  const client = await exchange(port, EXPECTING);
  await client.untilClosed();

  expect(client.statuses).toEqual([429]);
  expect(client.text).toMatch(/^Connection: close\r$/m);
  expect(origin.requests).toEqual([]);
});

test('an admitted request that waits for 100 is told to go on once, by the gateway', async () => {
  const origin = await startOrigin();
  const { port } = await startRig({ origin });
  const client = await RawClient.connect(port);
  client.send(EXPECTING);
  await client.until(({ text }) => text.includes('100 Continue'));

  client.send('hello');
  await client.until(({ statuses }) => statuses.length === 2);

  expect(client.statuses).toEqual([100, 200]);
  expect(origin.requests).toMatchObject([{ body: 'hello' }]);
  expect(origin.requests[0]?.header('expect')).toBeUndefined();
});

test('an answer before the end of the body is passed on, and neither connection is used again', async () => {
  const origin = await startRawOrigin((socket, text) => {
    if (text.includes('\r\n\r\n')) socket.write('HTTP/1.1 413 Too Large\r\nContent-Length: 3\r\n\r\nbig');
  });
  const { port } = await startRig({ origin });

  // As much as has to come before a backend is asked.
  const begun = 'x'.repeat(16_384);
  const client = await exchange(port, `POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 100000\r\n\r\n${begun}`);
  await client.untilClosed();
  await eventually(() => origin.sockets[0]?.closed === true || origin.sockets[0]?.readableEnded === true);
  const second = await exchange(port, GET);

  expect(client.statuses).toEqual([413]);
  expect(client.text).toMatch(/^Connection: close\r$/m);
  expect(client.text).toMatch(/big$/);
  expect(second.statuses).toEqual([413]);
  expect(origin.received).toHaveLength(2);
});

test('103 is passed on, other informational answers are not', async () => {
  const origin = await startParrot(
    'HTTP/1.1 102 Processing\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: </a>; rel=preload\r\nConnection: x\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok',
  );
  const { port } = await startRig({ origin });

  const client = await exchange(port, GET, 2);
  const old = await exchange(port, 'GET / HTTP/1.0\r\nHost: a\r\n\r\n', 1);

  expect(client.statuses).toEqual([103, 200]);
  expect(client.text).toMatch(
    /^HTTP\/1\.1 103 Early Hints\r\nLink: <\/a>; rel=preload\r\n\r\nHTTP\/1\.1 200/,
  );
  expect(old.statuses).toEqual([200]);
});

test('an upstream that only informs is no answer', async () => {
  const origin = await startParrot('HTTP/1.1 103 Early Hints\r\nLink: <a>\r\n\r\n'.repeat(50));
  const { port, upstreams } = await startRig({ origin });

  const client = await exchange(port, GET, 9);

  expect(client.statuses).toEqual([...Array.from({ length: 8 }, () => 103), 502]);
  expect(upstreams.inFlight).toBe(0);
});

test('HEAD tells the length and has no body', async () => {
  const origin = await startOrigin((_, response) => {
    response.writeHead(200, { 'Content-Length': '1234' });
    response.end();
  });
  const { port } = await startRig({ origin });

  const client = await exchange(port, `HEAD / HTTP/1.1\r\nHost: a\r\n\r\n${GET.replace('GET', 'HEAD')}`, 2);

  expect(client.statuses).toEqual([200, 200]);
  expect(client.text.match(/^Content-Length: 1234\r$/gm)).toHaveLength(2);
  expect(client.text).toMatch(/\r\n\r\n$/);
});

test.each([204, 304])('%i has no body and keeps the connection', async (status) => {
  const origin = await startOrigin((_, response) => {
    response.writeHead(status, { ETag: '"a"' });
    response.end();
  });
  const { port } = await startRig({ origin });

  const client = await exchange(port, GET + GET, 2);

  expect(client.statuses).toEqual([status, status]);
  expect(client.text).not.toMatch(/transfer-encoding/i);
});

test('trailers reach clients that ask for them, and no others', async () => {
  const origin = await startParrot(
    'HTTP/1.1 200 OK\r\nTrailer: X-Sum\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\nX-Sum: 42\r\nSet-Cookie: a=b\r\n\r\n',
  );
  const { port } = await startRig({ origin });

  const asking = await exchange(port, 'GET / HTTP/1.1\r\nHost: a\r\nTE: trailers\r\nConnection: TE\r\n\r\n');
  await asking.until(({ text }) => text.includes('0\r\n'));
  const silent = await exchange(port, GET);
  await silent.until(({ text }) => text.includes('0\r\n'));

  expect(asking.text).toMatch(/2\r\nok\r\n0\r\nX-Sum: 42\r\n\r\n$/);
  expect(silent.text).toMatch(/2\r\nok\r\n0\r\n\r\n$/);
  expect(origin.received.join('')).not.toMatch(/^te:/im);
});

test('events arrive one by one, and headers before the first of them', async () => {
  let send: ((event: string) => void) | undefined;
  const origin = await startOrigin((_, response) => {
    response.writeHead(200, { 'Content-Type': 'text/event-stream' });
    response.flushHeaders();
    send = (event) => response.write(`data: ${event}\n\n`);
  });
  const { port } = await startRig({ origin });

  const client = await exchange(port, GET);
  expect(client.text).not.toContain('data:');
  for (const event of ['one', 'two', 'three']) {
    send?.(event);
    await client.until(({ text }) => text.includes(`data: ${event}\n\n`));
  }

  expect(client.text.match(/data: \w+/g)).toEqual(['data: one', 'data: two', 'data: three']);
});

test('headers of an answer with a length arrive before its body is there', async () => {
  const origin = await startOrigin((_, response) => {
    response.writeHead(200, { 'Content-Length': '2' });
    response.flushHeaders();
  });
  const { port } = await startRig({ origin });

  const client = await exchange(port, GET);

  expect(client.statuses).toEqual([200]);
});

test.each([
  ['dies in the middle of a body with a length', 'HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhello'],
  ['dies in the middle of a chunk', 'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\na\r\nhello'],
  ['dies between chunks', 'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n'],
  ['sends a chunk that is none', 'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\nxx\r\n'],
])('an answer of an upstream that %s never looks whole', async (_, bytes) => {
  const origin = await startParrot(bytes, true);
  const { port, finished, upstreams } = await startRig({ origin });

  const client = await exchange(port, GET);
  await client.untilClosed();

  // With a length the client counts; with chunks the last one is missing.
  expect(client.text).not.toMatch(/\r\n0\r\n\r\n$/);
  expect(
    client.text.endsWith('hello') || client.text.endsWith('hello\r\n') || client.statuses[0] === 502,
  ).toBe(true);
  expect(finished).toMatchObject([{ outcome: 'failed', reason: 'UPSTREAM_BROKEN' }]);
  expect(upstreams.inFlight).toBe(0);
});

test('half an answer to a client of HTTP/1.0 ends in a reset', async () => {
  const origin = await startParrot(
    'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n',
    true,
  );
  const { port } = await startRig({ origin });
  const client = await RawClient.connect(port);
  const broken = once(client.socket, 'error');

  client.send('GET / HTTP/1.0\r\nHost: a\r\n\r\n');

  expect(await broken).toMatchObject([{ code: 'ECONNRESET' }]);
});

test.each([
  ['says nothing and closes', ''],
  ['does not speak HTTP', 'SSH-2.0-OpenSSH_9.2\r\n'],
  ['breaks in its headers', 'HTTP/1.1 200 OK\r\nContent-Le'],
  ['has two lengths', 'HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\nokk'],
  [
    'has a length and chunks',
    'HTTP/1.1 200 OK\r\nContent-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n',
  ],
  ['folds a header', 'HTTP/1.1 200 OK\r\nX: a\r\n b\r\nContent-Length: 2\r\n\r\nok'],
  [
    'asks for another protocol',
    'HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: Upgrade\r\n\r\n',
  ],
])('an upstream that %s is a 502', async (_, bytes) => {
  const origin = await startParrot(bytes, true);
  const { port, finished } = await startRig({ origin });

  const client = await exchange(port, GET);

  expect(client.statuses).toEqual([502]);
  expect(client.text).toContain('"code":"UPSTREAM_BROKEN"');
  expect(finished).toMatchObject([{ outcome: 'failed', reason: 'UPSTREAM_BROKEN', status: 502 }]);
});

test('what an upstream sends behind its answer reaches nobody', async () => {
  const evil = 'HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nevil';
  const origin = await startParrot(`HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok${evil}`);
  const { port } = await startRig({ origin, maxConnections: 1 });

  const answers = [];
  for (let at = 0; at < 5; at += 1) {
    const { text } = await (await exchange(port, GET)).until((client) => /\r\n\r\n./.test(client.text));
    answers.push(text.split('\r\n\r\n')[1]);
  }

  expect(answers).toEqual(['ok', 'ok', 'ok', 'ok', 'ok']);
  expect(origin.received.every((text) => text.split('GET /').length === 2)).toBe(true);
});

test('an idempotent request without a body is tried once more, and charged once', async () => {
  let attempts = 0;
  const origin = await startRawOrigin((socket) => {
    attempts += 1;
    if (attempts === 1) socket.destroy();
    else socket.write('HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok');
  });
  const { port, asked, finished, upstreams } = await startRig({ origin });

  const client = await exchange(port, GET);

  expect(client.statuses).toEqual([200]);
  expect(attempts).toBe(2);
  expect(asked).toHaveLength(1);
  await eventually(() => finished.length === 1);
  expect(upstreams.inFlight).toBe(0);
});

test.each([
  ['an upstream that always breaks', GET, 2],
  ['a POST without a body', 'POST / HTTP/1.1\r\nHost: a\r\n\r\n', 1],
  ['a PUT with a body', 'PUT / HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\nok', 1],
  ['a PATCH', 'PATCH / HTTP/1.1\r\nHost: a\r\n\r\n', 1],
])('%s is a 502 after no more tries than are safe', async (_, bytes, most) => {
  let attempts = 0;
  const origin = await startRawOrigin((socket, text) => {
    if (!text.includes('\r\n\r\n') || socket.destroyed) return;
    attempts += 1;
    socket.destroy();
  });
  const { port, asked, finished } = await startRig({ origin });

  const client = await exchange(port, bytes);

  expect(client.statuses).toEqual([502]);
  expect(attempts).toBe(most);
  expect(asked).toHaveLength(1);
  await eventually(() => finished.length === 1);
});

test('an upstream that is not there is a 502', async () => {
  const { port } = await startRig({ origin: { url: 'http://127.0.0.1:1' } });

  const client = await exchange(port, GET);

  expect(client.statuses).toEqual([502]);
  expect(client.text).toContain('"code":"UPSTREAM_UNREACHABLE"');
});

test('an answer of our own after the admission says how much is left: the request was charged', async () => {
  const rule = () => ({ ...ADMITTED, headers: [['RateLimit', '"api";r=4;t=1']] as const });
  const gone = await startRig({ origin: { url: 'http://127.0.0.1:1' }, rule });

  const failed = await exchange(gone.port, GET);
  const grpc = await exchange(
    gone.port,
    'POST /a.B/C HTTP/1.1\r\nHost: a\r\nContent-Type: application/grpc\r\n\r\n',
  );
  const malformed = await exchange(gone.port, GET.replace('Host: ', 'Host: ?'));
  const upgrade = await exchange(
    gone.port,
    GET.replace('\r\n\r\n', '\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n'),
  );

  expect(failed.text).toMatch(/^HTTP\/1\.1 502 (?:.*\r\n)+RateLimit: "api";r=4;t=1\r\n/);
  expect(grpc.text).toMatch(/^grpc-status: 14\r$/m);
  expect(grpc.text).toMatch(/^RateLimit: "api";r=4;t=1\r$/m);
  expect(upgrade.text).toMatch(/^HTTP\/1\.1 501 (?:.*\r\n)+RateLimit: "api";r=4;t=1\r\n/);
  expect(malformed.text).toMatch(/^HTTP\/1\.1 400 /);
  expect(malformed.text).not.toContain('RateLimit');
});

const DOWN = { origin: 'http://down', healthy: false, inFlight: 0, lastError: undefined };

test('no healthy upstream is a 503, and so is a named one that may not be used a 502', async () => {
  const origin = await startOrigin();
  const none = await startRig({ origin });
  none.use({ upstreams: { next: () => undefined, health: () => [DOWN], close: async () => undefined } });
  const named = await startRig({ origin, rule: () => ({ ...ADMITTED, backendUrl: 'http://elsewhere' }) });

  expect((await exchange(none.port, GET)).text).toContain('"code":"NO_UPSTREAM"');
  expect((await exchange(named.port, GET)).text).toContain('"code":"UPSTREAM_UNREACHABLE"');
});

test('gRPC clients are refused in a way they understand', async () => {
  const origin = await startOrigin();
  const { port } = await startRig({ origin, rule: () => REFUSED });

  const client = await exchange(
    port,
    'POST /a.B/C HTTP/1.1\r\nHost: a\r\nContent-Type: application/grpc\r\n\r\n',
  );

  expect(client.statuses).toEqual([200]);
  expect(client.text).toMatch(/^grpc-status: 8\r$/m);
  expect(client.text).toMatch(/^grpc-message: The policy .*7 s\.\r$/m);
  expect(client.text).toMatch(/^Retry-After: 7\r$/m);
});

test('gRPC-Web is not gRPC: it reaches a backend that speaks HTTP/1.1', async () => {
  const origin = await startOrigin();
  const { port } = await startRig({ origin });
  const head = 'POST /a.B/C HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\nContent-Type:';

  const web = await exchange(port, `${head} application/grpc-web+proto\r\n\r\nhi`);
  const text = await exchange(port, `${head} application/grpc-web-text\r\n\r\nhi`);

  expect([...web.statuses, ...text.statuses]).toEqual([200, 200]);
  expect(origin.requests.map(({ method, body }) => [method, body])).toEqual([
    ['POST', 'hi'],
    ['POST', 'hi'],
  ]);
});

test.each(['Application/gRPC', 'application/grpc+proto', 'application/grpc;v=1'])(
  '%s is gRPC',
  async (type) => {
    const origin = await startOrigin();
    const { port } = await startRig({ origin, rule: () => REFUSED });

    const client = await exchange(port, `POST / HTTP/1.1\r\nHost: a\r\nContent-Type: ${type}\r\n\r\n`);

    expect(client.text).toMatch(/^grpc-status: 8\r$/m);
  },
);

test('a gzip body passes as it is', async () => {
  const bomb = Buffer.from([0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 3, 255, 255]);
  const origin = await startOrigin((_, response) => {
    response.writeHead(200, { 'Content-Encoding': 'gzip', 'Content-Length': bomb.length });
    response.end(bomb);
  });
  const { port } = await startRig({ origin });

  const incoming = nodeRequest({ port, headers: { 'accept-encoding': ';;junk' } }).end();
  const [response] = await once(incoming, 'response');
  const chunks: Buffer[] = [];
  for await (const chunk of response) chunks.push(chunk as Buffer);

  expect(Buffer.concat(chunks)).toEqual(bomb);
  expect(origin.requests[0]?.header('accept-encoding')).toBe(';;junk');
});
