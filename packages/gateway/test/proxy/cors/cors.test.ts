import { expect, test } from 'vitest';
import { runGateway, type RunningGateway } from '../../runtime/running-gateway.ts';
import { exchange, startOrigin } from '../rig.ts';

const APP = 'https://app.example.com';

async function corsGateway(cors: string, respond?: Parameters<typeof startOrigin>[0]) {
  const origin = await startOrigin(respond);
  const gateway = await runGateway(`
backend: { url: "${origin.url}" }
cors: ${cors}
rate_limit:
  policies: { two: { algorithm: fixedWindow, quota: 2, window: 1h } }
  rules:
    - { name: writes, match: { path: /items, method: POST }, policies: [two] }
    - { name: rest, policies: [two], deny: { keys: [] } }
`);
  return { origin, ...gateway };
}

function preflight({ ask }: RunningGateway, headers: Readonly<Record<string, string>> = {}) {
  return ask('/items', {
    method: 'OPTIONS',
    headers: {
      Origin: APP,
      'Access-Control-Request-Method': 'POST',
      'Access-Control-Request-Headers': 'authorization, content-type',
      ...headers,
    },
  });
}

test('preflights are answered by the gateway and cost nothing', async () => {
  const gateway = await corsGateway(`{ allowed_origins: ["${APP}"], allow_credentials: true, max_age: 5m }`);

  const answers = await Promise.all(Array.from({ length: 5 }, async () => preflight(gateway)));
  const { status } = await gateway.ask('/items', { method: 'POST', headers: { Origin: APP } });

  expect(answers.map((answer) => answer.status)).toEqual([204, 204, 204, 204, 204]);
  expect(answers[0]?.headers).toMatchObject({
    'access-control-allow-origin': APP,
    'access-control-allow-credentials': 'true',
    'access-control-allow-methods': 'GET, HEAD, POST, PUT, PATCH, DELETE',
    'access-control-allow-headers': 'authorization, content-type',
    'access-control-max-age': '300',
    vary: 'Origin, Access-Control-Request-Method, Access-Control-Request-Headers',
  });
  expect(answers[0]?.headers).not.toHaveProperty('content-length');
  expect(status).toBe(200);
  expect(gateway.origin.requests.map(({ method }) => method)).toEqual(['POST']);
  expect(gateway.gateway.summary().requests).toMatchObject({ answered: 5, forwarded: 1 });
});

test.each([
  ['another origin', { Origin: 'https://evil.example' }],
  ['an origin that only begins alike', { Origin: `${APP}.evil.example` }],
  ['the origin of sandboxed pages', { Origin: 'null' }],
  ['another method', { 'Access-Control-Request-Method': 'PURGE' }],
  ['another header', { 'Access-Control-Request-Headers': 'content-type, x-admin' }],
  ['headers that are none', { 'Access-Control-Request-Headers': 'a b' }],
])('a preflight for %s gets a 403, and nothing that a browser would obey', async (_, headers) => {
  const gateway = await corsGateway(
    `{ allowed_origins: ["${APP}"], allowed_headers: [Authorization, Content-Type] }`,
  );

  const answer = await preflight(gateway, headers);

  expect(answer.status).toBe(403);
  expect(JSON.parse(answer.body)).toMatchObject({ code: 'CORS_NOT_ALLOWED' });
  expect(answer.headers).not.toHaveProperty('access-control-allow-methods');
  expect(gateway.origin.requests).toEqual([]);
});

test('pages can read a 429 of the gateway, and what it says about limits', async () => {
  const gateway = await corsGateway(`{ allowed_origins: ["${APP}"], exposed_headers: [X-Total] }`);
  const page = async () => gateway.ask('/', { headers: { Origin: APP } });
  await page();
  await page();

  const refused = await page();

  expect(refused.status).toBe(429);
  expect(refused.headers).toMatchObject({
    'access-control-allow-origin': APP,
    'access-control-expose-headers':
      'RateLimit, RateLimit-Policy, X-RateLimit-Limit, X-RateLimit-Remaining, X-RateLimit-Reset, X-RateLimit-Retry-After, Retry-After, X-Request-Id, X-Total',
    vary: 'Origin',
  });
  expect(Number(refused.headers['retry-after'])).toBeGreaterThan(0);
});

test('answers to malformed requests have the headers too, and so have refused upgrades', async () => {
  const { port, ask } = await corsGateway(`{ allowed_origins: ["${APP}"] }`);
  await ask();
  await ask();

  const malformed = await exchange(port, `GET /../.. HTTP/1.1\r\nHost: a\r\nOrigin: ${APP}\r\n\r\n`);
  const upgrade = await exchange(
    port,
    `GET / HTTP/1.1\r\nHost: a\r\nOrigin: ${APP}\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n`,
  );

  expect(malformed.statuses).toEqual([400]);
  expect(malformed.text).toContain(`Access-Control-Allow-Origin: ${APP}\r\n`);
  expect(upgrade.statuses).toEqual([429]);
  expect(upgrade.text).toContain(`Access-Control-Allow-Origin: ${APP}\r\n`);
});

