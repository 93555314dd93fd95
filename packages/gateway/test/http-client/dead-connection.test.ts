import { createServer as createHttpServer } from 'node:http';
import { createServer } from 'node:http2';
import { connect, createServer as createPlainServer, type Socket } from 'node:net';
import { expect, test } from 'vitest';
import type { Http2Pool } from '../../src/http-client/http2/pool.ts';
import { listen, until } from '../proxy/local-server.ts';
import { Asker, ask, GET, http2PoolTo, poolTo, send } from './asking.ts';

/** A way to a server of which the first connection can be made to swallow everything, as when a machine is gone. */
async function fragileWay() {
  const server = createServer();
  let pings = 0;
  server.on('session', (session) => session.on('ping', () => (pings += 1)));
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
  return {
    origin: `http://127.0.0.1:${way.port}`,
    swallow,
    accepted: () => connections,
    pings: () => pings,
  };
}

interface Ask {
  readonly headersTimeoutMs?: number;
  readonly givenUp?: boolean;
}

/** The body, or the code of the error. */
async function get(pool: Http2Pool, { headersTimeoutMs = 0, givenUp = false }: Ask = {}): Promise<string> {
  const asker = new Asker();
  pool.send({ ...GET, headersTimeoutMs }, asker);
  if (givenUp) asker.control?.abort(Object.assign(new Error('enough'), { code: 'GIVEN_UP' }));
  const { body, error } = await asker.done;
  return error === undefined ? body : (error.code ?? error.message);
}

test.each([
  ['times out', { headersTimeoutMs: 50 }, 'HEADERS_TIMEOUT'],
  ['is given up', { givenUp: true }, 'GIVEN_UP'],
])(
  'a connection on which a request %s is not used again if nobody answers there',
  async (_how, asking, failure) => {
    const { origin, swallow, accepted } = await fragileWay();
    const pool = http2PoolTo(origin, { pingTimeoutMs: 50 });
    expect(await get(pool)).toBe('ok');
    swallow();

    expect(await get(pool, asking)).toBe(failure);
    await until(() => pool.connections === 0);

    expect(await get(pool)).toBe('ok');
    expect(accepted()).toBe(2);
  },
);

test('a slow request does not end a connection that lives', async () => {
  const { origin, pings, accepted } = await fragileWay();
  const pool = http2PoolTo(origin, { pingTimeoutMs: 10_000 });
  await get(pool);

  expect(await get(pool, { givenUp: true })).toBe('GIVEN_UP');
  await until(() => pings() === 1);

  expect(await get(pool)).toBe('ok');
  expect(accepted()).toBe(1);
});

/** HTTP/1.1 connections to a server that can all be made to swallow everything. */
async function fragileHttp1() {
  const server = await listen(
    createHttpServer({ keepAliveTimeout: 60_000 }, (_asked, response) => response.end('ok')),
  );
  const ways = { swallowing: new Set<Socket>(), open: new Set<Socket>(), accepted: 0 };
  const way = await listen(
    createPlainServer((client) => {
      ways.accepted += 1;
      ways.open.add(client);
      const upstream = connect(server.port, '127.0.0.1');
      client.on('data', (chunk) => ways.swallowing.has(client) || upstream.write(chunk));
      upstream.on('data', (chunk) => ways.swallowing.has(client) || client.write(chunk));
      upstream.on('error', () => client.destroy());
      client.on('close', () => upstream.destroy());
    }),
  );
  return { ways, origin: `http://127.0.0.1:${way.port}` };
}

test('one request without an answer on an old HTTP/1.1 connection is enough: the others from then are not used again', async () => {
  const { ways, origin } = await fragileHttp1();
  const pool = poolTo(origin, { maxConnections: 5, suspectAfterMs: 20 });
  await Promise.all(Array.from({ length: 5 }, async () => ask(pool)));
  expect(ways.accepted).toBe(5);
  ways.swallowing = new Set(ways.open);

  const unanswered = await ask(pool, { headersTimeoutMs: 50 });
  const next = await ask(pool, { headersTimeoutMs: 10_000 });

  expect(unanswered.error).toMatchObject({ code: 'HEADERS_TIMEOUT' });
  expect(next.body).toBe('ok');
  expect(ways.accepted).toBe(6);
});

test('a connection that was used since then is kept', async () => {
  const { ways, origin } = await fragileHttp1();
  const pool = poolTo(origin, { maxConnections: 2, suspectAfterMs: 0 });
  await Promise.all([ask(pool), ask(pool)]);
  const [first] = ways.open;
  if (first !== undefined) ways.swallowing.add(first);

  // One of the two is answered, after the other one was sent.
  const both = [send(pool), send(pool)];
  await Promise.race(both.map(async ({ done }) => done));
  for (const { control } of both) control?.abort(new Error('enough'));
  const next = await ask(pool);

  expect(both.filter(({ complete }) => complete)).toHaveLength(1);
  expect(next.body).toBe('ok');
  expect(ways.accepted).toBe(2);
});

test('a request that is given up at once says nothing about the others', async () => {
  const { ways, origin } = await fragileHttp1();
  const pool = poolTo(origin, { maxConnections: 3, suspectAfterMs: 60_000 });
  await Promise.all([ask(pool), ask(pool), ask(pool)]);
  ways.swallowing = new Set(ways.open);

  const given = await ask(pool, { headersTimeoutMs: 1 });
  ways.swallowing.clear();
  await Promise.all([ask(pool), ask(pool)]);

  expect(given.error).toMatchObject({ code: 'HEADERS_TIMEOUT' });
  expect(ways.accepted).toBe(3);
});
