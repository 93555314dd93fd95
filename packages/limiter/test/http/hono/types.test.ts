// Compiled with the types of Hono: what is written here needs no annotation in an application.
import { getConnInfo } from '@hono/node-server/conninfo';
import { Hono, type Context } from 'hono';
import { createMiddleware } from 'hono/factory';
import { expect, test } from 'vitest';
import { rateLimit } from '../../../src/adapters/hono.ts';
import { createLimiter, tokenBucket } from '../../../src/index.ts';
import { startFetch, type Fetch } from '../fetch-server.ts';

interface Users {
  Variables: { user: string };
}

const limiter = createLimiter();
const policies = tokenBucket({ name: 'api', average: 3, period: '1h' });

/** The statuses of two requests for an item. */
async function statuses(fetch: Fetch): Promise<number[]> {
  const running = await startFetch(fetch);
  return running.statuses(2, { path: '/items/7?n=3', headers: { 'x-user': 'ann' } });
}

test('a middleware of rateLimit() fits wherever Hono takes one', async () => {
  const app = new Hono();
  app.use(rateLimit({ limiter, policies, key: (context) => `hono ${context.req.header('x-user')}` }));
  app.use('/items/*', rateLimit({ limiter, policies, key: (context) => context.req.path }));
  app.get(
    '/items/:id',
    rateLimit({ limiter, policies, getConnInfo, cost: (context) => Number(context.req.query('n')) }),
    (context) => context.text('hello'),
  );

  expect(await statuses(app.fetch)).toEqual([200, 429]);
});

test('a function may name the type of the context that it wants', async () => {
  const app = new Hono<Users>();
  const session = createMiddleware<Users>(async (context, next) => {
    context.set('user', 'bob');
    await next();
  });
  const key = (context: Context<Users>): string => context.get('user').toUpperCase();
  app.use(session, rateLimit({ limiter, policies, key, cost: 3, getConnInfo }));
  app.get('/items/:id', (context) => context.text('hello'));

  expect(await statuses(app.fetch)).toEqual([200, 429]);
});

test('what earlier middleware found out is there without a type', async () => {
  const app = new Hono<Users>();
  app.use(async (context, next) => {
    context.set('user', 'carol');
    await next();
  });
  app.use(rateLimit({ limiter, policies, cost: 3, key: (context) => String(context.get('user')) }));
  app.get('/items/:id', (context) => context.text('hello'));

  expect(await statuses(app.fetch)).toEqual([200, 429]);
});
