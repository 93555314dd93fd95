// A Hono application with a limit for everyone and one for each user of a route.
import { once } from 'node:events';
import { createAdaptorServer } from '@hono/node-server';
import { Hono } from 'hono';
import { createLimiter, slidingWindowLog, tokenBucket } from 'spillgate';
import { rateLimit } from 'spillgate/hono';

const limiter = createLimiter();
const api = tokenBucket({ name: 'api', average: 100, period: '1h' });
const orders = slidingWindowLog({ name: 'orders', quota: 2, window: '1h' });

const app = new Hono();
app.use(rateLimit({ limiter, policies: api, headers: 'draft' }));
app.post(
  '/orders',
  rateLimit({ limiter, policies: orders, headers: 'draft', key: (context) => context.req.header('x-user') }),
  (context) => context.json({ ordered: true }, 201),
);

const server = createAdaptorServer({ fetch: app.fetch }).listen(0, '127.0.0.1');
await once(server, 'listening');
const address = server.address();
const port = typeof address === 'object' ? address?.port : address;

for (const user of ['ann', 'ann', 'ann', 'bob']) {
  const response = await fetch(`http://127.0.0.1:${port}/orders`, {
    method: 'POST',
    headers: { 'x-user': user },
  });
  const left = [...(response.headers.get('RateLimit') ?? '').matchAll(/"(\w+)";r=(\d+)/g)];
  console.log(
    `${user}: ${response.status}, left: ${left.map(([, name, count]) => `${name} ${count}`).join(', ')}`,
  );
}

server.close();
await limiter.close();