test('a page of another origin gets its response without the headers, and caches keep the two apart', async () => {
  const { ask } = await corsGateway(`{ allowed_origins: ["${APP}"] }`);

  const { status, headers } = await ask('/', { headers: { Origin: 'https://evil.example' } });

  expect(status).toBe(200);
  expect(headers).not.toHaveProperty('access-control-allow-origin');
  expect(headers.vary).toBe('Origin');
});

test('what a backend says about CORS is replaced where the gateway handles it', async () => {
  const { ask } = await corsGateway(`{ allowed_origins: ["${APP}"] }`, (_, response) => {
    response.writeHead(200, {
      'Access-Control-Allow-Origin': '*',
      'access-control-allow-credentials': 'true',
      Vary: 'Accept',
    });
    response.end();
  });

  const own = await ask('/', { headers: { Origin: APP } });
  const foreign = await ask('/', { headers: { Origin: 'https://evil.example' } });

  expect(own.headers['access-control-allow-origin']).toBe(APP);
  expect(own.headers).not.toHaveProperty('access-control-allow-credentials');
  expect(own.headers.vary).toBe('Accept, Origin');
  expect(foreign.headers).not.toHaveProperty('access-control-allow-origin');
});

test('a name below a domain is meant by *., the domain itself and others are not', async () => {
  const gateway = await corsGateway('{ allowed_origins: ["https://*.example.com"] }');
  const statusFor = async (origin: string) => (await preflight(gateway, { Origin: origin })).status;

  expect(await statusFor('https://a.example.com')).toBe(204);
  expect(await statusFor('https://a.b.example.com')).toBe(204);
  expect(await statusFor('https://example.com')).toBe(403);
  expect(await statusFor('http://a.example.com')).toBe(403);
  expect(await statusFor('https://.example.com')).toBe(403);
  expect(await statusFor('https://evil.example/.example.com')).toBe(403);
  expect(await statusFor('https://a.example.com:8443')).toBe(403);
});

test('every origin may be allowed, without credentials', async () => {
  const { ask } = await corsGateway('{ allowed_origins: ["*"] }');

  const { headers } = await ask('/', { headers: { Origin: 'https://anybody.example' } });

  expect(headers['access-control-allow-origin']).toBe('*');
  expect(headers).not.toHaveProperty('vary');
});

test('preflights for a backend that handles CORS reach it uncounted', async () => {
  const gateway = await corsGateway(
    `{ allowed_origins: ["${APP}"], handled_by: backend }`,
    (request, response) => {
      response.writeHead(request.method === 'OPTIONS' ? 204 : 200, { 'Access-Control-Allow-Origin': APP });
      response.end();
    },
  );

  const answers = await Promise.all(Array.from({ length: 5 }, async () => preflight(gateway)));
  const post = async () => gateway.ask('/items', { method: 'POST', headers: { Origin: APP } });
  const [first, second, third] = [await post(), await post(), await post()];

  expect(answers.map(({ status }) => status)).toEqual([204, 204, 204, 204, 204]);
  expect(answers[0]?.headers).not.toHaveProperty('ratelimit');
  expect(gateway.origin.requests.filter(({ method }) => method === 'OPTIONS')).toHaveLength(5);
  expect([first, second, third].map(({ status }) => status)).toEqual([200, 200, 429]);
  expect(first.headers['access-control-expose-headers']).toContain('RateLimit');
  expect(third.headers['access-control-allow-origin']).toBe(APP);
  // It is recorded under the rule of the request that it announces.
  expect(gateway.gateway.summary().rules).toContainEqual({
    rule: 'writes',
    requests: expect.objectContaining({ forwarded: 7, refused: 1 }) as unknown,
  });
});

test('an OPTIONS request that is not a preflight is counted like any other', async () => {
  const { ask, origin } = await corsGateway(`{ allowed_origins: ["${APP}"] }`);
  const options = async () => (await ask('/', { method: 'OPTIONS', headers: { Origin: APP } })).status;

  expect([await options(), await options(), await options()]).toEqual([200, 200, 429]);
  expect(origin.requests).toHaveLength(2);
});

test('deny lists hold for preflights that are passed on', async () => {
  const origin = await startOrigin();
  const gateway = await runGateway(`
backend: { url: "${origin.url}" }
cors: { allowed_origins: ["${APP}"], handled_by: backend }
rate_limit: { deny: { cidrs: ["127.0.0.1/32"] } }
`);

  const { status, headers } = await preflight(gateway);

  expect(status).toBe(403);
  expect(headers['access-control-allow-origin']).toBe(APP);
  expect(origin.requests).toEqual([]);
});
