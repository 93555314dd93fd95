// What is written here compiles without annotations, casts or type parameters in an application of Fastify 5.
import fastify, { type FastifyPluginAsync, type FastifyPluginCallback, type FastifyRequest } from 'fastify';
import { expect, expectTypeOf, test } from 'vitest';
import { rateLimit, type RouteRateLimit } from '../../../src/adapters/fastify.ts';
import { stoppedLimiter, times } from '../standing-clock.ts';
import { application, statuses } from './application.ts';

const limiter = stoppedLimiter();
const nine = times('nine', 9);

test('a function that names no type knows what every request has', async () => {
  const app = application();
  app.register(
    rateLimit({
      limiter,
      policies: nine,
      key: ({ headers, ip, id, method }) => [headers['x-user'], ip, id, method].join(' '),
      cost: (request) => (request.is404 ? 9 : 1),
      skip: ({ url, routeOptions }) => url === '/' || routeOptions.url === '/:id',
      override: ({ query, params, body }) => (query === params || body === params ? nine : undefined),
      hook: 'preHandler',
    }),
  );
  app.get('/', () => 'hello');

  expect(await statuses(app, 1, '/')).toEqual([200]);
  expect(await statuses(app, 1, '/nowhere')).toEqual([404]);
});

test('a function may name the type of the request that it wants', async () => {
  interface Search {
    Querystring: { user: string };
  }
  const app = application();
  const key = (request: FastifyRequest<Search>): string => request.query.user;
  app.register(rateLimit({ limiter, policies: nine, key, skip: (request) => request.query.user === 'root' }));
  app.get<Search>('/', ({ query }) => query.user);

  expect((await app.inject('/?user=ann')).headers['x-ratelimit-remaining']).toBe('8');
  expect((await app.inject('/?user=root')).headers).not.toHaveProperty('x-ratelimit-remaining');
});

test('the plugin fits every kind of application, and where a plugin is asked for', async () => {
  const limits = rateLimit({ limiter, policies: nine });
  expectTypeOf(limits).toExtend<FastifyPluginCallback>();
  const routes: FastifyPluginAsync = async (context) => {
    await context.register(limits);
  };

  const plain = fastify({ logger: { level: 'silent' } });
  await plain.register(routes);
  const typed = fastify().withTypeProvider();
  await typed.register(limits, { prefix: '/api' });
  const http2 = fastify({ http2: true });
  await http2.register(limits);
  const https = fastify({ https: {} });
  await https.register(limits);

  expect(plain.hasPlugin('spillgate')).toBe(false); // it stays in the context of the routes
  expect([typed, http2, https].map((app) => app.hasPlugin('spillgate'))).toEqual([true, true, true]);
});

test('the options of a route are checked by their type', () => {
  const own = { cost: 3, policies: [nine], key: { header: 'x-user' } } satisfies RouteRateLimit;

  // @ts-expect-error -- the hook belongs to the registration
  const wrong: RouteRateLimit = { hook: 'preHandler' };
  const named: RouteRateLimit<FastifyRequest> = { skip: (request) => request.hostname === 'localhost' };

  expect([own, wrong, named]).toHaveLength(3);
});
