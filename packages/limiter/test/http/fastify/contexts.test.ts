import type { FastifyInstance } from 'fastify';
import { expect, test } from 'vitest';
import { rateLimit } from '../../../src/adapters/fastify.ts';
import { stoppedLimiter, times } from '../standing-clock.ts';
import { application, statuses } from './application.ts';

const one = times('one', 1);
const two = times('two', 2);
const three = times('three', 3);

function hello(context: FastifyInstance, ...paths: string[]): void {
  for (const path of paths) context.get(path, () => 'hello');
}

test('what is registered in a context limits this context and its children, and nothing else', async () => {
  const app = application();
  hello(app, '/parent');
  app.register(async (limited) => {
    limited.register(rateLimit({ limiter: stoppedLimiter(), policies: two }));
    hello(limited, '/limited');
    limited.register(async (child) => hello(child, '/child'));
  });
  app.register(async (sibling) => hello(sibling, '/sibling'));

  expect(await statuses(app, 3, '/parent')).toEqual([200, 200, 200]);
  expect(await statuses(app, 3, '/sibling')).toEqual([200, 200, 200]);
  expect(await statuses(app, 1, '/limited')).toEqual([200]);
  expect(await statuses(app, 2, '/child')).toEqual([200, 429]);
  expect((await app.inject('/sibling')).headers).not.toHaveProperty('ratelimit');
});

test('routes are limited wherever they stand in their context', async () => {
  const app = application();
  hello(app, '/before');
  app.register(rateLimit({ limiter: stoppedLimiter(), policies: two }));
  hello(app, '/right-after');
  await app.after();
  hello(app, '/later');

  expect((await app.inject('/before')).headers['x-ratelimit-remaining']).toBe('1');
  expect((await app.inject('/right-after')).headers['x-ratelimit-remaining']).toBe('0');
  expect((await app.inject('/later')).statusCode).toBe(429);
});

test('a context has to meet its own limits and those around it, and is told of all', async () => {
  const app = application();
  const limiter = stoppedLimiter();
  app.register(rateLimit({ limiter, policies: three }));
  hello(app, '/outside');
  app.register(async (inner) => {
    inner.register(rateLimit({ limiter, policies: one }));
    hello(inner, '/inside');
  });

  const reply = await app.inject('/inside');

  expect(reply.headers).toMatchObject({
    'ratelimit-policy': '"three";q=3;w=3600, "one";q=1;w=3600',
    ratelimit: '"three";r=2;t=1200, "one";r=0;t=3600',
    'x-ratelimit-limit': '1',
  });
  expect(await statuses(app, 1, '/inside')).toEqual([429]);
  expect(await statuses(app, 2, '/outside')).toEqual([200, 429]);
});

test('one plugin may be registered in several contexts, which then share its limits', async () => {
  const app = application();
  const limits = rateLimit({ limiter: stoppedLimiter(), policies: two });
  for (const prefix of ['/a', '/b']) {
    app.register(
      async (context) => {
        context.register(limits);
        hello(context, '/');
      },
      { prefix },
    );
  }

  expect(await statuses(app, 1, '/a/')).toEqual([200]);
  expect(await statuses(app, 2, '/b/')).toEqual([200, 429]);
});

test('requests that meet no route are limited, with the handler of Fastify and with one of your own', async () => {
  const plain = application();
  plain.register(rateLimit({ limiter: stoppedLimiter(), policies: one }));
  const own = application();
  own.register(rateLimit({ limiter: stoppedLimiter(), policies: one }));
  own.setNotFoundHandler((_request, reply) => reply.code(404).send('nothing here'));

  for (const app of [plain, own]) {
    expect((await app.inject('/guess')).headers['x-ratelimit-remaining']).toBe('0');
    expect(await statuses(app, 1, '/another')).toEqual([429]);
  }
});

test('a context with a not-found handler of its own limits what its handler gets', async () => {
  const app = application();
  app.register(
    async (api) => {
      api.register(rateLimit({ limiter: stoppedLimiter(), policies: one }));
      api.setNotFoundHandler((_request, reply) => reply.code(404).send('nothing here'));
    },
    { prefix: '/api' },
  );

  expect(await statuses(app, 2, '/api/guess')).toEqual([404, 429]);
  expect(await statuses(app, 2, '/guess')).toEqual([404, 404]);
});

test.each(['onRequest', 'preValidation', 'preHandler'] as const)(
  'a request that a handler passes on to the not-found handler is counted once (%s)',
  async (hook) => {
    const app = application();
    app.register(rateLimit({ limiter: stoppedLimiter(), policies: two, hook }));
    app.get('/gone', (_request, reply) => reply.callNotFound());

    expect((await app.inject('/gone')).headers['ratelimit']).toBe('"two";r=1;t=1800');
    expect(await statuses(app, 2, '/gone')).toEqual([404, 429]);
  },
);

test('Fastify knows the plugin by its name, and which versions it is for', async () => {
  const app = application();
  const plugin = rateLimit({ limiter: stoppedLimiter(), policies: one });
  await app.register(plugin);

  expect(app.hasPlugin('spillgate')).toBe(true);
  expect(app.pluginName).toBe('fastify -> spillgate');
  expect(Reflect.get(plugin, Symbol.for('plugin-meta'))).toEqual({ name: 'spillgate', fastify: '>=5.0.0' });
});
