import { expect, test } from 'vitest';
import { WebSocket, WebSocketServer } from 'ws';
import { loadConfig } from '../../../src/config/load-config.ts';
import { maskedConfig, secretsOf } from '../../../src/config/effective.ts';
import { runGateway } from '../../runtime/running-gateway.ts';
import { startOrigin } from '../rig.ts';

async function twoBackends(rules: string, settings = '') {
  const [usual, orders] = [await startOrigin(), await startOrigin()];
  const yaml = (of: string): string => `
backend: { url: "${usual.url}"${settings} }
backends: { orders: { url: "${orders.url}" } }
rate_limit:
  policies: { many: { average: 1000 } }
  rules: ${of}
`;
  return { usual, orders, yaml, ...(await runGateway(yaml(rules))) };
}

test('requests go to the backend of their rule, and others to the usual one', async () => {
  const { ask, usual, orders } = await twoBackends(
    '[{ name: orders, match: { path: "/orders/**" }, backend: orders, policies: [many] }]',
  );

  await ask('/orders/7?full=1');
  await ask('/items');

  expect(orders.requests.map(({ url }) => url)).toEqual(['/orders/7?full=1']);
  expect(usual.requests.map(({ url }) => url)).toEqual(['/items']);
});

test.each([
  ['{ strip_prefix: /api }', '/api/items?q=/api', '/items?q=/api', '/api'],
  ['{ strip_prefix: /api }', '/api', '/', '/api'],
  ['{ strip_prefix: /api }', '/api/', '/', '/api'],
  ['{ strip_prefix: /api }', '/apis/items', '/apis/items', undefined],
  ['{ strip_prefix: /api }', '/api;v=1/items', '/api;v=1/items', undefined],
  ['{ strip_prefix: /api/v1 }', '/api/v1/api/v1/x', '/api/v1/x', '/api/v1'],
  ['{ strip_prefix: /api }', '//api/../api/%69tems', '/items', '/api'],
  ['{ add_prefix: /v2 }', '/items', '/v2/items', undefined],
  ['{ add_prefix: /v2 }', '/', '/v2/', undefined],
  ['{ strip_prefix: /api, add_prefix: /v2 }', '/api', '/v2', '/api'],
  ['{ strip_prefix: /api, add_prefix: /v2 }', '/api/items', '/v2/items', '/api'],
  ['{}', '/items', '/items', undefined],
])('with %s the backend gets %s as %s', async (rewrite, path, target, prefix) => {
  const { ask, orders } = await twoBackends(`[{ name: all, backend: orders, rewrite: ${rewrite} }]`);

  await ask(path, { headers: { 'X-Forwarded-Prefix': '/forged' } });

  expect(orders.requests.map(({ url }) => url)).toEqual([target]);
  expect(orders.requests[0]?.header('X-Forwarded-Prefix')).toBe(prefix);
});

test('rules match what the client asked for, not what the backend gets', async () => {
  const { ask, usual } = await twoBackends(
    '[{ name: inner, match: { path: /admin }, deny: { cidrs: [0.0.0.0/0] } }, { name: outer, match: { path: "/api/**" }, rewrite: { strip_prefix: /api } }]',
  );

  const direct = await ask('/admin');
  const rewritten = await ask('/api/admin');

  expect(direct.status).toBe(403);
  expect(rewritten.status).toBe(200);
  expect(usual.requests.map(({ url }) => url)).toEqual(['/admin']);
});

