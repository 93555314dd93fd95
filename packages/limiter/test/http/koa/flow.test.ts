import { Readable } from 'node:stream';
import type { Middleware } from 'koa';
import { expect, test } from 'vitest';
import { rateLimit } from '../../../src/adapters/koa.ts';
import { stoppedLimiter, times } from '../standing-clock.ts';
import { serve } from './application.ts';

const one = times('one', 1);

const hello: Middleware = (context) => {
  context.body = 'hello';
};

test('a denial passes the middleware around it, like every response', async () => {
  const seen: unknown[] = [];
  const { get } = await serve(
    async (context, next) => {
      await next();
      seen.push(context.status, typeof context.body);
      context.set('x-response-time', '1');
    },
    rateLimit({ limiter: stoppedLimiter(), policies: one }),
    hello,
  );

  const [, denied] = [await get(), await get()];

  expect(seen).toEqual([200, 'string', 429, 'string']);
  expect(denied.headers).toMatchObject({
    'content-type': 'application/problem+json',
    'content-length': String(Buffer.byteLength(denied.body)),
    'x-response-time': '1',
    'retry-after': '3600',
  });
});

test('a type that was set before does not become the type of an answer', async () => {
  const { get } = await serve(
    (context, next) => {
      context.type = 'html';
      return next();
    },
    rateLimit({ limiter: stoppedLimiter(), policies: one, cost: 2, answer: () => ({ body: 'später' }) }),
  );

  const reply = await get();

  expect(reply).toMatchObject({ status: 429, body: 'später' });
  expect(reply.headers['content-type']).toBe('text/plain; charset=utf-8');
});

test('requests that nobody answers are limited', async () => {
  const { get } = await serve(rateLimit({ limiter: stoppedLimiter(), policies: one }));

  const [first, second] = [await get({ path: '/guess' }), await get({ path: '/another' })];

  expect(first).toMatchObject({ status: 404, headers: { 'x-ratelimit-remaining': '0' } });
  expect(second.status).toBe(429);
});

test('a denied HEAD has the headers and no body', async () => {
  const { get } = await serve(rateLimit({ limiter: stoppedLimiter(), policies: one, cost: 2 }), hello);

  const reply = await get({ method: 'HEAD' });

  expect(reply).toMatchObject({ status: 429, body: '' });
  expect(reply.headers['ratelimit']).toBe('"one";r=1;t=0');
});

test('a streamed body has the headers', async () => {
  const { get } = await serve(rateLimit({ limiter: stoppedLimiter(), policies: one }), (context) => {
    context.body = Readable.from(['hel', 'lo']);
  });

  expect(await get()).toMatchObject({ body: 'hello', headers: { 'x-ratelimit-remaining': '0' } });
});

test('it waits for what comes after it', async () => {
  const order: string[] = [];
  const { get } = await serve(
    async (_context, next) => {
      await next();
      order.push('before');
    },
    rateLimit({ limiter: stoppedLimiter(), policies: one }),
    async (context) => {
      await new Promise((resolve) => setImmediate(resolve));
      order.push('after');
      context.body = 'hello';
    },
  );

  await get();

  expect(order).toEqual(['after', 'before']);
});
