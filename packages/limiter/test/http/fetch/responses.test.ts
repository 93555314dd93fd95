// What a handler returns stays what it is, but for the headers.
import { once } from 'node:events';
import { createServer } from 'node:http';
import { expect, onTestFinished, test } from 'vitest';
import { rateLimit } from '../../../src/adapters/fetch.ts';
import type { RateLimitOptions } from '../../../src/http/index.ts';
import { createLimiter, tokenBucket } from '../../../src/index.ts';
import { virtualClock } from '../../../src/testing/index.ts';

const api = tokenBucket({ name: 'api', average: 3, burst: 3, period: '30s' });
const wide = tokenBucket({ name: 'wide', average: 9, burst: 9, period: '9s' });

function limit(options: Partial<RateLimitOptions<Request>> = {}) {
  const limiter = createLimiter({ clock: virtualClock() });
  return rateLimit({ limiter, policies: api, key: () => 'ann', headers: 'draft', ...options });
}

function get(init?: RequestInit): Request {
  return new Request('http://localhost/', init);
}

test('a body is handed on unread, and what is written later arrives', async () => {
  let pulled = 0;
  const stream = new ReadableStream<string>(
    {
      pull(controller) {
        pulled += 1;
        controller.enqueue('x');
        if (pulled === 3) controller.close();
      },
    },
    { highWaterMark: 0 },
  );
  const handle = limit()(
    () => new Response(stream.pipeThrough(new TextEncoderStream(), { preventCancel: true })),
  );

  const response = await handle(get());

  expect(response.headers.get('RateLimit')).toBe('"api";r=2;t=10');
  expect(response.bodyUsed).toBe(false);
  expect(await response.text()).toBe('xxx');
});

test('a stream of events gets its headers and stays the same response', async () => {
  const events = new Response(new ReadableStream(), { headers: { 'Content-Type': 'text/event-stream' } });

  const response = await limit()(() => events)(get());

  expect(response).toBe(events);
  expect(response.headers.get('RateLimit')).toBe('"api";r=2;t=10');
});

test('a redirect, whose headers cannot be changed, gets them too', async () => {
  const redirect = Response.redirect('http://localhost/elsewhere', 307);

  const response = await limit()(() => redirect)(get());

  expect(response.status).toBe(307);
  expect(response.headers.get('Location')).toBe('http://localhost/elsewhere');
  expect(response.headers.get('RateLimit-Policy')).toBe('"api";q=3;w=30');
  expect(redirect.headers.has('RateLimit')).toBe(false);
});

test('what fetch() returned is passed on with the headers of both', async () => {
  const upstream = createServer((_, response) => {
    response.writeHead(203, 'Fine', { 'Content-Type': 'text/plain', RateLimit: '"upstream";r=7' });
    response.end('from upstream');
  }).listen(0);
  onTestFinished(() => void upstream.close());
  await once(upstream, 'listening');
  const address = upstream.address();
  const port = typeof address === 'object' ? address?.port : undefined;

  const response = await limit()(() => fetch(`http://127.0.0.1:${port}/`))(get());

  expect([response.status, response.statusText]).toEqual([203, 'Fine']);
  expect(response.headers.get('RateLimit')).toBe('"upstream";r=7, "api";r=2;t=10');
  expect(await response.text()).toBe('from upstream');
});

test('a response without a body may be returned again, and tells everybody only their own', async () => {
  const empty = new Response(null, { status: 204 });
  const handle = limit({ headers: ['draft', 'legacy'] })(() => empty);

  const responses = [await handle(get()), await handle(get())];

  expect(responses.map(({ headers }) => headers.get('RateLimit'))).toEqual([
    '"api";r=2;t=10',
    '"api";r=1;t=20',
  ]);
  expect(responses.map(({ headers }) => headers.get('X-RateLimit-Remaining'))).toEqual(['2', '1']);
  expect(empty.headers.has('RateLimit')).toBe(false);
});

