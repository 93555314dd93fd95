// Questions of proxies about requests that they are about to forward.
import { describe, expect, test } from 'vitest';
import { messageNamed } from '../../src/service/wire/proto-registry.ts';
import { callGrpc } from './rls-client.ts';
import { startTestService, type AskOptions, type TestService } from './running-service.ts';

const RULES = `
server: { client_address: { trusted_proxies: [loopback] } }
rate_limit:
  policies:
    api: { algorithm: fixedWindow, quota: 1, window: 1h }
    never: { algorithm: fixedWindow, quota: 1, window: 1h }
  rules:
    - { name: orders, match: { path: /orders, method: [POST], host: shop.example }, policies: [api] }
    - { name: tenant, match: { path: /tenant }, key: { type: header, header_name: X-Tenant }, policies: [api] }
    - { name: tried, match: { path: /tried }, policies: [never], shadow: true }
`;

const ORDER: Readonly<Record<string, string>> = {
  'x-forwarded-method': 'POST',
  'x-forwarded-proto': 'https',
  'x-forwarded-host': 'shop.example',
  'x-forwarded-uri': '/orders?id=1',
  'x-forwarded-for': '203.0.113.7',
};

async function ask(service: TestService, headers: AskOptions['headers'], options = ''): Promise<number> {
  return (await service.ask(`/v1/forward-auth${options}`, { headers: headers ?? {} })).status;
}

describe('a question by headers', () => {
  test('meets the rules of the gateway, and gets what the client is told', async () => {
    const service = await startTestService(RULES);

    const first = await service.ask('/v1/forward-auth', { headers: ORDER });
    const second = await service.ask('/v1/forward-auth', { headers: ORDER });

    expect(first).toMatchObject({
      status: 200,
      text: '',
      headers: {
        'x-ratelimit-remaining': '0',
        ratelimit: expect.stringMatching(/^"api";r=0;t=\d+$/) as string,
      },
    });
    expect(second.headers['retry-after']).toMatch(/^\d+$/);
    expect(second).toMatchObject({
      status: 429,
      headers: { 'content-type': 'application/problem+json', 'x-spillgate-status': '429' },
      json: { status: 429 },
    });
  });

  test('is about the method, the host, the path and the client of the request', async () => {
    const service = await startTestService(RULES);
    await ask(service, ORDER);

    const others = [
      await ask(service, { ...ORDER, 'x-forwarded-method': 'GET' }),
      await ask(service, { ...ORDER, 'x-forwarded-host': 'other.example' }),
      await ask(service, { ...ORDER, 'x-forwarded-uri': '/other' }),
      await ask(service, { ...ORDER, 'x-forwarded-for': '203.0.113.8' }),
    ];

    expect(others).toEqual([200, 200, 200, 200]);
    // Another spelling of the path is the same path.
    expect(await ask(service, { ...ORDER, 'x-forwarded-uri': '/x/../%6frders' })).toBe(429);
  });

  test('reads keys from headers of the request', async () => {
    const service = await startTestService(RULES);
    const tenant = { ...ORDER, 'x-forwarded-uri': '/tenant', 'x-tenant': 'acme' };

    expect([await ask(service, tenant), await ask(service, tenant)]).toEqual([200, 429]);
    expect(await ask(service, { ...tenant, 'x-tenant': 'other' })).toBe(200);
    const { 'x-tenant': _, ...without } = tenant;
    expect(await ask(service, without)).toBe(400);
  });

  test('in shadow mode is always admitted', async () => {
    const service = await startTestService(RULES);
    const tried = { ...ORDER, 'x-forwarded-uri': '/tried' };

    expect([await ask(service, tried), await ask(service, tried)]).toEqual([200, 200]);
  });

  test('gets the statuses that the proxy wants', async () => {
    const service = await startTestService(RULES);

    expect(await ask(service, ORDER, '/allowed_status=204/denied_status=403')).toBe(204);
    const denied = await service.ask('/v1/forward-auth/denied_status=403', { headers: ORDER });
    expect(denied).toMatchObject({ status: 403, headers: { 'x-spillgate-status': '429' } });
  });

  test('may be described by X-Original-URL, and then by nothing else', async () => {
    const service = await startTestService(RULES);
    const original = {
      'x-original-method': 'POST',
      'x-original-url': 'https://shop.example/orders',
      'x-forwarded-for': '203.0.113.7',
      // What a client sent.
      'x-forwarded-uri': '/tried',
      'x-forwarded-method': 'GET',
    };

    expect(await ask(service, original, '/source=x-original')).toBe(200);
    expect(await ask(service, original, '/source=x-original')).toBe(429);
  });

  test('takes nothing from the query, which some proxies copy from the client', async () => {
    const service = await startTestService(RULES);
    const forged = { ...ORDER, 'x-original-method': 'GET', 'x-original-url': 'http://a/tried' };
    const query = '?source=x-original&allowed_status=204&denied_status=418';

    expect([await ask(service, forged, query), await ask(service, forged, query)]).toEqual([200, 429]);
  });

  test('of a proxy that is not trusted is refused, and counts nothing', async () => {
    const service = await startTestService(RULES.replace('[loopback]', '["198.51.100.1"]'));

    const refused = await service.ask('/v1/forward-auth', { headers: ORDER });

    expect(refused).toMatchObject({ status: 403, json: { code: 'UNTRUSTED_PROXY' } });
    expect((await service.post('/v1/peek', { policy: 'api', key: '203.0.113.7' })).json).toMatchObject({
      remaining: 1,
    });
  });

  test('shows the token of the proxy beside the Authorization of the client', async () => {
    const service = await startTestService(`${RULES}\nservice: { token: correct-horse-battery }\n`);
    const headers = { ...ORDER, authorization: 'Bearer of-the-client' };

    expect(await ask(service, headers)).toBe(401);
    expect(await ask(service, { ...headers, 'x-spillgate-token': 'correct-horse-battery' })).toBe(200);
  });

  test.each([
    ['failClosed', 503],
    ['passThrough', 200],
  ])('while the store cannot decide, %s answers %d', async (policy, status) => {
    const service = await startTestService(
      RULES.replace('rate_limit:', `rate_limit:\n  failure_policy: ${policy}\n  failure_code: 503`).concat(
        'redis: { endpoints: ["127.0.0.1:1"], dial_timeout: 100ms }',
      ),
    );

    expect(await ask(service, ORDER)).toBe(status);
  });
});

