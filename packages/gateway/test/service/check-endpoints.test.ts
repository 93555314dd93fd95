// POST /v1/check, /v1/peek and /v1/forget.
import { describe, expect, test } from 'vitest';
import { startTestService } from './running-service.ts';

const POLICIES = `
rate_limit:
  policies:
    api: { algorithm: fixedWindow, quota: 3, window: 1h }
    login: { algorithm: fixedWindow, quota: 1, window: 1h }
`;

describe('a check', () => {
  test('spends, and a denial is a decision', async () => {
    const service = await startTestService(POLICIES);
    const ask = async () => service.post('/v1/check', { policy: 'api', key: 'ann', cost: 2 });

    const first = await ask();
    const second = await ask();

    expect(first).toMatchObject({
      status: 200,
      json: {
        policy: 'api',
        allowed: true,
        limit: 3,
        remaining: 1,
        retryAfterMs: 0,
        source: 'store',
        degraded: false,
      },
    });
    expect(second).toMatchObject({ status: 200, json: { allowed: false, remaining: 1 } });
    expect(second.json).toMatchObject({ retryAfterMs: expect.any(Number) as number });
  });

  test('of several limits charges all or none', async () => {
    const service = await startTestService(POLICIES);
    const limits = [
      { policy: 'api', key: 'ann' },
      { policy: 'login', key: '203.0.113.7' },
    ];
    await service.post('/v1/check', { limits });

    const second = await service.post('/v1/check', { limits });

    expect(second.json).toMatchObject({
      allowed: false,
      policy: 'login',
      verdicts: [
        { policy: 'api', allowed: true, remaining: 2 },
        { policy: 'login', allowed: false, remaining: 0 },
      ],
    });
    // Not 1: the denied check spent nothing.
    expect((await service.post('/v1/peek', { policy: 'api', key: 'ann' })).json).toMatchObject({
      remaining: 2,
    });
  });

  test('in a batch is decided on its own, in the order of the batch', async () => {
    const service = await startTestService(POLICIES);
    const check = { policy: 'login', key: 'ann' };

    const { json } = await service.post('/v1/check', { checks: [check, check, { ...check, key: 'bob' }] });

    expect(json).toMatchObject({ decisions: [{ allowed: true }, { allowed: false }, { allowed: true }] });
  });

  test('of a cost that never fits has no time to wait', async () => {
    const service = await startTestService(POLICIES);

    const { json } = await service.post('/v1/check', { policy: 'api', key: 'ann', cost: 4 });

    expect(json).toMatchObject({ allowed: false, retryAfterMs: null });
  });

  test('counts the key that a rule of the gateway counts', async () => {
    const service = await startTestService(`
rate_limit:
  policies: { api: { algorithm: fixedWindow, quota: 1, window: 1h } }
  rules: [{ name: all, match: {}, policies: [api] }]
`);
    await service.post('/v1/check', { policy: 'api', key: '2001:db8::1' });

    const neighbour = await service.post('/v1/check', { policy: 'api', key: '2001:db8::2' });

    expect(neighbour.json).toMatchObject({ allowed: false });
  });
});

test('a peek spends nothing', async () => {
  const service = await startTestService(POLICIES);
  const asked = { policy: 'login', key: 'ann' };

  const peeks = [await service.post('/v1/peek', asked), await service.post('/v1/peek', { checks: [asked] })];

  expect(peeks.map(({ json }) => json)).toMatchObject([
    { allowed: true, remaining: 1 },
    { decisions: [{ allowed: true, remaining: 1 }] },
  ]);
});

test('a forgotten key is as if never used', async () => {
  const service = await startTestService(POLICIES);
  const asked = { policy: 'login', key: 'ann' };
  await service.post('/v1/check', asked);

  const forgotten = await service.post('/v1/forget', asked);

  expect(forgotten).toMatchObject({ status: 200, json: { forgotten: 1 } });
  expect((await service.post('/v1/check', asked)).json).toMatchObject({ allowed: true });
});

test('while the store cannot decide, the decision says who did', async () => {
  const service = await startTestService(`
rate_limit:
  failure_policy: failClosed
  policies: { api: { algorithm: fixedWindow, quota: 1, window: 1h } }
redis: { endpoints: ["127.0.0.1:1"], dial_timeout: 100ms }
`);

  const decided = await service.post('/v1/check', { policy: 'api', key: 'ann' });

  expect(decided).toMatchObject({
    status: 200,
    json: { allowed: false, degraded: true, source: 'failurePolicy' },
  });
  expect(await service.post('/v1/forget', { policy: 'api', key: 'ann' })).toMatchObject({
    status: 503,
    json: { code: 'STORE_UNAVAILABLE' },
  });
  expect((await service.ask('/healthcheck')).status).toBe(500);
});

describe('where a token is configured', () => {
  const withToken = `${POLICIES}\nservice: { token: correct-horse-battery }\n`;

  test('nobody decides without it', async () => {
    const service = await startTestService(withToken);
    const asked = { policy: 'login', key: 'ann' };

    const without = await service.post('/v1/check', asked);
    const wrong = await service.post('/v1/check', asked, { authorization: 'Bearer wrong-horse-battery' });
    const right = await service.post('/v1/check', asked, { authorization: 'Bearer correct-horse-battery' });

    expect([without, wrong]).toMatchObject([
      { status: 401, json: { code: 'TOKEN_REQUIRED' } },
      { status: 401, json: { code: 'TOKEN_REQUIRED' } },
    ]);
    // The two before it counted nothing.
    expect(right).toMatchObject({ status: 200, json: { allowed: true } });
  });

  test('those who guess are slowed down, and the probe stays open', async () => {
    const service = await startTestService(withToken);
    const guess = async () => service.post('/v1/check', {}, { authorization: 'Bearer wrong-horse-battery' });

    const statuses: number[] = [];
    for (let count = 0; count < 11; count += 1) statuses.push((await guess()).status);

    expect(statuses.at(-1)).toBe(429);
    expect(await service.ask('/healthcheck')).toMatchObject({ status: 200, text: 'OK' });
  });
});

test('the OpenAPI document lists every endpoint with its schemas', async () => {
  const service = await startTestService(POLICIES);

  const { json } = await service.ask('/openapi.json');

  expect(json).toMatchObject({
    openapi: '3.1.0',
    info: { version: '1.2.3' },
    paths: {
      '/v1/check': {
        post: { operationId: 'check', responses: { 200: {}, 400: {}, 404: {}, 413: {}, 415: {} } },
      },
      '/v1/peek': { post: {} },
      '/v1/forget': { post: { responses: { 503: {} } } },
      '/healthcheck': { get: {} },
    },
  });
});
