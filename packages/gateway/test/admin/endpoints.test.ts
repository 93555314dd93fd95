import * as fc from 'fast-check';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { policies } from '../../src/admin/schemas.ts';
import { configOf, CONFIG, JSON_HEADERS, policiesOf, runAdmin, type Running } from './running-admin.ts';

let running: Running;

beforeEach(async () => {
  running = await runAdmin();
});

afterEach(async () => {
  await running.stop();
});

describe('probes', () => {
  test.each([
    ['starting', 503, 200, 503],
    ['ready', 200, 200, 200],
    ['draining', 200, 200, 503],
  ] as const)('a gateway that is %s', async (phase, started, alive, ready) => {
    running.state.phase = phase;

    expect((await running.fetch('/startz')).status).toBe(started);
    expect((await running.fetch('/healthz')).status).toBe(alive);
    expect((await running.fetch('/readyz')).status).toBe(ready);
  });

  test('readyz says no more than it has to', async () => {
    expect((await running.fetch('/readyz')).json).toEqual({ status: 'ok' });
  });

  test('readyz?deep=1 names every server of the store and every backend', async () => {
    const { status, json } = await running.fetch('/readyz?deep=1');

    expect(status).toBe(200);
    expect(json).toMatchObject({
      status: 'ok',
      store: { status: 'up', nodes: [{ name: 'memory', status: 'up' }] },
      backends: [{ origin: 'http://10.0.0.1:3000', healthy: false, inFlight: 2, lastError: 'refused' }],
    });
  });

  test('HEAD is GET without its body', async () => {
    const { status, text, headers } = await running.fetch('/healthz', { method: 'HEAD' });

    expect([status, text]).toEqual([200, '']);
    expect(Number(headers['content-length'])).toBeGreaterThan(0);
  });
});

describe('the gateway', () => {
  test('metrics are those of the gateway and of its limiter', async () => {
    await running.limiter.check(policy('api').for('ann'));

    const { text, headers } = await running.fetch('/metrics');

    expect(headers['content-type']).toBe('text/plain; version=0.0.4; charset=utf-8');
    expect(text).toContain('spillgate_gateway_upstream_up{upstream="http://10.0.0.1:3000"} 0');
    expect(text).toContain('spillgate_gateway_config_generation 1');
    expect(text).toContain('spillgate_decisions_total{limiter="default",policy="api",outcome="allowed"');
    expect(text).not.toContain('ann');
  });

  test('the configuration is shown with where each value came from', async () => {
    const { json } = await running.fetch('/v1/config');

    expect(json).toMatchObject({ generation: 1, config: { rate_limit: { average: 10 } } });
    expect(json).toMatchObject({
      settings: expect.arrayContaining([
        {
          path: 'rate_limit.average',
          value: 10,
          origin: { from: 'file', file: 'gateway.yaml', line: 5, column: 12 },
        },
        { path: 'logging.level', value: 'info', origin: { from: 'default' } },
      ]),
    });
  });

  test('the last reload is shown', async () => {
    running.state.last = { outcome: 'applied', generation: 2, problems: [], at: new Date(0) };

    expect((await running.fetch('/v1/config')).json).toMatchObject({
      lastReload: { outcome: 'applied', generation: 2, at: '1970-01-01T00:00:00.000Z' },
    });
  });

  test('a reload says what became of it', async () => {
    running.state.reload = () => Promise.resolve({ outcome: 'applied', generation: 2, problems: [] });

    const { status, json } = await running.fetch('/v1/reload', { method: 'POST', headers: JSON_HEADERS });

    expect([status, json]).toEqual([200, { outcome: 'applied', generation: 2, problems: [] }]);
  });

  test('a refused reload names every problem', async () => {
    const problems = [
      {
        severity: 'error' as const,
        origin: { from: 'file' as const, file: 'gateway.yaml', line: 3, column: 5 },
        path: 'server.workers',
        message: 'server.workers is 0; expected at least 1',
        suggestion: undefined,
      },
    ];
    running.state.reload = () => Promise.resolve({ outcome: 'refused', generation: 1, problems });

    const { status, json } = await running.fetch('/v1/reload', { method: 'POST', headers: JSON_HEADERS });

    expect(status).toBe(422);
    expect(json).toMatchObject({ code: 'RELOAD_REFUSED', problems: [{ path: 'server.workers' }] });
  });

  test('stats count what the gateway did', async () => {
    const { traffic } = running.metrics;
    traffic.connectionOpened();
    traffic.started?.();

    expect((await running.fetch('/v1/stats')).json).toMatchObject({
      version: '1.2.3',
      phase: 'ready',
      generation: 1,
      traffic: { connections: 1, requestsInFlight: 1, requests: { forwarded: 0 } },
    });
  });

  test('policies are listed in the words of the configuration', async () => {
    expect((await running.fetch('/v1/policies')).json).toEqual({
      policies: [
        {
          name: 'api',
          algorithm: 'tokenBucket',
          limit: 20,
          numbers: { average: 100, burst: 20, period: '1m' },
          overrides: { configured: 1, runtime: 0 },
        },
        {
          name: 'queue',
          algorithm: 'leakyBucket',
          limit: 21,
          numbers: { average: 10, period: '1s', max_delay: '2s' },
          failure_policy: 'failClosed',
          overrides: { configured: 0, runtime: 0 },
        },
        {
          name: 'daily',
          algorithm: 'fixedWindow',
          limit: 1000,
          numbers: { quota: 1000, window: '1d', offset: '0ms' },
          overrides: { configured: 0, runtime: 0 },
        },
        {
          name: 'default',
          algorithm: 'tokenBucket',
          limit: 10,
          numbers: { average: 10, period: '1s' },
          overrides: { configured: 0, runtime: 0 },
        },
      ],
    });
  });

  test('what is listed can be given to a key as it is', async () => {
    for (const { name, limit, numbers } of await listed()) {
      expect([name, await override(name, 'ann', numbers)]).toMatchObject([
        name,
        { status: 200, json: { limit, override: numbers } },
      ]);
    }
    expect((await listed()).map(({ overrides }) => overrides.runtime)).toEqual([1, 1, 1, 1]);
  });
});

