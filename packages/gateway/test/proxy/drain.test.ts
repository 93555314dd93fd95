import { once } from 'node:events';
import { connect as connectHttp2, constants, type ClientHttp2Session } from 'node:http2';
import { connect } from 'node:net';
import { expect, test, vi } from 'vitest';
import { eventually, exchange, RawClient, startOrigin, startRig } from './rig.ts';

const GET = 'GET / HTTP/1.1\r\nHost: a\r\n\r\n';
const slowly = (ms: number) => (_: unknown, response: { end(text: string): void }) =>
  void setTimeout(() => response.end('ok'), ms);

/** A client that keeps its connection until it is told not to, and then goes where `port` says. */
async function clientOfHttp1(
  port: () => number,
  running: () => boolean,
): Promise<{ answered: number; failed: number }> {
  const count = { answered: 0, failed: 0 };
  let client: RawClient | undefined;
  while (running()) {
    if (client === undefined || client.closed || client.socket.readableEnded)
      client = await RawClient.connect(port());
    const own = client;
    own.text = '';
    own.send(GET);
    await eventually(() => own.closed || own.text.endsWith('ok'));
    if (own.text.endsWith('ok')) count.answered += 1;
    else count.failed += 1;
    if (/^connection: close\r$/im.test(own.text)) client = undefined;
  }
  client?.socket.destroy();
  return count;
}

/** What the old gateway has not looked at is sent again, as RFC 9113 §8.7 says. */
async function clientOfHttp2(
  port: () => number,
  running: () => boolean,
): Promise<{ answered: number; failed: number }> {
  const count = { answered: 0, failed: 0 };
  let session: ClientHttp2Session | undefined;
  while (running()) {
    if (session === undefined || session.closed || session.destroyed) {
      const made = connectHttp2(`http://127.0.0.1:${port()}`);
      made.on('error', () => undefined);
      session = made;
    }
    const stream = session.request({ ':path': '/' });
    let text = '';
    stream.setEncoding('utf8').on('data', (chunk: string) => (text += chunk));
    stream.on('error', () => undefined);
    await new Promise((resolve) => stream.on('close', resolve));
    if (text === 'ok') count.answered += 1;
    else if (stream.rstCode !== constants.NGHTTP2_REFUSED_STREAM) count.failed += 1;
  }
  session?.destroy();
  return count;
}

test('a rolling restart under load fails no request', async () => {
  const origin = await startOrigin(slowly(5));
  const old = await startRig({ origin });
  const young = await startRig({ origin });
  let port = old.port;
  let running = true;
  const clients = Promise.all([
    ...Array.from({ length: 10 }, async () =>
      clientOfHttp1(
        () => port,
        () => running,
      ),
    ),
    ...Array.from({ length: 5 }, async () =>
      clientOfHttp2(
        () => port,
        () => running,
      ),
    ),
  ]);
  await eventually(() => old.finished.length > 100);

  port = young.port;
  await old.proxy.drain(10_000);
  const before = young.finished.length;
  await eventually(() => young.finished.length > before + 100);
  running = false;
  const counts = await clients;

  expect(counts.reduce((sum, { failed }) => sum + failed, 0)).toBe(0);
  expect(counts.every(({ answered }) => answered > 0)).toBe(true);
  expect(old.opened.connections).toBe(0);
  expect(old.upstreams.inFlight).toBe(0);
  // Nobody paid for a request that was not answered.
  expect(old.asked.length).toBe(old.finished.filter(({ outcome }) => outcome === 'forwarded').length);
});

test('a drain answers what is under way, takes nothing new, and then is done', async () => {
  const origin = await startOrigin(slowly(150));
  const { port, proxy } = await startRig({ origin });
  const busy = await RawClient.connect(port);
  busy.send(GET);
  await eventually(() => origin.requests.length === 1);

  const draining = proxy.drain(10_000);
  // Whoever is in the queue of the port is still taken.
  const refused = await vi.waitUntil(async () => connectionError(port));
  await draining;
  await busy.untilClosed();

  expect(busy.statuses).toEqual([200]);
  expect(busy.text).toMatch(/^Connection: close\r$/m);
  expect(refused).toMatchObject({ code: 'ECONNREFUSED' });
});

async function connectionError(port: number): Promise<unknown> {
  return new Promise((resolve) => {
    const socket = connect(port, '127.0.0.1');
    socket.on('error', resolve).on('connect', () => {
      socket.destroy();
      resolve(undefined);
    });
  });
}

test('a drain closes idle connections', async () => {
  const origin = await startOrigin();
  const { port, proxy } = await startRig({ origin });
  const idle = await exchange(port, GET);
  const silent = await RawClient.connect(port);
  const session = connectHttp2(`http://127.0.0.1:${port}`);
  await once(session, 'remoteSettings');

  // The test would wait for as long if one of them was not closed.
  await proxy.drain(86_400_000);

  await idle.untilClosed();
  await silent.untilClosed();
  await eventually(() => session.destroyed);
  expect([idle.closed, silent.closed, session.destroyed]).toEqual([true, true, true]);
});

test('what is not done at the deadline is cut off', async () => {
  const origin = await startOrigin(() => undefined);
  const { port, proxy, finished, upstreams } = await startRig({ origin });
  const client = await RawClient.connect(port);
  client.send(GET);
  await eventually(() => origin.requests.length === 1);

  await proxy.drain(200);

  await client.untilClosed();
  expect(client.text).toBe('');
  expect(finished).toMatchObject([{ outcome: 'aborted' }]);
  expect(upstreams.inFlight).toBe(0);
});

test('a proxy that stopped accepting still serves its connections, and keeps them', async () => {
  const origin = await startOrigin();
  const { port, proxy } = await startRig({ origin });
  const client = await exchange(port, GET);

  await proxy.stopAccepting();
  client.send(GET);
  await client.until(({ statuses }) => statuses.length === 2);

  expect(client.statuses).toEqual([200, 200]);
  expect(client.text).not.toMatch(/^Connection: close/m);
});

test('close ends everything at once', async () => {
  const origin = await startOrigin(() => undefined);
  const { port, proxy, opened } = await startRig({ origin });
  const client = await RawClient.connect(port);
  client.send(GET);
  await eventually(() => origin.requests.length === 1);

  await proxy.close();

  expect(opened.connections).toBe(0);
});
