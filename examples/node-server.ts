// A node:http server that counts API keys, with requests that cost more than others.
import { once } from 'node:events';
import { createServer, type IncomingMessage } from 'node:http';
import { createLimiter, tokenBucket } from 'spillgate';
import { rateLimit } from 'spillgate/node';

const limiter = createLimiter();
const api = tokenBucket({ name: 'api', average: 10, period: '1h' });

const limit = rateLimit({
  limiter,
  policies: api,
  key: { header: 'x-api-key' },
  cost: (request: IncomingMessage) => (request.url === '/report' ? 8 : 1),
});
const server = createServer((request, response) => limit(request, response, () => response.end('hello')));

server.listen(0, '127.0.0.1');
await once(server, 'listening');
const address = server.address();
const port = typeof address === 'object' ? address?.port : address;

await show('/report', { 'x-api-key': 'ann' });
await show('/report', { 'x-api-key': 'ann' });
await show('/report', { 'x-api-key': 'bob' });
await show('/', {});

server.close();
server.closeAllConnections();
await limiter.close();

async function show(path: string, headers: Record<string, string>): Promise<void> {
  const response = await fetch(`http://127.0.0.1:${port}${path}`, { headers });
  await response.text();
  console.log(
    `${path} ${response.status}, left: ${response.headers.get('x-ratelimit-remaining') ?? 'unknown'}`,
  );
}
