// What is written here compiles without annotations, casts or type parameters in an application of Koa 3.
import Koa, { type Context, type Middleware, type ParameterizedContext } from 'koa';
import { expect, expectTypeOf, test } from 'vitest';
import { rateLimit } from '../../../src/adapters/koa.ts';
import { stoppedLimiter, times } from '../standing-clock.ts';
import { serve } from './application.ts';

const limiter = stoppedLimiter();
const nine = times('nine', 9);

test('a function that names no type knows what every context has', async () => {
  const { get } = await serve(
    rateLimit({
      limiter,
      policies: nine,
      key: (context) => [context.get('x-user'), context.ip, context.method, context.query['n']].join(' '),
      skip: ({ path, state }) => path === '/free' || 'free' in state,
      cost: ({ req }) => (req.headers['x-cost'] === undefined ? 1 : 2),
    }),
  );

  expect((await get()).headers['x-ratelimit-remaining']).toBe('8');
  expect((await get({ path: '/free' })).headers).not.toHaveProperty('x-ratelimit-remaining');
});

test('a function may name the type of the context that it wants', async () => {
  const tenant = (context: Context): string => context.hostname;
  const { get } = await serve(
    rateLimit({ limiter, policies: nine, key: tenant, skip: (context) => context.secure }),
  );

  expect((await get()).headers['x-ratelimit-remaining']).toBe('8');
});

test('a middleware of rateLimit() fits where Koa takes one, with a state of its own too', async () => {
  interface State {
    user?: string;
  }
  const app = new Koa<State>();
  app.use(rateLimit({ limiter, policies: nine }));
  app.use(
    rateLimit({
      limiter,
      policies: nine,
      key: (context: ParameterizedContext<State>) => context.state.user,
    }),
  );

  expectTypeOf(rateLimit({ limiter, policies: nine })).toExtend<Middleware>();
  expect(app.middleware).toHaveLength(2);
});
