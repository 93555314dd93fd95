// However a response ends, its request is settled exactly once.
import { once } from 'node:events';
import { createServer, request as requestOf, type IncomingMessage, type ServerResponse } from 'node:http';
import { connect, createServer as createHttp2Server } from 'node:http2';
import type { AddressInfo } from 'node:net';
import express from 'express';
import fastify from 'fastify';
import Koa from 'koa';
import { expect, onTestFinished, test, vi } from 'vitest';
import { PATIENCE_MS } from '../../../../test/patience.ts';
import { rateLimit as expressRateLimit } from '../../src/adapters/express.ts';
import { rateLimit as fastifyRateLimit } from '../../src/adapters/fastify.ts';
import { rateLimit as fetchRateLimit } from '../../src/adapters/fetch.ts';
import { rateLimit as koaRateLimit } from '../../src/adapters/koa.ts';
import { rateLimit as nodeRateLimit, type NodeRateLimit } from '../../src/adapters/node.ts';
import type { EndedResponse, RateLimitOptions } from '../../src/http/index.ts';
import { createLimiter, fixedWindow } from '../../src/index.ts';
import { openRaw } from './client.ts';

const budget = fixedWindow({ name: 'budget', quota: 100, window: '1d' });
const GET = 'GET / HTTP/1.1\r\nHost: localhost\r\n\r\n';

function settled(): {
  readonly options: RateLimitOptions<unknown>;
  readonly ends: readonly Pick<EndedResponse, 'status' | 'finished'>[];
  readonly left: () => Promise<number>;
} {
  const limiter = createLimiter();
  const ends: Pick<EndedResponse, 'status' | 'finished'>[] = [];
  const settle = (_: unknown, { status, finished }: EndedResponse): number => {
    ends.push({ status, finished });
    return 2;
  };
  const options = { limiter, policies: budget, key: () => 'ann', cost: 10, settle };
  return { options, ends, left: async () => (await limiter.peek(budget.for('ann'))).remaining };
}

async function serveNode(limit: NodeRateLimit<IncomingMessage>, handle: Handle): Promise<number> {
  const server = createServer((incoming, response) =>
    limit(incoming, response, () => handle(incoming, response)),
  );
  return listening(server);
}

type Handle = (incoming: IncomingMessage, response: ServerResponse) => unknown;

async function listening(server: ReturnType<typeof createServer>): Promise<number> {
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  onTestFinished(() => {
    server.closeAllConnections();
    server.close();
  });
  return portOf(server);
}

function portOf(server: { address(): AddressInfo | string | null }): number {
  const address = server.address();
  return typeof address === 'object' && address !== null ? address.port : 0;
}

/** How it ended, after its request was settled. */
async function endsOf(run: ReturnType<typeof settled>): Promise<readonly object[]> {
  await vi.waitFor(async () => expect(await run.left()).toBe(98), PATIENCE_MS);
  return run.ends;
}

test('a stream that ends', async () => {
  const run = settled();
  const port = await serveNode(nodeRateLimit(run.options), (_, response) => {
    response.write('one');
    setImmediate(() => response.end('two'));
  });

  const [response] = await once(requestOf({ port, host: '127.0.0.1' }).end(), 'response');
  for await (const _ of response);

  expect(await endsOf(run)).toEqual([{ status: 200, finished: true }]);
});

test('a stream whose client goes in the middle', async () => {
  const run = settled();
  const port = await serveNode(nodeRateLimit(run.options), (_, response) => response.write('one'));

  const client = await openRaw(port, GET);
  await once(client.socket, 'data');
  client.socket.destroy();

  expect(await endsOf(run)).toEqual([{ status: 200, finished: false }]);
});

test('a client that goes before there is a response', async () => {
  const run = settled();
  let reached: () => void = () => undefined;
  const isReached = new Promise<void>((resolve) => {
    reached = resolve;
  });
  const port = await serveNode(nodeRateLimit(run.options), () => reached());

  const client = await openRaw(port, GET);
  await isReached;
  client.socket.destroy();

  expect(await endsOf(run)).toEqual([{ status: 499, finished: false }]);
});

test('a response that the application destroys', async () => {
  const run = settled();
  const port = await serveNode(nodeRateLimit(run.options), (_, response) => {
    response.write('one');
    response.destroy(new Error('broken'));
  });

  await openRaw(port, GET);

  expect(await endsOf(run)).toEqual([{ status: 200, finished: false }]);
});

