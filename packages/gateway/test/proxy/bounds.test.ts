// Every bound of time, size and number, at its edge.
import { once } from 'node:events';
import { request as nodeRequest, type IncomingMessage } from 'node:http';
import { connect } from 'node:net';
import { expect, test } from 'vitest';
import {
  ADMITTED,
  configOf,
  eventually,
  exchange,
  RawClient,
  REFUSED,
  startOrigin,
  startRig,
  stopwatch,
} from './rig.ts';
import { startRawOrigin } from './raw-origin.ts';
import { letArrive } from './local-server.ts';

const GET = 'GET / HTTP/1.1\r\nHost: a\r\n\r\n';
const NEVER = () => undefined;

test('headers that do not arrive in time get a 408, and others are not held up', async () => {
  const origin = await startOrigin();
  const { port, url, finished } = await startRig({ origin, config: { server: { header_timeout: '1s' } } });
  // Each speaks at once: the time of those that were connected first already runs.
  const slow = await Promise.all(
    Array.from({ length: 50 }, async () => (await RawClient.connect(port)).send('GET / HTTP/1.1\r\nHo')),
  );

  const other = await fetch(url);
  await Promise.all(slow.map(async (client) => client.untilClosed()));

  expect(other.status).toBe(200);
  expect(slow.map(({ statuses }) => statuses)).toEqual(slow.map(() => [408]));
  expect(finished.filter(({ reason }) => reason === 'HEADER_TIMEOUT')).toHaveLength(50);
});

test('a connection that says nothing at all is closed', async () => {
  const origin = await startOrigin();
  const { port, opened } = await startRig({ origin, config: { server: { header_timeout: '200ms' } } });
  const client = await RawClient.connect(port);

  await client.untilClosed();

  await eventually(() => opened.connections === 0);
  expect(client.text).toBe('');
});

test('a body that stops flowing gets a 408, and the upstream request ends', async () => {
  const origin = await startOrigin();
  const { port, finished, upstreams } = await startRig({
    origin,
    config: { server: { body_idle_timeout: '150ms' } },
  });

  const client = await exchange(port, 'POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\nhello');
  await client.untilClosed();

  expect(client.statuses).toEqual([408]);
  expect(finished).toMatchObject([{ outcome: 'invalid', reason: 'BODY_TIMEOUT', bytesReceived: 5 }]);
  expect(upstreams.inFlight).toBe(0);
  expect(origin.requests[0]?.complete).not.toBe(true);
});

test('a body that only drips gets a 408 when its whole time is over', async () => {
  const origin = await startOrigin();
  const { port } = await startRig({ origin, config: { server: { read_timeout: '300ms' } } });
  const client = await RawClient.connect(port);
  client.send('POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1000\r\n\r\n');
  const drip = setInterval(() => client.send('x'), 20);

  await client.until(({ statuses }) => statuses.length > 0).finally(() => clearInterval(drip));

  expect(client.statuses).toEqual([408]);
});

test('a body with its time is let through: a short pause is no fault', async () => {
  const origin = await startOrigin(({ url }, response) => {
    if (url !== '/never') response.end('ok');
  });
  const { port } = await startRig({
    origin,
    config: { server: { body_idle_timeout: '20s' }, backend: { timeout: '50ms' } },
  });
  const client = await RawClient.connect(port);
  client.send('POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\na');
  // Longer than the upstream has for an answer.
  expect((await exchange(port, GET.replace('/', '/never'))).statuses).toEqual([504]);
  client.send('b');

  await client.until(({ statuses }) => statuses.length > 0);

  expect(client.statuses).toEqual([200]);
});

test('an upstream that does not answer is a 504', async () => {
  const origin = await startOrigin(NEVER);
  const { port, finished, upstreams } = await startRig({ origin, config: { backend: { timeout: '100ms' } } });
  const passedMs = stopwatch();

  const client = await exchange(port, GET);

  expect(client.statuses).toEqual([504]);
  expect(client.text).toContain('"code":"UPSTREAM_TIMEOUT"');
  expect(passedMs()).toBeLessThan(10_000);
  await eventually(() => finished.length === 1);
  expect(upstreams.inFlight).toBe(0);
});

test('an upstream that does not take the body is a 504', async () => {
  const origin = await startRawOrigin((socket) => socket.pause());
  const { port } = await startRig({ origin, config: { backend: { timeout: '200ms' } } });
  const client = await RawClient.connect(port);
  client.send(`POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 100000000\r\n\r\n${'x'.repeat(20_000_000)}`);

  await client.until(({ statuses }) => statuses.length > 0);

  expect(client.statuses).toEqual([504]);
});

