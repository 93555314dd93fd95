import { createServer } from 'node:http2';
import { connect, createServer as createPlainServer } from 'node:net';
import { request, type Dispatcher } from 'undici';
import { expect, onTestFinished, test } from 'vitest';
import { createConnector, readUpstreamTls } from '../../../src/proxy/upstreams/connector.ts';
import { Http2Pool } from '../../../src/proxy/upstreams/http2-pool.ts';
import { backendOf } from '../gateway-settings.ts';
import { listen, until } from '../local-server.ts';

/** A way to a server of which the first connection can be made to swallow everything, as when a machine is gone. */
async function fragileWay(): Promise<{ origin: string; swallow: () => void; accepted: () => number }> {
  const server = createServer();
  server.on('stream', (stream) => {
    stream.on('error', () => {});
    stream.respond({ ':status': 200 });
    stream.end('ok');
  });
  const { port } = await listen(server);
  let swallows = false;
  let connections = 0;
  const way = await listen(
    createPlainServer((client) => {
      connections += 1;
      const isFirst = connections === 1;
      const upstream = connect(port, '127.0.0.1');
      client.on('data', (chunk) => (isFirst && swallows) || upstream.write(chunk));
      upstream.on('data', (chunk) => (isFirst && swallows) || client.write(chunk));
      upstream.on('error', () => client.destroy());
      client.on('close', () => upstream.destroy());
    }),
  );
  const swallow = (): void => {
    swallows = true;
  };
  return { origin: `http://127.0.0.1:${way.port}`, swallow, accepted: () => connections };
}

function poolTo(origin: string): Http2Pool {
  const tls = readUpstreamTls(backendOf({}).transport.tls);
  const pool = new Http2Pool(origin, {
    connect: createConnector({ tls, dialTimeoutMs: 2000, http2: true }),
    maxConnections: 4,
    maxPending: 10,
    idleTimeoutMs: 60_000,
    headersTimeoutMs: 60_000,
    bodyTimeoutMs: 60_000,
    pingTimeoutMs: 50,
    http1: undefined,
    onConnect: () => {},
    onConnectError: () => {},
  });
  onTestFinished(async () => pool.destroy());
  return pool;
}

async function get(dispatcher: Dispatcher, origin: string, options: object = {}): Promise<string> {
  try {
    const { body } = await request(origin, { dispatcher, ...options });
    return await body.text();
  } catch (failure) {
    return failure instanceof Error ? failure.name : 'failed';
  }
}

test.each([
  ['times out', () => ({ headersTimeout: 50 }), 'HeadersTimeoutError'],
  ['is given up', () => ({ signal: AbortSignal.timeout(100) }), 'TimeoutError'],
])(
  'a connection on which a request %s is not used again if nobody answers there',
  async (_how, options, failure) => {
    const { origin, swallow, accepted } = await fragileWay();
    const pool = poolTo(origin);
    expect(await get(pool, origin)).toBe('ok');
    swallow();

    expect(await get(pool, origin, options())).toBe(failure);
    await until(() => pool.connections === 0);

    expect(await get(pool, origin)).toBe('ok');
    expect(accepted()).toBe(2);
  },
);

test('a slow request does not end a connection that lives', async () => {
  const { origin, accepted } = await fragileWay();
  const pool = poolTo(origin);
  await get(pool, origin);

  await get(pool, origin, { headersTimeout: 1 });
  await new Promise((resolve) => {
    setTimeout(resolve, 150);
  });

  expect(await get(pool, origin)).toBe('ok');
  expect(accepted()).toBe(1);
});