describe('a key', () => {
  test('a look at it spends nothing', async () => {
    await running.limiter.check(policy('api').for('ann'), { cost: 5 });

    await running.fetch('/v1/keys/api/ann');
    const { status, json } = await running.fetch('/v1/keys/api/ann?cost=15');

    expect(status).toBe(200);
    expect(json).toMatchObject({
      policy: 'api',
      key: 'ann',
      allowed: true,
      limit: 20,
      remaining: 15,
      override: null,
    });
  });

  test('a cost that never fits has no wait', async () => {
    expect((await running.fetch('/v1/keys/api/ann?cost=21')).json).toMatchObject({
      allowed: false,
      retryAfterMs: null,
    });
  });

  test('forgotten is as if never used, also twice', async () => {
    await running.limiter.check(policy('api').for('ann'), { cost: 20 });

    const first = await running.fetch('/v1/keys/api/ann', { method: 'DELETE' });
    const second = await running.fetch('/v1/keys/api/ann', { method: 'DELETE' });

    expect([first.status, second.status]).toEqual([200, 200]);
    expect((await running.limiter.peek(policy('api').for('ann'))).remaining).toBe(20);
  });

  test('an override acts at once, is idempotent and can be taken back', async () => {
    const put = () =>
      running.fetch('/v1/keys/api/ann/override', {
        method: 'PUT',
        headers: JSON_HEADERS,
        body: '{"average": 1000, "burst": 50}',
      });

    const first = await put();
    const second = await put();

    expect(first.json).toEqual({
      policy: 'api',
      key: 'ann',
      limit: 50,
      override: { average: 1000, burst: 50 },
    });
    expect(second).toMatchObject({ status: 200, json: first.json });
    expect(policy('api').for('ann').limit).toBe(50);
    expect((await running.fetch('/v1/policies')).json).toMatchObject({
      policies: [{ overrides: { configured: 1, runtime: 1 } }, {}, {}, {}],
    });

    await running.fetch('/v1/keys/api/ann/override', { method: 'DELETE' });
    const again = await running.fetch('/v1/keys/api/ann/override', { method: 'DELETE' });

    expect(again.json).toEqual({ policy: 'api', key: 'ann', limit: 20, override: null });
  });

  test('without its override a key has what the configuration gives it', async () => {
    await override('api', 'configured', { burst: 7 });
    expect(policy('api').for('configured').limit).toBe(7);

    await running.fetch('/v1/keys/api/configured/override', { method: 'DELETE' });

    expect(policy('api').for('configured').limit).toBe(500);
  });

  test('an address stands for those that are counted together with it', async () => {
    await running.limiter.check(policy('default').for('2001:db8::/64'), { cost: 4 });

    const peeked = await running.fetch('/v1/keys/default/2001:DB8::7');
    const put = await override('default', '2001:db8::8', { burst: 7 });
    const seen = await running.fetch('/v1/keys/default/2001:db8::9');

    expect(peeked.json).toMatchObject({ key: '2001:db8::/64', remaining: 6, override: null });
    expect(put.json).toMatchObject({ key: '2001:db8::/64', limit: 7 });
    expect(seen.json).toMatchObject({ limit: 7, override: { burst: 7 } });
  });

  test('a queue takes max_delay', async () => {
    expect(await override('queue', 'ann', { max_delay: '5s' })).toMatchObject({
      status: 200,
      json: { override: { max_delay: '5s' } },
    });
  });

  test('overrides outlive a reload; those that fit no more are dropped', async () => {
    await override('api', 'ann', { burst: 50 });
    await override('daily', 'bob', { quota: 5 });
    const { config } = configOf(CONFIG.replace(/ {4}daily.*\n/, ''));
    running.state.policies = policiesOf(config);
    expect(policy('api').for('ann').limit).toBe(20);

    const dropped = running.admin.overrides.reapply();

    expect(policy('api').for('ann').limit).toBe(50);
    expect(dropped).toEqual([{ policy: 'daily', key: 'bob', numbers: { quota: 5 } }]);
    expect(running.admin.overrides.all()).toHaveLength(1);
  });

  test.each([
    ['{"burst": 0}', 400],
    ['{"burst": -1}', 400],
    ['{"burst": 1.5}', 400],
    ['{"quota": 5}', 422],
    ['{"period": "soon"}', 422],
    ['{"periode": "1s"}', 400],
    ['{}', 400],
    ['[]', 400],
    ['null', 400],
    ['{"burst":', 400],
    ['', 400],
  ])('the override %s is refused', async (body, status) => {
    const answer = await running.fetch('/v1/keys/api/ann/override', {
      method: 'PUT',
      headers: JSON_HEADERS,
      body,
    });

    expect(answer.status).toBe(status);
    expect(policy('api').for('ann').limit).toBe(20);
  });

  test('the message of a refused override names value, bound and fix', async () => {
    expect(await override('api', 'ann', { period: 'soon' })).toMatchObject({
      json: { code: 'INVALID_NUMBERS', detail: expect.stringMatching(/^period is "soon", .*'1d'\.$/) },
    });
  });

  test.each([
    '<img src=x onerror=alert(1)>',
    'a\r\nSet-Cookie: x=1',
    '../../etc/passwd',
    '..',
    'ä/ö%',
    '=cmd()',
    '\u202e',
  ])('the key %j comes back as it is, and as JSON', async (key) => {
    const { status, json, headers } = await running.fetch(`/v1/keys/api/${encodeURIComponent(key)}`);

    expect(status).toBe(200);
    expect(json).toMatchObject({ key });
    expect(headers['set-cookie']).toBeUndefined();
    expect(headers['content-type']).toBe('application/json');
  });

  test('every key can be asked for', async () => {
    await fc.assert(
      fc.asyncProperty(fc.string({ unit: 'grapheme', minLength: 1, maxLength: 200 }), async (key) => {
        const { status, json } = await running.fetch(`/v1/keys/daily/${encodeURIComponent(key)}`);

        expect([status, json]).toMatchObject([200, { key }]);
      }),
    );
  });

  test('a key of a mebibyte is refused before it is read', async () => {
    const answer = await running
      .fetch(`/v1/keys/api/${'k'.repeat(2 ** 20)}`)
      .catch((error: unknown) => error);

    // Node may answer 431 or cut the connection off while the key is still being sent.
    expect(answer).toSatisfy(
      (value: object) => 'code' in value || ('status' in value && value.status === 431),
    );
    expect((await running.fetch('/healthz')).status).toBe(200);
  });

  test('an unknown policy is named with those that exist', async () => {
    expect((await running.fetch('/v1/keys/nope/ann')).json).toMatchObject({
      status: 404,
      code: 'UNKNOWN_POLICY',
      detail: 'The policy is "nope"; expected one of api, queue, daily, default.',
    });
  });

  test('a broken percent-encoding is a bad request', async () => {
    expect((await running.fetch('/v1/keys/api/%zz')).json).toMatchObject({
      status: 400,
      code: 'INVALID_REQUEST',
    });
  });

  test('a store that fails makes forgetting fail', async () => {
    await running.limiter.close();

    expect((await running.fetch('/v1/keys/api/ann', { method: 'DELETE' })).status).toBe(503);
  });
});

describe('what is not there', () => {
  test.each([
    '/nope',
    '/ui',
    '/ui/../healthz',
    '/..%2f..%2fetc/passwd',
    '//healthz',
    '/healthz/',
    '/v1/keys/api/',
    '/%00',
  ])('%s is a 404', async (path) => {
    expect((await running.fetch(path)).json).toMatchObject({ status: 404, code: 'NOT_FOUND' });
  });

  test('another method is a 405 that says which are right', async () => {
    const { status, headers } = await running.fetch('/v1/config', { method: 'POST' });

    expect([status, headers['allow']]).toEqual([405, 'GET, HEAD']);
  });
});

async function listed() {
  return policies.parse((await running.fetch('/v1/policies')).json).policies;
}

function policy(name: string) {
  const found = running.state.policies.get(name);
  if (found === undefined) throw new Error(`no policy ${name}`);
  return found;
}

function override(name: string, key: string, numbers: object) {
  return running.fetch(`/v1/keys/${name}/${key}/override`, {
    method: 'PUT',
    headers: JSON_HEADERS,
    body: JSON.stringify(numbers),
  });
}