test('an error that Express answers', async () => {
  const run = settled();
  const app = express();
  app.use(expressRateLimit(run.options));
  app.get('/', () => {
    throw new Error('broken');
  });
  app.use((_error: unknown, _request: unknown, response: express.Response, _next: unknown) => {
    response.status(500).end();
  });
  const port = await listening(createServer(app));

  await once(requestOf({ port, host: '127.0.0.1' }).end(), 'response');

  expect(await endsOf(run)).toEqual([{ status: 500, finished: true }]);
});

test('an error that Koa answers', async () => {
  const run = settled();
  const app = new Koa();
  app.silent = true;
  app.use(koaRateLimit(run.options)).use(() => {
    throw new Error('broken');
  });
  const port = await listening(createServer((incoming, response) => void app.callback()(incoming, response)));

  await once(requestOf({ port, host: '127.0.0.1' }).end(), 'response');

  expect(await endsOf(run)).toEqual([{ status: 500, finished: true }]);
});

test('an error that Fastify answers', async () => {
  const run = settled();
  const app = fastify();
  await app.register(fastifyRateLimit(run.options));
  app.get('/', () => {
    throw new Error('broken');
  });
  onTestFinished(() => app.close());
  await app.listen({ port: 0, host: '127.0.0.1' });

  await once(requestOf({ port: portOf(app.server), host: '127.0.0.1' }).end(), 'response');

  expect(await endsOf(run)).toEqual([{ status: 500, finished: true }]);
});

test('HTTP/2: a response that ends', async () => {
  const run = settled();
  const limit = nodeRateLimit(run.options);
  const server = createHttp2Server((incoming, response) =>
    limit(incoming, response, () => response.end('hello')),
  );
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const session = connect(`http://127.0.0.1:${portOf(server)}`);
  onTestFinished(() => {
    session.destroy();
    server.close();
  });

  const stream = session.request({ ':path': '/' });
  stream.resume();
  await once(stream, 'close');

  expect(await endsOf(run)).toEqual([{ status: 200, finished: true }]);
});

test('fetch: a body that is read to its end', async () => {
  const run = settled();
  const handle = fetchRateLimit(run.options)(() => new Response('hello'));

  const response = await handle(new Request('http://localhost/'));
  expect(run.ends).toEqual([]);
  expect(await response.text()).toBe('hello');

  expect(await endsOf(run)).toEqual([{ status: 200, finished: true }]);
});

test('fetch: a body that is cancelled', async () => {
  const run = settled();
  const handle = fetchRateLimit(run.options)(() => new Response(endless()));

  const response = await handle(new Request('http://localhost/'));
  await response.body?.cancel();

  expect(await endsOf(run)).toEqual([{ status: 200, finished: false }]);
});

test('fetch: a body that fails', async () => {
  const run = settled();
  const failing = new ReadableStream({ pull: () => Promise.reject(new Error('broken')) });
  const handle = fetchRateLimit(run.options)(() => new Response(failing));

  const response = await handle(new Request('http://localhost/'));
  await expect(response.text()).rejects.toThrow('broken');

  expect(await endsOf(run)).toEqual([{ status: 200, finished: false }]);
});

test('fetch: a handler that throws', async () => {
  const run = settled();
  const handle = fetchRateLimit(run.options)(() => Promise.reject(new Error('broken')));

  await expect(handle(new Request('http://localhost/'))).rejects.toThrow('broken');

  expect(await endsOf(run)).toEqual([{ status: 500, finished: true }]);
});

test('fetch: a client that goes, and a body that ends afterwards', async () => {
  const run = settled();
  const leaving = new AbortController();
  const handle = fetchRateLimit(run.options)(() => new Response('hello'));

  const response = await handle(new Request('http://localhost/', { signal: leaving.signal }));
  leaving.abort();
  await response.text();

  expect(await endsOf(run)).toEqual([{ status: 200, finished: false }]);
});

test('fetch: a response without a body', async () => {
  const run = settled();
  const handle = fetchRateLimit(run.options)(() => new Response(null, { status: 204 }));

  await handle(new Request('http://localhost/'));

  expect(await endsOf(run)).toEqual([{ status: 204, finished: true }]);
});

test('fetch: a handler that returns nothing counts in full', async () => {
  const run = settled();
  const handle = fetchRateLimit(run.options)(() => undefined);

  await handle(new Request('http://localhost/'));

  expect(await run.left()).toBe(90);
  expect(run.ends).toEqual([]);
});

function endless(): ReadableStream<Uint8Array> {
  return new ReadableStream({ pull: (controller) => controller.enqueue(new Uint8Array([46])) });
}
