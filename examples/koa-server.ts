// A Koa application that counts its users, and tells them what they have left.
import { once } from 'node:events';
import Koa, { type Context } from 'koa';
import { createLimiter, tokenBucket } from 'spillgate';
import { rateLimit } from 'spillgate/koa';

const limiter = createLimiter();
const perUser = tokenBucket({ name: 'user', average: 2, period: '1h' });

const app = new Koa();
app.use(
  rateLimit({
    limiter,
    policies: perUser,
    key: (context: Context) => context.get('x-user'),
    answer: ({ reason, decision }) =>
      reason === 'noKey'
        ? { status: 401, body: 'sign in' }
        : { body: `come back in ${Math.ceil((decision?.retryAfterMs ?? 0) / 60_000)} min` },
    onDecision: ({ request: context, decision }) => (context.state['left'] = decision.remaining),
  }),
);
app.use((context) => void (context.body = `${context.state['left']} left`));

const server = app.listen(0, '127.0.0.1');
await once(server, 'listening');
const address = server.address();
const port = typeof address === 'object' ? address?.port : address;

for (const user of ['ann', 'ann', 'ann', 'bob', '']) {
  const response = await fetch(`http://127.0.0.1:${port}`, { headers: { 'x-user': user } });
  console.log(`${user || 'nobody'}: ${response.status}, ${await response.text()}`);
}

server.close();
server.closeAllConnections();
await limiter.close();
