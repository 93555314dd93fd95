// A Fastify application with a limit for everyone, other numbers for some routes, and a limit for one context.
import fastify from 'fastify';
import { createLimiter, tokenBucket } from 'spillgate';
import { rateLimit } from 'spillgate/fastify';

const limiter = createLimiter();
const api = tokenBucket({ name: 'api', average: 10, period: '1h' });
const admin = tokenBucket({ name: 'admin', average: 1, period: '1h' });

const app = fastify();
app.register(rateLimit({ limiter, policies: api }));
app.get('/health', { config: { rateLimit: false } }, () => 'fine');
app.get('/report', { config: { rateLimit: { cost: 8 } } }, () => 'a lot of work');
app.register(async (context) => {
  await context.register(rateLimit({ limiter, policies: admin }));
  context.get('/admin/users', () => ['ann', 'bob']);
});
app.addHook('onClose', () => limiter.close());

const origin = await app.listen({ port: 0, host: '127.0.0.1' });
const paths = ['/health', '/report', '/report', '/admin/users', '/admin/users', '/nowhere'];
for (const path of paths) {
  const { status, headers } = await fetch(origin + path);
  console.log(`GET ${path}: ${status}, left: ${headers.get('x-ratelimit-remaining') ?? 'unlimited'}`);
}

await app.close();
