// A client that does what the server says about its limits: it slows down, and nothing is refused.
import { once } from 'node:events';
import { createServer } from 'node:http';
import { createLimiter, tokenBucket } from 'spillgate';
import { politeFetch } from 'spillgate/client';
import { rateLimit } from 'spillgate/node';

const limiter = createLimiter();
const limit = rateLimit({
  limiter,
  policies: tokenBucket({ name: 'api', average: 2, burst: 4, period: '1s' }),
});
const server = createServer((request, response) => limit(request, response, () => response.end('hello')));

server.listen(0, '127.0.0.1');
await once(server, 'listening');
const address = server.address();
const url = `http://127.0.0.1:${typeof address === 'object' ? address?.port : address}/`;

console.log(`plain:  ${await countStatuses(fetch)}`);
console.log(`polite: ${await countStatuses(politeFetch({ pace: true }))}`);

server.close();
server.closeAllConnections();
await limiter.close();

async function countStatuses(send: (url: string) => Promise<Response>): Promise<string> {
  const responses = await Promise.all(Array.from({ length: 6 }, () => send(url)));
  const passed = responses.filter(({ status }) => status === 200).length;
  return `${passed} of 6 passed`;
}
