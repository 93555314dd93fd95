import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import { expect, test, vi } from 'vitest';
import { rateLimit, type NodeRateLimitOptions } from '../../src/adapters/node.ts';
import { createLimiter, tokenBucket } from '../../src/index.ts';
import { startServer, type RunningServer } from './running-server.ts';

const api = tokenBucket({ name: 'api', average: 3, period: '1h' });

/** A server of node:http that does something before its limit is asked. */
function start(
  options: Partial<NodeRateLimitOptions<IncomingMessage>>,
  before: (response: ServerResponse) => void = () => undefined,
): Promise<RunningServer> {
  const all = { limiter: createLimiter(), policies: api, ...options };
  const limit = rateLimit<IncomingMessage>(all);
  const create = (_: unknown, serve: () => string): Server =>
    createServer((request, response) => {
      before(response);
      limit(request, response, () => response.end(serve()));
    });
  return startServer({ name: 'node:http', createServer: create, headerOf: () => undefined }, all);
}

test('headers that the application has set as several lines are appended to', async () => {
  const { get } = await start({ headers: 'draft' }, (response) => {
    response.setHeader('RateLimit', ['"a";r=1', '"b";r=2']);
    response.setHeader('RateLimit-Policy', '"a";q=1');
  });

  const { headers } = await get();

  expect(headers['ratelimit']).toBe('"a";r=1, "b";r=2, "api";r=2;t=1200');
  expect(headers['ratelimit-policy']).toBe('"a";q=1, "api";q=3;w=3600');
});

test('a number that the application has set as X-RateLimit-Remaining is understood', async () => {
  const { get } = await start({}, (response) => void response.setHeader('X-RateLimit-Remaining', 1));

  expect((await get()).headers).toMatchObject({ 'x-ratelimit-remaining': '1' });
});

test('onError hears of a mistake, and the client gets a problem that does not tell', async () => {
  const heard: [unknown, string | undefined][] = [];
  const { get } = await start({
    key: () => {
      throw new Error('the database password is wrong');
    },
    onError: (error, request) => heard.push([error, request.url]),
  });

  const reply = await get({ path: '/here' });

  expect(reply.status).toBe(500);
  expect(JSON.parse(reply.body)).toEqual({
    type: 'about:blank',
    title: 'Internal Server Error',
    status: 500,
    detail: 'The limits of this request could not be checked.',
  });
  expect(heard).toEqual([[new Error('the database password is wrong'), '/here']]);
});

test('a response that is under way already is left alone', async () => {
  const complaint = vi.spyOn(console, 'error').mockReturnValue();
  const { get, served } = await start({ cost: () => -1 }, (response) => void response.end('early'));

  expect(await get()).toMatchObject({ status: 200, body: 'early' });
  await vi.waitFor(() => expect(complaint).toHaveBeenCalledOnce());
  expect(served()).toBe(0);
});

test.each([
  [{}, true],
  [{ 'Accept-Encoding': 'gzip', 'X-Forwarded-By': '192.0.2.1', Forwarder: 'a', 'X-Real-Id': '7' }, true],
  [{ 'X-Forwarded-For': '192.0.2.1' }, false],
  [{ forwarded: 'for=192.0.2.1' }, false],
  [{ 'X-Real-IP': '192.0.2.1' }, false],
  [{ 'CF-Connecting-IP': '192.0.2.1' }, false],
  [{ 'true-client-ip': '192.0.2.1' }, false],
])(
  'whoever finds the address knows whether a proxy may have named a client: %o',
  async (headers, isDirect) => {
    const seen: unknown[] = [];
    const { get } = await start({
      clientAddress: (facts) => {
        seen.push(facts.isDirect);
        return facts.peer;
      },
    });

    expect((await get({ headers })).status).toBe(200);
    expect(seen).toEqual([isDirect]);
  },
);

test('a function that finds the address may take the facts apart, and copy them', async () => {
  const seen: unknown[] = [];
  const { get } = await start({
    clientAddress: ({ headerLines, ...others }) => {
      const copy = { headerLines, ...others };
      seen.push(headerLines('x-client'), copy.headerLines('x-client'), copy.isDirect);
      return copy.peer;
    },
  });

  expect((await get({ headers: { 'X-Client': 'ann' } })).status).toBe(200);
  expect(seen).toEqual([['ann'], ['ann'], true]);
});