test('an upstream that falls silent in the middle is cut off', async () => {
  const origin = await startOrigin((_, response) => response.write('begun'));
  const { port, finished } = await startRig({ origin, config: { backend: { body_idle_timeout: '100ms' } } });

  const client = await exchange(port, GET);
  await client.untilClosed();

  expect(client.text).toContain('begun');
  expect(client.text).not.toMatch(/\r\n0\r\n\r\n$/);
  expect(finished).toMatchObject([{ outcome: 'failed', status: 200 }]);
});

test.each([
  ['the configuration', { server: { request_timeout: '100ms' } }, undefined],
  ['the ruling', { server: { request_timeout: '10s' } }, 100],
])('a request has the time that %s gives it altogether', async (_, config, timeoutMs) => {
  const origin = await startOrigin(NEVER);
  const { port } = await startRig({ origin, config, rule: () => ({ ...ADMITTED, timeoutMs }) });

  const client = await exchange(port, GET);

  expect(client.statuses).toEqual([504]);
  expect(client.text).toContain('"code":"REQUEST_TIMEOUT"');
});

test('a client that does not read is cut off, and so is its upstream request', async () => {
  let written = 0;
  const origin = await startOrigin((_, response) => {
    response.writeHead(200, { 'Content-Length': '1000000000' });
    const chunk = Buffer.alloc(65_536);
    const write = (): void => {
      while (!response.destroyed && response.write(chunk)) written += chunk.length;
    };
    response.on('drain', write);
    write();
  });
  const { port, finished, upstreams } = await startRig({
    origin,
    config: { server: { write_timeout: '200ms' } },
  });
  const socket = connect({ port, host: '127.0.0.1' });
  socket.on('error', NEVER);
  socket.pause();
  socket.write(GET);

  await eventually(() => finished.length === 1);
  socket.destroy();

  expect(finished).toMatchObject([{ outcome: 'aborted', reason: 'WRITE_TIMEOUT' }]);
  expect(upstreams.inFlight).toBe(0);
  expect(written).toBeLessThan(50_000_000);
});

test.each([
  ['with a length in chunks', 'Transfer-Encoding: chunked', `3e9\r\n${'x'.repeat(1001)}\r\n0\r\n\r\n`, 413],
  ['of exactly the size', 'Transfer-Encoding: chunked', `3e8\r\n${'x'.repeat(1000)}\r\n0\r\n\r\n`, 200],
  ['of exactly the declared size', 'Content-Length: 1000', 'x'.repeat(1000), 200],
])('a body %s is judged as it flows', async (_, framing, body, status) => {
  const origin = await startOrigin();
  const { port, finished } = await startRig({ origin, config: { backend: { max_request_body_size: 1000 } } });

  const client = await exchange(port, `POST / HTTP/1.1\r\nHost: a\r\n${framing}\r\n\r\n${body}`);

  expect(client.statuses).toEqual([status]);
  expect(origin.requests.filter(({ complete }) => complete)).toHaveLength(status === 200 ? 1 : 0);
  await eventually(() => finished.length === 1);
});

test('a client that is still sending hears that its body is too large', async () => {
  const origin = await startOrigin();
  const { port } = await startRig({ origin, config: { backend: { max_request_body_size: 100_000 } } });
  const outgoing = nodeRequest({ port, method: 'POST' });
  const failures: Error[] = [];
  outgoing.on('error', (error) => failures.push(error));
  for (let at = 0; at < 100; at += 1) outgoing.write(Buffer.alloc(50_000));

  const [response] = (await once(outgoing, 'response')) as [IncomingMessage];
  outgoing.destroy();

  expect(response.statusCode).toBe(413);
  expect(failures).toEqual([]);
});

test('the rest of a refused body may not drip for ever', async () => {
  const origin = await startOrigin();
  const { port, opened } = await startRig({
    origin,
    rule: () => REFUSED,
    config: { server: { header_timeout: '200ms' } },
  });
  const client = await RawClient.connect(port);
  client.send('POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 60000\r\n\r\n');
  const drip = setInterval(() => client.send('x'), 50);

  await client.untilClosed().finally(() => clearInterval(drip));

  expect(client.statuses).toEqual([429]);
  await eventually(() => opened.connections === 0);
});

test('a gate that throws is a 500 and not an admission', async () => {
  const origin = await startOrigin();
  const rule = () => {
    throw new Error('broken');
  };
  const { port } = await startRig({ origin, rule });

  const client = await exchange(port, GET + GET, 2);

  expect(client.statuses).toEqual([500, 500]);
  expect(origin.requests).toEqual([]);
});

