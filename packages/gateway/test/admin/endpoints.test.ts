import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { policies } from '../../src/admin/schemas.ts';
import { CONFIG, JSON_HEADERS, runAdmin, type Running } from './running-admin.ts';

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
    await running.limiter.check(running.policy('api').for('ann'));

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

  test('keys that are secrets of clients are shown as the log shows them', async () => {
    const secret = await runAdmin(
      `${CONFIG}  key_strategy: { type: header, header_name: Authorization }\n  deny: { keys: ["Bearer planted"] }\n`,
    );

    const { text } = await secret.fetch('/v1/config');
    await secret.stop();

    expect(text).toContain('"sha256:');
    expect(text).not.toContain('planted');
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
    traffic.started();

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
      expect([name, await running.override(name, 'ann', numbers)]).toMatchObject([
        name,
        { status: 200, json: { limit, override: numbers } },
      ]);
    }
    expect((await listed()).map(({ overrides }) => overrides.runtime)).toEqual([1, 1, 1, 1]);
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
