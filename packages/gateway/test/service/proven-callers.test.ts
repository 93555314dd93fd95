// Who is asking, proven to the service as it is to the gateway: by API keys and tokens, in every way that proxies ask.
import { createHash } from 'node:crypto';
import { describe, expect, test } from 'vitest';
import { messageNamed } from '../../src/service/wire/proto-registry.ts';
import { callGrpc } from './rls-client.ts';
import { startTestService, type TestService } from './running-service.ts';

const hashOf = (key: string): string => `sha256:${createHash('sha256').update(key).digest('hex')}`;

const CONFIG = `
server: { client_address: { trusted_proxies: [loopback] } }
identity:
  api_keys:
    keys:
      - { name: acme, hash: "${hashOf('key-of-acme')}", plan: pro }
      - { name: beta, hash: "${hashOf('key-of-beta')}", plan: free }
      - { name: gone, hash: "${hashOf('key-of-gone')}", disabled: true }
  plans: { free: { policies: [free] }, pro: { policies: [pro] } }
rate_limit:
  policies:
    anonymous: { algorithm: fixedWindow, quota: 1, window: 365d }
    free: { algorithm: fixedWindow, quota: 2, window: 365d }
    pro: { algorithm: fixedWindow, quota: 3, window: 365d }
  rules: [{ name: api, match: { path: "/**" }, policies: [anonymous] }]
`;

/** Asks about a request with this API key, or with none; resolves to the status that its client gets. */
type Ask = (service: TestService, key: string | undefined) => Promise<number>;

const headersWith = (key: string | undefined): Record<string, string> =>
  key === undefined ? {} : { 'x-api-key': key };

const WAYS: readonly (readonly [string, Ask])[] = [
  [
    'forward auth',
    async (service, key) => {
      const headers = {
        'x-forwarded-method': 'GET',
        'x-forwarded-proto': 'https',
        'x-forwarded-host': 'shop.example',
        'x-forwarded-uri': '/orders',
        'x-forwarded-for': '203.0.113.7',
        ...headersWith(key),
      };
      return (await service.ask('/v1/forward-auth', { headers })).status;
    },
  ],
  [
    'ext_authz over HTTP',
    async (service, key) => {
      const headers = { host: 'shop.example', 'x-forwarded-for': '203.0.113.7', ...headersWith(key) };
      return (await service.ask('/v1/ext-authz/orders', { headers })).status;
    },
  ],
  [
    'ext_authz over gRPC',
    async (service, key) => {
      const http = {
        method: 'GET',
        path: '/orders',
        host: 'shop.example',
        scheme: 'http',
        headers: headersWith(key),
      };
      const answer = await callGrpc({
        port: service.port,
        method: 'envoy.service.auth.v3.Authorization/Check',
        input: messageNamed('envoy.service.auth.v3.CheckRequest'),
        output: messageNamed('envoy.service.auth.v3.CheckResponse'),
        fields: {
          attributes: {
            source: { address: { socketAddress: { address: '203.0.113.7', portValue: 4711 } } },
            request: { http },
          },
        },
      });
      const { deniedResponse } = answer as { deniedResponse?: { status: { code: number } } };
      return deniedResponse?.status.code ?? 200;
    },
  ],
];

describe.each(WAYS)('%s', (_, ask) => {
  test('an unknown key and a disabled one get a 401, and nothing is counted', async () => {
    const service = await startTestService(CONFIG);

    const statuses = [await ask(service, 'made-up'), await ask(service, 'key-of-gone')];

    expect(statuses).toEqual([401, 401]);
    expect(await ask(service, undefined)).toBe(200);
  });

  test.each([
    ['key-of-acme', 3],
    ['key-of-beta', 2],
    [undefined, 1],
  ])('the plan of %s holds: %d are admitted', async (key, quota) => {
    const service = await startTestService(CONFIG);
    const statuses: number[] = [];

    for (let count = 0; count <= quota; count += 1) statuses.push(await ask(service, key));

    expect(statuses).toEqual([...Array.from({ length: quota }, () => 200), 429]);
  });
});

test('the ways to ask share what a key has', async () => {
  const service = await startTestService(CONFIG);

  const statuses = await Promise.all(WAYS.map(async ([, ask]) => ask(service, 'key-of-acme')));
  const more = await Promise.all(WAYS.map(async ([, ask]) => ask(service, 'key-of-acme')));

  expect([statuses, more]).toEqual([
    [200, 200, 200],
    [429, 429, 429],
  ]);
});
