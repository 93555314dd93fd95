import type { FastifyInstance } from 'fastify';
import { expect, test } from 'vitest';
import { rateLimit, type LimitedRequest, type RouteRateLimit } from '../../../src/adapters/fastify.ts';
import type { LimiterError } from '../../../src/index.ts';
import { stoppedLimiter, times } from '../standing-clock.ts';
import { application, statuses } from './application.ts';

const one = times('one', 1);
const two = times('two', 2);
const three = times('three', 3);
const four = times('four', 4);
const own = times('own', 9);

/** A route with `config.rateLimit`. */
function route(context: FastifyInstance, path: string, limits?: RouteRateLimit | false): void {
  context.get(path, limits === undefined ? {} : { config: { rateLimit: limits } }, () => 'hello');
}

/** The names of the policies that a response tells of. */
async function toldOf(app: FastifyInstance, path: string): Promise<string[]> {
  const told = (await app.inject(path)).headers['ratelimit'] ?? '';
  return [...String(told).matchAll(/"(\w+)"/g)].map(([, name = '']) => name);
}

test('a route replaces what it names and keeps the rest', async () => {
  const app = application();
  const key = (request: LimitedRequest): string => String(request.headers['x-user']);
  app.register(rateLimit({ limiter: stoppedLimiter(), policies: three, key, headers: 'draft' }));
  route(app, '/usual');
  route(app, '/tight', { policies: one });
  route(app, '/dear', { cost: 2 });
  route(app, '/both', { policies: [three, two] });
  const ann = { headers: { 'x-user': 'ann' } };

  expect(await statuses(app, 2, { ...ann, url: '/tight' })).toEqual([200, 429]);
  expect(await statuses(app, 1, { headers: { 'x-user': 'bob' }, url: '/tight' })).toEqual([200]);
  expect((await app.inject({ ...ann, url: '/usual' })).headers['ratelimit']).toBe('"three";r=2;t=1200');
  expect((await app.inject({ ...ann, url: '/dear' })).headers['ratelimit']).toBe('"three";r=0;t=1200');
  expect((await app.inject({ ...ann, url: '/both' })).headers).toMatchObject({
    ratelimit: '"three";r=0;t=1200, "two";r=2;t=0',
  });
  expect((await app.inject({ ...ann, url: '/both' })).headers).not.toHaveProperty('x-ratelimit-limit');
});

test('false switches off all limits of a route', async () => {
  const app = application();
  const limiter = stoppedLimiter();
  app.register(rateLimit({ limiter, policies: one }));
  route(app, '/health', false);
  app.register(async (child) => {
    child.register(rateLimit({ limiter, policies: two }));
    route(child, '/child/health', false);
  });

  expect(await statuses(app, 3, '/health')).toEqual([200, 200, 200]);
  expect(await statuses(app, 3, '/child/health')).toEqual([200, 200, 200]);
  expect((await app.inject('/child/health')).headers).not.toHaveProperty('ratelimit');
});

test('the HEAD of a route has the limits of the route', async () => {
  const app = application();
  app.register(rateLimit({ limiter: stoppedLimiter(), policies: four }));
  route(app, '/tight', { policies: two });
  const head = { method: 'HEAD', url: '/tight' } as const;

  expect(await statuses(app, 1, '/tight')).toEqual([200]);
  expect(await statuses(app, 1, head)).toEqual([200]);
  const denied = await app.inject(head);

  expect(denied.statusCode).toBe(429);
  expect(denied.body).toBe('');
  expect(denied.headers).toMatchObject({ 'retry-after': '1800', ratelimit: '"two";r=0;t=1800' });
});

test('the options of a route are for the registration closest to it; the ones around stay', async () => {
  const app = application();
  const limiter = stoppedLimiter();
  app.register(rateLimit({ limiter, policies: four }));
  route(app, '/outside', { policies: one });
  app.register(async (inner) => {
    inner.register(rateLimit({ limiter, policies: three }));
    route(inner, '/inside');
    route(inner, '/changed', { policies: two });
    inner.register(async (deep) => route(deep, '/deep', { policies: two }));
  });

  expect(await toldOf(app, '/outside')).toEqual(['one']);
  expect(await toldOf(app, '/inside')).toEqual(['four', 'three']);
  expect(await toldOf(app, '/changed')).toEqual(['four', 'two']);
  expect(await toldOf(app, '/deep')).toEqual(['four', 'two']);
});