describe("Envoy's ext_authz", () => {
  test('over HTTP sends the request itself behind a prefix', async () => {
    const service = await startTestService(RULES);
    const asked: AskOptions = {
      method: 'POST',
      headers: { host: 'shop.example', 'x-forwarded-for': '203.0.113.7', 'content-length': '0' },
    };

    const statuses = [
      (await service.ask('/v1/ext-authz/orders?id=1', asked)).status,
      (await service.ask('/v1/ext-authz/orders', asked)).status,
      (await service.ask('/v1/ext-authz/orders', { ...asked, method: 'GET' })).status,
    ];

    expect(statuses).toEqual([200, 429, 200]);
  });

  test('over gRPC gets an answer for the client', async () => {
    const service = await startTestService(RULES);
    const check = async (): Promise<unknown> =>
      callGrpc({
        port: service.port,
        method: 'envoy.service.auth.v3.Authorization/Check',
        input: messageNamed('envoy.service.auth.v3.CheckRequest'),
        output: messageNamed('envoy.service.auth.v3.CheckResponse'),
        fields: {
          attributes: {
            source: { address: { socketAddress: { address: '203.0.113.7', portValue: 4711 } } },
            request: {
              http: {
                method: 'POST',
                path: '/orders',
                host: 'shop.example',
                scheme: 'http',
                headers: { 'x-a': 'b' },
              },
            },
          },
        },
      });

    const first = await check();
    const second = await check();

    expect(first).toMatchObject({
      status: {},
      okResponse: { responseHeadersToAdd: expect.any(Array) as unknown[] },
    });
    expect(second).toMatchObject({
      status: { code: 8 },
      deniedResponse: { status: { code: 429 }, body: expect.stringContaining('"status":429') as string },
    });
  });
});
