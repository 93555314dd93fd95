// What docs/http.md advises for browsers on other origins.
import { Hono } from 'hono';
import { cors } from 'hono/cors';
import { expect, test } from 'vitest';
import { rateLimit } from '../../../src/adapters/hono.ts';
import { createLimiter, tokenBucket } from '../../../src/index.ts';
import { virtualClock } from '../../../src/testing/index.ts';

const ORIGIN = 'https://app.example.com';
const api = tokenBucket({ name: 'api', average: 1, period: '1m' });

test('behind a CORS middleware preflights cost nothing, and a page can read its refusal', async () => {
  const app = new Hono();
  const limiter = createLimiter({ clock: virtualClock() });
  app.use(cors({ origin: ORIGIN }));
  app.use(rateLimit({ limiter, policies: api, key: () => 'ann', exposeHeaders: true }));
  app.get('/', (context) => context.text('hello'));
  const headers = { Origin: ORIGIN, 'Access-Control-Request-Method': 'GET' };
  for (let sent = 0; sent < 3; sent += 1) {
    expect((await app.request('/', { method: 'OPTIONS', headers })).status).toBe(204);
  }

  const admitted = await app.request('/', { headers });
  const refused = await app.request('/', { headers });

  expect([admitted.status, refused.status]).toEqual([200, 429]);
  expect(refused.headers.get('access-control-allow-origin')).toBe(ORIGIN);
  expect(refused.headers.get('access-control-expose-headers')).toContain('Retry-After');
});

test('without one, preflights that are skipped cost nothing', async () => {
  const app = new Hono();
  const limiter = createLimiter({ clock: virtualClock() });
  app.use(
    rateLimit({ limiter, policies: api, key: () => 'ann', skip: ({ req }) => req.method === 'OPTIONS' }),
  );
  app.all('/', (context) => context.text('hello'));

  await app.request('/', { method: 'OPTIONS' });

  expect((await app.request('/')).status).toBe(200);
  expect((await app.request('/')).status).toBe(429);
});