test('of several registrations in one context the options of a route are for the last', async () => {
  const app = application();
  const limiter = stoppedLimiter();
  app.register(rateLimit({ limiter, policies: four }));
  app.register(async (early) => {
    route(early, '/early', { policies: own });
    early.register(async (inner) => {
      inner.register(rateLimit({ limiter, policies: two }));
      route(inner, '/inner', { policies: own });
    });
  });
  app.register(rateLimit({ limiter, policies: three }));
  route(app, '/root', { policies: own });

  expect(await toldOf(app, '/root')).toEqual(['four', 'own']);
  // Fastify hands later hooks on to contexts that exist already.
  expect(await toldOf(app, '/early')).toEqual(['four', 'own']);
  expect((await toldOf(app, '/inner')).toSorted()).toEqual(['four', 'own', 'three']);
});

const MISTAKES: readonly (readonly [string, unknown, string])[] = [
  ['true', true, 'config.rateLimit of a route is true; expected options such as { cost: 5 }, or false'],
  ['null', null, 'config.rateLimit of a route is null; expected options'],
  ['an option that does not exist', { max: 3 }, 'The options of rateLimit() do not include "max"'],
  ['the hook', { hook: 'preHandler' }, 'The options of rateLimit() do not include "hook"'],
  ['a wrong value', { cost: -1 }, 'cost is -1; expected an integer >= 0'],
];

/** As somebody without the types may write it. */
function routeConfig(rateLimitOfRoute: unknown): object {
  return { rateLimit: rateLimitOfRoute };
}

test.each(MISTAKES)('%s in the config of a route shows when it is declared', async (_, config, message) => {
  const app = application();
  await app.register(rateLimit({ limiter: stoppedLimiter(), policies: one }));

  const declare = (): unknown => app.get('/', { config: routeConfig(config) }, () => 'hello');

  expect(declare).toThrow(expect.objectContaining({ code: 'INVALID_OPTION' }));
  expect(declare).toThrow(message);
});

test.each(MISTAKES)(
  '%s in a route that was declared too early for that is an error and no admission',
  async (_, config, message) => {
    const app = application();
    let served = 0;
    app.get('/', { config: routeConfig(config) }, () => (served += 1));
    app.register(rateLimit({ limiter: stoppedLimiter(), policies: one }));

    const reply = await app.inject('/');

    expect(reply.statusCode).toBe(500);
    expect(reply.json()).toMatchObject({ message: expect.stringContaining(message) });
    expect(served).toBe(0);
  },
);

test('the options of a route are read once and not with every request', async () => {
  const app = application();
  let reads = 0;
  const counted = {
    get cost(): number {
      reads += 1;
      return 1;
    },
  };
  app.register(rateLimit({ limiter: stoppedLimiter(), policies: two }));
  route(app, '/', counted);
  await app.inject('/');
  const readsBefore = reads;

  expect(await statuses(app, 2, '/')).toEqual([200, 429]);
  expect(reads).toBe(readsBefore);
});

test('a missing proxy is warned of once, however many routes have options of their own', async () => {
  const app = application();
  const warnings: string[] = [];
  const onProxyWarning = ({ code }: LimiterError): number => warnings.push(code);
  app.register(rateLimit({ limiter: stoppedLimiter(), policies: four, onProxyWarning }));
  route(app, '/');
  route(app, '/a', { policies: three });
  route(app, '/b', { policies: two });

  const headers = { 'x-forwarded-for': '192.0.2.1' };
  for (const url of ['/', '/a', '/b']) await app.inject({ url, headers });

  expect(warnings).toEqual(['PROXY_NOT_TRUSTED']);
});
