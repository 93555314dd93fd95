// Who sent a request, on Node.js and where there is no socket.
import { Hono, type Context } from 'hono';
import { expect, test } from 'vitest';
import { rateLimit, type HonoRateLimitOptions } from '../../../src/adapters/hono.ts';
import { createLimiter, tokenBucket } from '../../../src/index.ts';
import { virtualClock } from '../../../src/testing/index.ts';
import { startFetch } from '../fetch-server.ts';

const once = tokenBucket({ name: 'once', average: 1, burst: 1, period: '1h' });

function application(options: Partial<HonoRateLimitOptions<Context>>): { app: Hono; errors: unknown[] } {
  const errors: unknown[] = [];
  const app = new Hono();
  app.onError((error) => {
    errors.push(error);
    return new Response('', { status: 500 });
  });
  app.use(
    rateLimit<Context>({ limiter: createLimiter({ clock: virtualClock() }), policies: once, ...options }),
  );
  app.get('/', (context) => context.text('hello'));
  return { app, errors };
}

test.each([
  ['there is no env', undefined],
  ['env has bindings of another platform', { KV: {}, server: { requestIP: () => null } }],
  ['env has bindings that look like it', { incoming: 'webhook' }],
])('an address that nobody knows is an error and no admission: %s', async (_, env) => {
  const { app, errors } = application({});

  const response = await app.request('/', {}, env);

  expect(response.status).toBe(500);
  expect(errors).toMatchObject([
    { code: 'UNKNOWN_PEER', message: expect.stringContaining('set getConnInfo') },
  ]);
});

test.each([
  ['as env', (socket: object) => ({ incoming: { socket } })],
  ['below server', (socket: object) => ({ KV: {}, server: { incoming: { socket } } })],
])('the socket of Node is found %s', async (_, env) => {
  const { app } = application({});
  const from = async (remoteAddress: string) => (await app.request('/', {}, env({ remoteAddress }))).status;

  expect([await from('192.0.2.1'), await from('192.0.2.2'), await from('192.0.2.1')]).toEqual([
    200, 200, 429,
  ]);
});

test('a socket without an address, such as a Unix socket, is no mistake of the program', async () => {
  const { app, errors } = application({});

  const response = await app.request('/', {}, { incoming: { socket: {} } });

  expect(response.status).toBe(400);
  expect(errors).toEqual([]);
});

test('getConnInfo of a platform comes first, and may know nothing', async () => {
  const { app } = application({
    getConnInfo: (context) => ({ remote: { address: context.req.header('cf-connecting-ip') } }),
  });
  const from = async (headers: Record<string, string>) =>
    (await app.request('/', { headers }, { incoming: { socket: { remoteAddress: '10.0.0.1' } } })).status;

  expect(await from({ 'cf-connecting-ip': '192.0.2.1' })).toBe(200);
  expect(await from({ 'cf-connecting-ip': '192.0.2.2' })).toBe(200);
  expect(await from({ 'cf-connecting-ip': '192.0.2.1' })).toBe(429);
  expect(await from({})).toBe(400);
});

test('behind a known number of proxies nobody has to know the socket', async () => {
  const { app } = application({ clientAddress: { trustedProxies: { hops: 1 } } });
  const from = async (line: string) =>
    (await app.request('/', { headers: { 'x-forwarded-for': line } })).status;

  expect([await from('6.6.6.6, 192.0.2.1'), await from('192.0.2.1')]).toEqual([200, 429]);
});

test('other keys need no address', async () => {
  const { app } = application({ key: (context) => context.req.header('x-user') });

  expect((await app.request('/', { headers: { 'x-user': 'ann' } })).status).toBe(200);
  expect((await app.request('/', { headers: { 'x-user': 'ann' } })).status).toBe(429);
});

test.each([7, null, 'auto'])('a getConnInfo of %s is a mistake', (getConnInfo) => {
  const options = { getConnInfo } as unknown as Partial<HonoRateLimitOptions<Context>>;

  expect(() => application(options)).toThrow('getConnInfo is');
});

test('an error of a function goes to the error handler of the application', async () => {
  const { app, errors } = application({
    key: () => {
      throw new Error('broken');
    },
  });
  const running = await startFetch(app.fetch);

  expect((await running.get()).status).toBe(500);
  expect(errors).toEqual([new Error('broken')]);
});
