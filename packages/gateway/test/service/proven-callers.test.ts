// Who is asking, proven to the service as it is to the gateway: by API keys and tokens, in every way that proxies ask.
import { createHash } from 'node:crypto';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, expect, onTestFinished, test } from 'vitest';
import { messageNamed } from '../../src/service/wire/proto-registry.ts';
import { AUDIENCE, ISSUER, jwksOf, signer, tokenOf, type Claims } from '../identity/issuer.ts';
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

/** Asks about a request with these headers; resolves to the status that its client gets. */
type AskWith = (service: TestService, headers: Readonly<Record<string, string>>) => Promise<number>;

const headersWith = (key: string | undefined): Record<string, string> =>
  key === undefined ? {} : { 'x-api-key': key };

const WAYS: readonly (readonly [string, AskWith])[] = [
  [
    'forward auth',
    async (service, proof) => {
      const headers = {
        'x-forwarded-method': 'GET',
        'x-forwarded-proto': 'https',
        'x-forwarded-host': 'shop.example',
        'x-forwarded-uri': '/orders',
        'x-forwarded-for': '203.0.113.7',
        ...proof,
      };
      return (await service.ask('/v1/forward-auth', { headers })).status;
    },
  ],
  [
    'ext_authz over HTTP',
    async (service, proof) => {
      const headers = { host: 'shop.example', 'x-forwarded-for': '203.0.113.7', ...proof };
      return (await service.ask('/v1/ext-authz/orders', { headers })).status;
    },
  ],
  [
    'ext_authz over gRPC',
    async (service, proof) => {
      const http = {
        method: 'GET',
        path: '/orders',
        host: 'shop.example',
        scheme: 'http',
        headers: proof,
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

describe.each(WAYS)('%s', (_, askWith) => {
  const ask = async (service: TestService, key: string | undefined): Promise<number> =>
    askWith(service, headersWith(key));

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

  const askAll = async (): Promise<readonly number[]> =>
    Promise.all(WAYS.map(async ([, askWith]) => askWith(service, headersWith('key-of-acme'))));
  const statuses = await askAll();
  const more = await askAll();

  expect([statuses, more]).toEqual([
    [200, 200, 200],
    [429, 429, 429],
  ]);
});

const issuer = signer('ec-1', 'ES256');

/** Counts by `sub`, which only the issuer can say. */
function tokenConfig(): string {
  const folder = mkdtempSync(join(tmpdir(), 'spillgate-service-jwt-'));
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
  const file = join(folder, 'jwks.json');
  writeFileSync(file, jwksOf(issuer));
  return `
server: { client_address: { trusted_proxies: [loopback] } }
identity:
  jwt: { jwks: { file: ${JSON.stringify(file)} }, issuer: ["${ISSUER}"], audience: ["${AUDIENCE}"], algorithms: [ES256] }
rate_limit: { average: 2, burst: 2, period: 365d, key_strategy: { type: jwtClaim, claim: sub, verified: true } }
`;
}

const bearer = (claims: Claims = {}, by = issuer): Record<string, string> => {
  const inAnHour = Math.floor(Date.now() / 1000) + 3600;
  return { authorization: `Bearer ${tokenOf(by, { exp: inAnHour, ...claims })}` };
};

describe.each(WAYS)('%s', (_, askWith) => {
  test('tokens are counted by their claim, whatever else differs', async () => {
    const service = await startTestService(tokenConfig());

    const ofAnn = [1, 2, 3].map((jti) => bearer({ jti }));
    const statuses: number[] = [];
    for (const proof of [...ofAnn, bearer({ sub: 'bob' })]) statuses.push(await askWith(service, proof));

    expect(statuses).toEqual([200, 200, 429, 200]);
  });

  test('a token that is forged, expired, for somebody else or missing gets a 401, and nothing is counted', async () => {
    const service = await startTestService(tokenConfig());

    const statuses: number[] = [];
    for (const proof of [
      bearer({}, signer('ec-1', 'ES256')),
      bearer({ exp: 1 }),
      bearer({ aud: 'https://other.example' }),
      {},
    ])
      statuses.push(await askWith(service, proof));

    expect(statuses).toEqual([401, 401, 401, 401]);
    expect([await askWith(service, bearer()), await askWith(service, bearer())]).toEqual([200, 200]);
  });
});

test('the ways to ask share what a subject has', async () => {
  const service = await startTestService(tokenConfig());

  const statuses: number[] = [];
  for (const [, askWith] of WAYS) statuses.push(await askWith(service, bearer()));

  expect(statuses).toEqual([200, 200, 429]);
});
