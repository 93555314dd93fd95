// A fetch handler as edge platforms call it, without any server: limited by API key, with answers of its own.
import { createLimiter, tokenBucket } from 'spillgate';
import { rateLimit } from 'spillgate/fetch';

const limiter = createLimiter();
const limit = rateLimit({
  limiter,
  policies: tokenBucket({ name: 'api', average: 10, period: '1h' }),
  key: { header: 'x-api-key' },
  cost: (request) => (new URL(request.url).pathname === '/report' ? 8 : 1),
  answer: ({ reason }) => (reason === 'limited' ? { body: 'Slow down.' } : undefined),
});

const handle = limit((request: Request, environment: { readonly region: string }) =>
  Response.json({ path: new URL(request.url).pathname, region: environment.region }),
);

await show('/report', 'ann');
await show('/report', 'ann');
await show('/', 'ann');
await show('/report', 'bob');
await limiter.close();

async function show(path: string, key: string): Promise<void> {
  const request = new Request(`http://localhost${path}`, { headers: { 'x-api-key': key } });
  const response = await handle(request, { region: 'eu' });
  const left = response.headers.get('x-ratelimit-remaining');
  console.log(`${key} ${path}: ${response.status} ${await response.text()} (left: ${left})`);
}
