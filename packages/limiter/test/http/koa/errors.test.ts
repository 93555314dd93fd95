import type { Middleware } from 'koa';
import { expect, test, vi } from 'vitest';
import { rateLimit } from '../../../src/adapters/koa.ts';
import { stoppedLimiter, times } from '../standing-clock.ts';
import { serve } from './application.ts';

const two = times('two', 2);
const nine = times('nine', 9);

function throws(error: unknown): Middleware {
  return () => {
    throw error;
  };
}

test('an error that a later middleware throws keeps the headers', async () => {
  const { get } = await serve(rateLimit({ limiter: stoppedLimiter(), policies: two }), (context) =>
    context.throw(403, 'not you', { headers: { 'x-reason': 'mood' } }),
  );

  const [first, , third] = [await get(), await get(), await get()];

  expect(first).toMatchObject({ status: 403, body: 'not you' });
  expect(first.headers).toMatchObject({
    'x-reason': 'mood',
    ratelimit: '"two";r=1;t=1800',
    'ratelimit-policy': '"two";q=2;w=3600',
    'x-ratelimit-limit': '2',
    'x-ratelimit-remaining': '1',
    'x-ratelimit-reset': '1800',
  });
  expect(third.status).toBe(429);
});

test('so does one that is a mistake in the program, and it stays the error that it was', async () => {
  const failure = new TypeError('broken');
  const { get, errors } = await serve(
    rateLimit({ limiter: stoppedLimiter(), policies: two }),
    throws(failure),
  );

  expect(await get()).toMatchObject({ status: 500, headers: { ratelimit: '"two";r=1;t=1800' } });
  expect(errors).toEqual([failure]);
  expect(errors[0]).toBe(failure);
});

test('behind several limiters the error has the headers of all that let it pass', async () => {
  const limiter = stoppedLimiter();
  const { get } = await serve(
    rateLimit({ limiter, policies: two, headers: ['draft', 'legacy'] }),
    rateLimit({ limiter, policies: nine, headers: ['draft', 'legacy'] }),
    throws(new Error('broken')),
  );

  expect((await get()).headers).toMatchObject({
    ratelimit: '"two";r=1;t=1800, "nine";r=8;t=400',
    'ratelimit-policy': '"two";q=2;w=3600, "nine";q=9;w=3600',
    'x-ratelimit-limit': '2',
    'x-ratelimit-remaining': '1',
  });
});

test('an error that is thrown again and again tells every client its own numbers', async () => {
  const headers = Object.freeze({ 'x-reason': 'mood' });
  const { get } = await serve(
    rateLimit({ limiter: stoppedLimiter(), policies: nine }),
    throws(Object.assign(new Error('broken'), { headers })),
  );

  const [first, second] = [await get(), await get()];

  expect(first.headers).toMatchObject({ 'x-ratelimit-remaining': '8', 'x-reason': 'mood' });
  expect(second.headers).toMatchObject({ 'x-ratelimit-remaining': '7', 'x-reason': 'mood' });
  expect(headers).toEqual({ 'x-reason': 'mood' });
});

test.each([
  ['cannot be changed', Object.freeze(Object.assign(new Error('broken'), { status: 418 }))],
  [
    'has headers that cannot be changed',
    Object.defineProperty(new Error('broken'), 'headers', { value: {} }),
  ],
  ['has something else for headers', Object.assign(new Error('broken'), { headers: null })],
  ['has a text for headers', Object.assign(new Error('broken'), { headers: 'none' })],
  ['is a text', 'broken'],
  ['is nothing', undefined],
])('an error that %s is thrown on as it is', async (_, failure) => {
  const caught: unknown[] = [];
  const { get } = await serve(
    async (context, next) => {
      await next().catch((error: unknown) => caught.push(error));
      context.body = 'handled';
    },
    rateLimit({ limiter: stoppedLimiter(), policies: nine }),
    throws(failure),
  );

  const reply = await get();

  expect(reply).toMatchObject({ status: 200, body: 'handled' });
  expect(reply.headers['x-ratelimit-remaining']).toBe('8'); // the one who handles an error keeps the headers anyway
  expect(caught).toHaveLength(1);
  expect(caught[0]).toBe(failure);
});

test('a header that the application takes back does not return with an error', async () => {
  const { get } = await serve(
    rateLimit({ limiter: stoppedLimiter(), policies: nine }),
    (context, next) => {
      context.remove('RateLimit-Policy');
      return next();
    },
    throws(new Error('broken')),
  );

  const { headers } = await get();

  expect(headers['ratelimit']).toBe('"nine";r=8;t=400');
  expect(headers).not.toHaveProperty('ratelimit-policy');
});

test('an error of a request that was not counted is left alone', async () => {
  const failure = new Error('broken');
  const { get } = await serve(
    rateLimit({ limiter: stoppedLimiter(), policies: nine, skip: () => true }),
    throws(failure),
  );

  expect((await get()).headers).not.toHaveProperty('ratelimit');
  expect(failure).not.toHaveProperty('headers');
});

test('what a key function throws goes where the errors of the application go', async () => {
  const failure = Object.assign(new Error('who are you?'), { status: 401, expose: true });
  const key = vi.fn<() => Promise<string>>().mockRejectedValueOnce(failure).mockRejectedValueOnce('broken');
  const { get, errors } = await serve(rateLimit({ limiter: stoppedLimiter(), policies: nine, key }));

  expect(await get()).toMatchObject({ status: 401, body: 'who are you?' });
  expect(await get()).toMatchObject({ status: 500, body: 'Internal Server Error' });
  expect(errors[0]).toBe(failure);
  expect(errors[1]).toMatchObject({ message: 'rateLimit() failed', cause: 'broken' });
});
