// Heads of upstreams that cannot be passed on as they are.
import { expect, test } from 'vitest';
import type { RequestPool, ResponseHandler } from '../../src/http-client/index.ts';
import { startParrot } from './raw-origin.ts';
import { exchange, startOrigin, startRig } from './rig.ts';

const GET = 'GET / HTTP/1.1\r\nHost: a\r\n\r\n';

test.each([
  ['a client that asks for none', GET, 'Transfer-Encoding: chunked', '2\r\nok\r\n0\r\n\r\n'],
  ['HTTP/1.0', 'GET / HTTP/1.0\r\nHost: a\r\n\r\n', 'Transfer-Encoding: chunked', '2\r\nok\r\n0\r\n\r\n'],
  ['HEAD', 'HEAD / HTTP/1.1\r\nHost: a\r\nTE: trailers\r\n\r\n', 'Transfer-Encoding: chunked', ''],
  ['a body of known length', GET, 'Content-Length: 2', 'ok'],
])('trailers that %s has no place for are not announced', async (_, request, framing, body) => {
  const origin = await startParrot(`HTTP/1.1 200 OK\r\nTrailer: X-Sum\r\n${framing}\r\n\r\n${body}`);
  const { port } = await startRig({ origin });

  const client = await exchange(port, request);

  expect(client.statuses).toEqual([200]);
  expect(client.text).not.toMatch(/^trailer:/im);
});

test('nor behind an answer without a body', async () => {
  const origin = await startParrot('HTTP/1.1 304 Not Modified\r\nTrailer: X-Sum\r\n\r\n');
  const { port } = await startRig({ origin });

  const client = await exchange(port, 'GET / HTTP/1.1\r\nHost: a\r\nTE: trailers\r\n\r\n');

  expect(client.statuses).toEqual([304]);
});

/** Answers with a head that no server could have sent. */
class UnsendableHeads implements RequestPool {
  private readonly status: number;

  constructor(status: number) {
    this.status = status;
  }

  send(_request: unknown, handler: ResponseHandler): void {
    try {
      handler.onHeaders(this.status, ['X-A', 'a\nb']);
    } catch (failure) {
      handler.onError(failure instanceof Error ? failure : new Error('unexpected'));
    }
  }

  async close(): Promise<void> {}

  async destroy(): Promise<void> {}
}

test.each([
  [201, /^HTTP\/1\.1 502 Bad Gateway\r\n[^]*"code":"UPSTREAM_BROKEN"/],
  // What began as an answer without a body cannot have one any more: better none than one that is cut short.
  [304, /^$/],
])('our answer instead of a %i that cannot be sent is whole, or there is none', async (status, answer) => {
  const origin = await startOrigin();
  const rig = await startRig({ origin });
  const pool = new UnsendableHeads(status);
  const upstream = {
    origin: origin.url,
    pool,
    http2: pool,
    begin: () => () => undefined,
    dial: async () => Promise.reject(new Error('unexpected')),
  };
  rig.use({ upstreams: { next: () => upstream, health: () => [], close: async () => undefined } });

  const client = await exchange(rig.port, 'GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n');
  await client.untilClosed();

  expect(client.text).toMatch(answer);
});