test('what follows an answer that closes the connection does not cut it off', async () => {
  let finish: (() => void) | undefined;
  const origin = await startOrigin((_, response) => {
    response.write('begun');
    finish = () => response.end('done');
  });
  const { port, asked } = await startRig({ origin, config: { server: { max_requests_per_connection: 1 } } });
  const client = await exchange(port, GET);

  client.send(GET);
  await letArrive();
  finish?.();
  await client.untilClosed();

  expect(client.text).toMatch(/done\r\n0\r\n\r\n$/);
  expect(asked).toHaveLength(1);
});

test('requests beyond the bound get a 503, and fewer are served again', async () => {
  const waiting: (() => void)[] = [];
  const origin = await startOrigin((_, response) => waiting.push(() => response.end('ok')));
  const { port } = await startRig({ origin, config: { server: { max_concurrent_requests: 2 } } });
  const first = await RawClient.connect(port);
  const second = await RawClient.connect(port);
  first.send(GET);
  second.send(GET);
  await eventually(() => waiting.length === 2);

  const third = await exchange(port, GET);
  for (const answer of waiting.splice(0)) answer();
  await first.until(({ statuses }) => statuses.length === 1);
  await second.until(({ statuses }) => statuses.length === 1);
  const fourth = await RawClient.connect(port);
  fourth.send(GET);
  await eventually(() => waiting.length === 1);
  waiting[0]?.();
  await fourth.until(({ statuses }) => statuses.length === 1);

  expect(third.statuses).toEqual([503]);
  expect(third.text).toContain('TOO_MANY_REQUESTS_UNDER_WAY');
  expect([first, second, fourth].map(({ statuses }) => statuses)).toEqual([[200], [200], [200]]);
});

test('connections beyond the bound are closed, and those within it are served', async () => {
  const origin = await startOrigin();
  const { port, opened } = await startRig({ origin, config: { server: { max_connections: 3 } } });
  const clients = await Promise.all(Array.from({ length: 3 }, async () => RawClient.connect(port)));
  await eventually(() => opened.connections === 3);

  const fourth = await RawClient.connect(port);
  await fourth.untilClosed();
  clients[0]?.send(GET);
  await clients[0]?.until(({ statuses }) => statuses.length === 1);

  expect(clients[0]?.statuses).toEqual([200]);
});

test('a connection ends after as many requests as it may have', async () => {
  const origin = await startOrigin();
  const { port, asked } = await startRig({ origin, config: { server: { max_requests_per_connection: 2 } } });

  const client = await exchange(port, GET + GET + GET, 3);
  await client.untilClosed();

  expect(client.statuses).toEqual([200, 200]);
  expect(client.text.match(/^Connection: close\r$/gm)).toHaveLength(1);
  expect(asked).toHaveLength(2);
});

test('a connection without requests is closed after its idle time', async () => {
  const origin = await startOrigin();
  const { port } = await startRig({ origin, config: { server: { idle_timeout: '200ms' } } });

  const client = await exchange(port, GET);
  await client.untilClosed();

  expect(client.statuses).toEqual([200]);
});

test('a gate that fails is a 500 and not an admission', async () => {
  const origin = await startOrigin();
  const { port } = await startRig({ origin, rule: async () => Promise.reject(new Error('broken')) });

  const client = await exchange(port, GET);

  expect(client.statuses).toEqual([500]);
  expect(client.text).toContain('GATE_FAILED');
  expect(origin.requests).toEqual([]);
});

test('a port that is taken is an error', async () => {
  const origin = await startOrigin();
  const { port } = await startRig({ origin });

  await expect(startRig({ origin, config: { server: { address: `127.0.0.1:${port}` } } })).rejects.toThrow(
    'EADDRINUSE',
  );
});

test('a request keeps the configuration that it started with', async () => {
  const one = await startOrigin((_, response) => setTimeout(() => response.end('one'), 100));
  const two = await startOrigin((_, response) => response.end('two'));
  const rig = await startRig({ origin: one });
  const other = await startRig({ origin: two });
  const client = await RawClient.connect(rig.port);
  client.send(GET);
  await eventually(() => one.requests.length === 1);

  rig.use({ upstreams: other.upstreams });
  client.send(GET);
  await client.until(({ text }) => text.endsWith('two'));

  expect(client.text).toMatch(/one.*two$/s);
});

test('a reload changes the bounds of connections', async () => {
  const origin = await startOrigin();
  const rig = await startRig({ origin });
  rig.use({ config: configOf({ server: { idle_timeout: '100ms', max_headers: 10 } }) });

  const client = await exchange(rig.port, GET);
  await client.untilClosed();
  const many = Array.from({ length: 10 }, (_, at) => `A${at}: 1\r\n`).join('');
  const refused = await exchange(rig.port, GET.replace('\r\n\r\n', `\r\n${many}\r\n`));

  expect(client.statuses).toEqual([200]);
  expect(refused.statuses).toEqual([431]);
});