test('cookies are kept apart', async () => {
  const headers = new Headers();
  headers.append('Set-Cookie', 'a=1');
  headers.append('Set-Cookie', 'b=2');

  const response = await limit()(() => new Response(null, { headers }))(get());

  expect(response.headers.getSetCookie()).toEqual(['a=1', 'b=2']);
});

test.each([
  ['a network error', Response.error()],
  ['an accepted WebSocket', Object.defineProperty(new Response(null), 'status', { value: 101 })],
  ['nothing', undefined],
  ['null', null],
])('%s is passed on as it is', async (_, returned) => {
  const response = await limit()(() => returned)(get());

  expect(response).toBe(returned);
  expect(returned?.headers.has('RateLimit') ?? false).toBe(false);
});

test('without anything to tell a response is not touched', async () => {
  const redirect = Response.redirect('http://localhost/elsewhere', 302);

  expect(await limit({ headers: 'none' })(() => redirect)(get())).toBe(redirect);
  expect(await limit({ skip: () => true })(() => redirect)(get())).toBe(redirect);
});

test('a HEAD that is refused gets the headers of a denial and no body', async () => {
  const handle = limit({ cost: 4 })(() => new Response('hello'));

  const response = await handle(get({ method: 'HEAD' }));

  expect(response.status).toBe(429);
  expect(response.headers.get('Content-Type')).toBe('application/problem+json');
  expect(response.body).toBeNull();
  expect(await (await handle(get({ method: 'POST' }))).text()).toContain('quota-exceeded');
});

test.each([204, 205, 304])('an answer may have the status %d, which has no body', async (status) => {
  const response = await limit({ cost: 4, answer: () => ({ status }) })(() => undefined)(get());

  expect(response).toMatchObject({ status, body: null });
});

test('a handler gets everything that came with the request, and may be synchronous', async () => {
  const handle = limit()((_request: Request, env: { name: string }, count: number) =>
    Response.json([env.name, count]),
  );

  expect(await (await handle(get(), { name: 'ann' }, 7)).json()).toEqual(['ann', 7]);
});

test('what a handler throws is thrown, and does not count against the next attempt', async () => {
  const request = get();
  let fails = true;
  const handle = limit()(() => {
    if (fails) throw new Error('broken');
    return new Response('hello');
  });

  await expect(handle(request)).rejects.toThrow('broken');
  fails = false;
  const response = await handle(request);

  expect(response.headers.get('RateLimit')).toBe('"api";r=1;t=20');
});

test('the same request may come again, and is told about itself only', async () => {
  const request = get();
  const handle = limit()(() => new Response('hello'));

  await handle(request);

  expect((await handle(request)).headers.get('RateLimit')).toBe('"api";r=1;t=20');
});

test('limits inside of limits speak in their order, after what the handler said', async () => {
  const said = new Headers({ RateLimit: '"upstream";r=7' });
  const handle = limit()(limit({ policies: wide })(() => new Response('hello', { headers: said })));

  const response = await handle(get());

  expect(response.headers.get('RateLimit')).toBe('"upstream";r=7, "api";r=2;t=10, "wide";r=8;t=1');
});

test('a denial by a limit inside of another speaks for itself, and tells the other once', async () => {
  const styles = { headers: ['draft', 'legacy'] } as const;
  const inner = limit({ ...styles, policies: wide, cost: 10 });
  const handle = limit({ ...styles })(inner(() => new Response('hello')));

  const { status, headers } = await handle(get());

  expect(status).toBe(429);
  expect(headers.get('RateLimit')).toBe('"api";r=2;t=10, "wide";r=9;t=0');
  // The denial's, although there is less left of the other.
  expect(headers.get('X-RateLimit-Limit')).toBe('9');
});

test('limits of a request that is made anew on the way are told together', async () => {
  const inner = limit({ policies: wide })(() => new Response('hello'));
  const handle = limit()((request: Request) => inner(new Request(request)));

  const response = await handle(get());

  expect(response.headers.get('RateLimit')).toBe('"wide";r=8;t=1, "api";r=2;t=10');
});
