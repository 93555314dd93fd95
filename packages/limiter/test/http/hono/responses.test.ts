// Whatever a Hono application makes of a request gets the headers, and whatever stands before a limit stays on its
// answer.
import { Hono, type Context } from 'hono';
import { bodyLimit } from 'hono/body-limit';
import { cors } from 'hono/cors';
import { HTTPException } from 'hono/http-exception';
import { streamSSE } from 'hono/streaming';
import { expect, test } from 'vitest';
import { rateLimit, type HonoRateLimitOptions } from '../../../src/adapters/hono.ts';
import { createLimiter, tokenBucket } from '../../../src/index.ts';
import { virtualClock } from '../../../src/testing/index.ts';
import { startFetch } from '../fetch-server.ts';

const api = tokenBucket({ name: 'api', average: 3, burst: 3, period: '30s' });
const wide = tokenBucket({ name: 'wide', average: 9, burst: 9, period: '9s' });

function limit(options: Partial<HonoRateLimitOptions<Context>> = {}) {
  const limiter = createLimiter({ clock: virtualClock() });
  return rateLimit<Context>({ limiter, policies: api, headers: 'draft', key: () => 'ann', ...options });
}

const redirect = Response.redirect('http://localhost/elsewhere', 302);
const empty = new Response(null, { status: 204, headers: { 'X-Own': 'yes' } });

test.each<[string, number, (context: Context) => Response | Promise<Response>]>([
  ['text', 200, (context) => context.text('hello')],
  ['JSON', 200, (context) => context.json({ hello: true })],
  ['a redirect', 302, (context) => context.redirect('/elsewhere')],
  ['a redirect whose headers cannot be changed', 302, () => redirect],
  ['a response of its own', 201, () => new Response('hello', { status: 201 })],
  ['a response that is returned again', 204, () => empty],
  ['nothing that is found', 404, (context) => context.notFound()],
  [
    'an HTTPException',
    418,
    () => {
      throw new HTTPException(418, { message: 'teapot' });
    },
  ],
  [
    'an error',
    500,
    () => {
      throw new Error('broken');
    },
  ],
])('%s gets the headers', async (_, status, handler) => {
  const app = new Hono();
  app.onError((error) =>
    error instanceof HTTPException ? error.getResponse() : new Response('', { status: 500 }),
  );
  app.use(limit());
  app.all('*', handler);
  const { get } = await startFetch(app.fetch);

  const replies = [await get(), await get({ path: '/again' })];

  expect(replies.map((reply) => [reply.status, reply.headers['ratelimit']])).toEqual([
    [status, '"api";r=2;t=10'],
    [status, '"api";r=1;t=20'],
  ]);
});

test('a path without a route is counted too', async () => {
  const app = new Hono();
  app.use(limit({ headers: 'none' }));
  const { statuses } = await startFetch(app.fetch);

  expect(await statuses(4, { path: '/nowhere' })).toEqual([404, 404, 404, 429]);
});

test('a stream of events arrives as it is written, with the headers', async () => {
  const app = new Hono();
  app.get('/', limit(), (context) =>
    streamSSE(context, async (stream) => {
      for (const data of ['one', 'two']) await stream.writeSSE({ data });
    }),
  );
  const { get } = await startFetch(app.fetch);

  const reply = await get();

  expect(reply.body).toBe('data: one\n\ndata: two\n\n');
  expect(reply.headers).toMatchObject({ 'content-type': 'text/event-stream', ratelimit: '"api";r=2;t=10' });
});

test('a HEAD is counted like a GET, and its refusal has no body', async () => {
  const app = new Hono();
  app.get('/', limit(), (context) => context.text('hello'));
  const { get, statuses } = await startFetch(app.fetch);

  expect(await statuses(3, { method: 'HEAD' })).toEqual([200, 200, 200]);
  expect(await get({ method: 'HEAD' })).toMatchObject({
    status: 429,
    body: '',
    headers: { 'content-type': 'application/problem+json', 'retry-after': '10' },
  });
});

test('what stands before a limit has its headers on responses and on refusals', async () => {
  const app = new Hono();
  app.use(cors({ origin: 'http://friend.example', exposeHeaders: ['X-Own'] }));
  app.use(async (context, next) => {
    context.header('X-Request-Id', '7');
    await next();
  });
  app.get('/', limit({ exposeHeaders: true, cost: 2 }), () => new Response('hello'));
  const { get } = await startFetch(app.fetch);

  const question = { headers: { Origin: 'http://friend.example' } };
  const [passed, denied] = [await get(question), await get(question)];

  const before = { 'access-control-allow-origin': 'http://friend.example', 'x-request-id': '7' };
  const exposed = 'X-Own, RateLimit, RateLimit-Policy, Retry-After';
  expect(passed).toMatchObject({ status: 200, body: 'hello', headers: before });
  expect(denied).toMatchObject({ status: 429, headers: before });
  expect(passed.headers['access-control-expose-headers']).toBe(exposed);
  expect(denied.headers['access-control-expose-headers']).toBe(exposed);
  expect(denied.headers['ratelimit']).toBe('"api";r=1;t=10');
});

test('a limit for everything and one for a route are told together', async () => {
  const app = new Hono();
  const items = new Hono();
  items.get('/', limit({ policies: wide, cost: 4 }), (context) => context.text('hello'));
  app.use(limit());
  app.route('/items', items);
  app.get('/', (context) => context.text('hello'));
  const { get } = await startFetch(app.fetch);

  expect((await get()).headers['ratelimit']).toBe('"api";r=2;t=10');
  expect((await get({ path: '/items' })).headers['ratelimit']).toBe('"api";r=1;t=20, "wide";r=5;t=4');
  const last = await get({ path: '/items' });
  expect(last.headers['ratelimit']).toBe('"api";r=0;t=10, "wide";r=1;t=8');
  expect((await get({ path: '/items' })).headers['ratelimit']).toBe('"api";r=0;t=10');
});

test('a denial by a limit for a route tells of both limits once', async () => {
  const app = new Hono();
  app.use(limit({ headers: ['draft', 'legacy'] }));
  app.get('/', limit({ headers: ['draft', 'legacy'], policies: wide, cost: 10 }), (context) =>
    context.text('hello'),
  );
  const { get } = await startFetch(app.fetch);

  const { status, headers } = await get();

  expect(status).toBe(429);
  expect(headers).toMatchObject({ ratelimit: '"api";r=2;t=10, "wide";r=9;t=0', 'x-ratelimit-limit': '9' });
});

test('a middleware that replaces the request does not come between limits', async () => {
  const app = new Hono();
  app.use(limit());
  app.use(bodyLimit({ maxSize: 1000 }));
  app.post('/', limit({ policies: wide }), async (context) => context.text(await context.req.text()));
  const { get } = await startFetch(app.fetch);

  const reply = await get({ method: 'POST', body: 'hello', headers: { 'Transfer-Encoding': 'chunked' } });

  expect(reply).toMatchObject({ status: 200, body: 'hello' });
  expect(reply.headers['ratelimit']?.toString().split(', ').toSorted()).toEqual([
    '"api";r=2;t=10',
    '"wide";r=8;t=1',
  ]);
});

test('text that Hono made is sent as Hono made it, not as a copy', async () => {
  const app = new Hono();
  let made: Response | undefined;
  let sent: Response | undefined;
  app.use(async (context, next) => {
    await next();
    sent = context.res;
  });
  app.get('/', limit(), (context) => (made = context.text('hello')));

  await app.request('/');

  expect(sent).toBe(made);
  expect(sent?.headers.get('RateLimit')).toBe('"api";r=2;t=10');
});
