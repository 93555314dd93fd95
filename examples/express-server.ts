// An Express application with a limit for everyone and a tighter one for the login.
import { once } from 'node:events';
import { createServer } from 'node:http';
import express from 'express';
import { createLimiter, slidingWindowLog, tokenBucket } from 'spillgate';
import { rateLimit } from 'spillgate/express';

const limiter = createLimiter();
const api = tokenBucket({ name: 'api', average: 100, period: '1m' });
const login = slidingWindowLog({ name: 'login', quota: 2, window: '15m' });

const app = express();
app.use(rateLimit({ limiter, policies: api }));
app.post('/login', rateLimit({ limiter, policies: login }), (_request, response) => {
  response.send('welcome');
});

const server = createServer(app).listen(0, '127.0.0.1');
await once(server, 'listening');
const address = server.address();
const port = typeof address === 'object' ? address?.port : address;

for (const attempt of [1, 2, 3]) {
  const { status, headers } = await fetch(`http://127.0.0.1:${port}/login`, { method: 'POST' });
  console.log(`login ${attempt}: ${status}, left: ${headers.get('x-ratelimit-remaining')}`);
}

server.close();
server.closeAllConnections();
await limiter.close();
