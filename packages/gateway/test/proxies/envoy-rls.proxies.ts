// Envoy with its rate limit filter, in front of a real backend.
import { describe, expect, test } from 'vitest';
import { startTestService, type TestService } from '../service/running-service.ts';
import {
  askProxy,
  burst,
  documented,
  ENVOY,
  folderWith,
  freePort,
  placed,
  startCountingBackend,
  startProxyProcess,
  type CountingBackend,
} from './proxy-rig.ts';

interface EnvoyRig {
  readonly port: number;
  readonly backend: CountingBackend;
  readonly service: TestService;
}

async function startEnvoy(
  limits: string,
  change: (config: string) => string = (config) => config,
): Promise<EnvoyRig> {
  const backend = await startCountingBackend();
  const service = await startTestService(limits);
  const port = await freePort();
  const ports = { proxy: port, service: service.port, backend: backend.port };
  const folder = folderWith({
    'envoy.yaml': change(placed(documented('proxies/envoy.md', 'yaml envoy-rls'), ports)),
  });
  await startProxyProcess({
    program: ENVOY,
    args: ['-c', 'envoy.yaml', '--concurrency', '1', '--disable-hot-restart', '-l', 'warning'],
    folder,
    port,
  });
  return { port, backend, service };
}

const limits = (userQuota: number, more = '', shadow = false): string => `
rate_limit:
  ${more}
  policies:
    per-user: { algorithm: fixedWindow, quota: ${userQuota}, window: 1d }
    login: { algorithm: fixedWindow, quota: 1, window: 1d }
service:
  rls:
    descriptors:
      - { domain: shop, entries: [{ key: user }], policies: [per-user], shadow: ${shadow} }
      - { domain: shop, entries: [{ key: path, value: "/login*" }, { key: remote_address }], policies: [login] }
`;

test('limits by header, by path and by address, and tells refused clients why', async () => {
  const { port, backend } = await startEnvoy(limits(2));
  const ask = async (path: string, user?: string) =>
    askProxy(port, path, user === undefined ? {} : { 'x-user': user });

  const statuses = [];
  for (const user of ['ann', 'ann', 'ann', 'bob']) statuses.push((await ask('/', user)).status);
  const refused = await ask('/', 'ann');
  const logins = [(await ask('/login')).status, (await ask('/login')).status, (await ask('/')).status];

  expect(statuses).toEqual([200, 200, 429, 200]);
  expect(refused.headers).toMatchObject({
    'x-envoy-ratelimited': 'true',
    'content-type': 'application/problem+json',
    'x-ratelimit-remaining': '0',
  });
  expect(refused.headers['retry-after']).toMatch(/^\d+$/);
  expect(JSON.parse(refused.body)).toMatchObject({ status: 429 });
  expect(logins).toEqual([200, 429, 200]);
  expect(backend.served()).toBe(5);
});

test("Envoy's own headers come from the statuses", async () => {
  const { port } = await startEnvoy(
    limits(2).replace('  rls:', '  rls:\n    response_headers: false'),
    (config) =>
      config.replace(
        'domain: shop',
        'domain: shop\n                      enable_x_ratelimit_headers: DRAFT_VERSION_03',
      ),
  );

  const { headers } = await askProxy(port, '/', { 'x-user': 'ann' });

  expect(headers['x-ratelimit-limit']).toBe('2, 2;w=86400;name="per-user"');
  expect(headers['x-ratelimit-remaining']).toBe('1');
  expect(headers['x-ratelimit-reset']).toMatch(/^\d+$/);
});

test('in shadow mode nobody is refused', async () => {
  const { port } = await startEnvoy(limits(1, '', true));

  const statuses = [];
  for (let count = 0; count < 3; count += 1)
    statuses.push((await askProxy(port, '/', { 'x-user': 'ann' })).status);

  expect(statuses).toEqual([200, 200, 200]);
});

describe('while the store is down', () => {
  const DOWN = '\nredis: { endpoints: ["127.0.0.1:1"], dial_timeout: 100ms }\n';

  test.each([
    ['failClosed', true, 500],
    ['failClosed', false, 200],
    ['passThrough', true, 200],
  ])('%s with failure_mode_deny: %s gives clients a %d', async (policy, denies, status) => {
    const { port } = await startEnvoy(limits(1, `failure_policy: ${policy}`) + DOWN, (config) =>
      config.replace('failure_mode_deny: true', `failure_mode_deny: ${String(denies)}`),
    );

    expect((await askProxy(port, '/', { 'x-user': 'ann' })).status).toBe(status);
  });

  test('the local fallback keeps the limit', async () => {
    const { port } = await startEnvoy(limits(2, 'failure_policy: inMemoryFallback') + DOWN);

    const statuses = [];
    for (let count = 0; count < 3; count += 1)
      statuses.push((await askProxy(port, '/', { 'x-user': 'ann' })).status);

    expect(statuses).toEqual([200, 200, 429]);
  });
});

test('of 10,000 requests exactly the admitted number reaches the backend', async () => {
  const REQUESTS = 10_000;
  const ADMITTED = 3456;
  const { port, backend } = await startEnvoy(limits(ADMITTED));

  const statuses = await burst(port, REQUESTS);

  expect(Object.fromEntries(statuses)).toEqual({ 200: ADMITTED, 429: REQUESTS - ADMITTED });
  expect(backend.served()).toBe(ADMITTED);
}, 180_000);