test('headers are set and removed for every request, and for those of a rule', async () => {
  const { ask, usual, orders } = await twoBackends(
    `[{ name: orders, match: { path: /orders }, backend: orders,
        set_request_headers: { X-Env: orders, X-Key: secret, Host: orders.internal },
        remove_request_headers: [Cookie] }]`,
    ', set_request_headers: { X-Env: usual, X-Gateway: here }',
  );
  const headers = {
    'X-Env': ['forged', 'twice'],
    'x-key': 'forged',
    Cookie: 'a=b',
    Connection: 'X-Gateway, close',
  };

  await ask('/orders', { headers });
  await ask('/', { headers });

  const seen = (requests: typeof usual.requests): unknown =>
    ['x-env', 'x-key', 'x-gateway', 'cookie', 'host'].map((name) => requests[0]?.header(name));
  expect(seen(orders.requests)).toEqual(['orders', 'secret', 'here', undefined, 'orders.internal']);
  expect(seen(usual.requests)).toEqual(['usual', 'forged', 'here', 'a=b', expect.stringMatching(/^127/)]);
});

test('WebSockets take the same way', async () => {
  const { port, orders } = await twoBackends(
    '[{ name: live, match: { path: "/live/**" }, backend: orders, rewrite: { strip_prefix: /live }, set_request_headers: { X-Env: live } }]',
  );
  const sockets = new WebSocketServer({ noServer: true });
  const asked: (string | undefined)[] = [];
  orders.server.on('upgrade', (request, socket, head) => {
    asked.push(request.url, String(request.headers['x-env']), String(request.headers['x-forwarded-prefix']));
    sockets.handleUpgrade(request, socket, head, (open) => open.send('hello'));
  });

  const heard = await new Promise((resolve, reject) => {
    const client = new WebSocket(`ws://127.0.0.1:${port}/live/feed?a=1`);
    client.once('error', reject);
    client.once('message', (data: Buffer) => {
      resolve(data.toString());
      client.terminate();
    });
  });

  expect(heard).toBe('hello');
  expect(asked).toEqual(['/feed?a=1', 'live', '/live']);
});

test('a backend has timeouts of its own', async () => {
  const slow = await startOrigin(() => undefined);
  const { ask } = await runGateway(`
backend: { url: "${slow.url}", timeout: 1h }
backends: { slow: { url: "${slow.url}", timeout: 10ms } }
rate_limit: { rules: [{ name: all, backend: slow }] }
`);

  const { status, body } = await ask('/');

  expect(status).toBe(504);
  expect(JSON.parse(body)).toMatchObject({ code: 'UPSTREAM_TIMEOUT' });
});

test('without a usual backend, requests that no rule sends elsewhere get a 502', async () => {
  const orders = await startOrigin();
  const { ask } = await runGateway(`
backends: { orders: { url: "${orders.url}" } }
rate_limit: { rules: [{ name: orders, match: { path: /orders }, backend: orders }] }
`);

  expect((await ask('/orders')).status).toBe(200);
  expect((await ask('/')).status).toBe(502);
});

test('a reload changes backends, and keeps the connections of those that stay', async () => {
  const rules = '[{ name: orders, match: { path: /orders }, backend: orders }]';
  const { ask, reload, yaml, usual, orders, gateway } = await twoBackends(rules);
  const later = await startOrigin();
  await ask('/');
  await ask('/orders');

  const result = await reload(yaml(rules).replace(orders.url, later.url));
  await ask('/');
  await ask('/orders');

  expect(result.outcome).toBe('applied');
  expect([usual.requests.length, orders.requests.length, later.requests.length]).toEqual([2, 1, 1]);
  expect(usual.connections).toBe(1);
  expect(gateway.backends().map(({ origin }) => origin)).toEqual([usual.url, later.url]);
});

test('a header that authenticates the gateway to a backend is a secret, others are not', () => {
  const loaded = loadConfig({
    file: {
      path: 'a.yaml',
      text: 'backend: { url: "http://a", set_request_headers: { Authorization: hunter22, X-Env: production } }',
    },
  });
  if (!loaded.ok) throw new Error('it is valid');

  expect(maskedConfig(loaded.config)).toMatchObject({
    backend: { set_request_headers: { Authorization: '********', 'X-Env': 'production' } },
  });
  expect(secretsOf(loaded.config)).toEqual(['hunter22']);
});
