// What operators give to single keys: on one gateway, seen by the others, kept over restarts.
import { afterAll, afterEach, beforeAll, expect, test } from 'vitest';
import { PATIENCE_MS } from '../../../../test/patience.ts';
import { startRedis, type RedisServer } from '../../../../test/redis/servers.ts';
import { GatewayProcess } from './gateway-process.ts';
import { startBackend, type Backend } from './traffic.ts';

let redis: RedisServer;
let backend: Backend;
let gateways: GatewayProcess[] = [];

beforeAll(async () => {
  [redis, backend] = await Promise.all([startRedis(), startBackend()]);
});

afterEach(async () => {
  await Promise.all(gateways.map(async (gateway) => gateway.remove()));
  gateways = [];
});

afterAll(async () => {
  await Promise.all([redis.stop(), backend.close()]);
});

const REDIS = (): string =>
  `redis: { endpoints: ["127.0.0.1:${redis.port}"], read_timeout: 1s, key_prefix: "${Math.random().toString(36).slice(2)}:" }`;

function config(store: string, workers = 1): string {
  return `
server: { address: "127.0.0.1:0", workers: ${workers} }
admin: { address: "127.0.0.1:0" }
backend: { url: "${backend.url}" }
${store}
logging: { access_log_enabled: false, decision_log: "off" }
rate_limit:
  deadline: 5s
  policies: { calls: { algorithm: fixedWindow, quota: 1000, window: 1h } }
  rules: [{ name: all, match: {}, key: { type: header, header_name: X-User }, policies: [calls] }]
`;
}

async function start(yaml: string): Promise<GatewayProcess> {
  const gateway = await GatewayProcess.start(yaml);
  gateways.push(gateway);
  return gateway;
}

async function change(gateway: GatewayProcess, path: string, body?: object): Promise<number> {
  const { status } = await fetch(`${gateway.adminUrl}${path}`, {
    method: body === undefined ? 'DELETE' : 'PUT',
    headers: { 'Content-Type': 'application/json' },
    ...(body === undefined ? {} : { body: JSON.stringify(body) }),
  });
  return status;
}

/** `"calls";q=1000;w=3600` */
async function policyTold(gateway: GatewayProcess, user = 'ann'): Promise<string | null> {
  const response = await fetch(gateway.url, { headers: { 'X-User': user } });
  await response.arrayBuffer();
  return response.headers.get('ratelimit-policy');
}

async function json(gateway: GatewayProcess, path: string): Promise<unknown> {
  return (await fetch(`${gateway.adminUrl}${path}`)).json();
}

test('an override set on one gateway holds on another, in its workers, and after a restart of both', async () => {
  const yaml = config(REDIS(), 2);
  const [one, other] = await Promise.all([start(yaml), start(yaml)]);
  expect(await policyTold(other)).toContain('q=1000');

  const told = { quota: 7, expires_in: '1h', by: 'eve', note: 'ticket 12' };
  expect(await change(one, '/v1/keys/calls/ann/override', told)).toBe(200);
  await expect.poll(async () => policyTold(other), { timeout: PATIENCE_MS, interval: 20 }).toContain('q=7;');
  const listed = await json(other, '/v1/overrides');
  await Promise.all([one.terminate(), other.terminate()]);
  await other.launch();

  expect(listed).toMatchObject({
    keptIn: 'redis',
    overrides: {
      total: 1,
      items: [{ policy: 'calls', key: 'ann', numbers: { quota: 7 }, by: 'eve', note: 'ticket 12' }],
    },
  });
  // The first request of every worker.
  for (let at = 0; at < 8; at += 1) expect(await policyTold(other)).toContain('q=7;');
  expect(await change(other, '/v1/keys/calls/ann/override')).toBe(200);
  await expect.poll(async () => policyTold(other), { timeout: PATIENCE_MS }).toContain('q=1000;');
});

test('a block denies everything to a key on every gateway until it ends', async () => {
  const yaml = config(REDIS());
  const [one, other] = await Promise.all([start(yaml), start(yaml)]);
  const ask = async (user: string): Promise<Response> => fetch(other.url, { headers: { 'X-User': user } });

  await change(one, '/v1/keys/calls/ann/block', { expires_in: '1h', note: 'abuse' });
  await expect.poll(async () => (await ask('ann')).status, { timeout: PATIENCE_MS }).toBe(429);
  const denied = await ask('ann');
  const neighbour = await ask('bob');
  const state = await json(other, '/v1/keys/calls/ann');
  await change(other, '/v1/keys/calls/ann/block');
  await expect.poll(async () => (await ask('ann')).status, { timeout: PATIENCE_MS }).toBe(200);

  expect(neighbour.status).toBe(200);
  expect(Number(denied.headers.get('retry-after'))).toBeGreaterThan(3500);
  expect(state).toMatchObject({ allowed: false, source: 'block', block: { note: 'abuse' } });
});

test('without Redis what was set at run time is in a file of the gateway, if it has a folder for it', async () => {
  const gateway = await start(config(''));
  await gateway.terminate();
  gateway.write(config(`state_dir: "${gateway.folder}/state"`));
  await gateway.launch();
  await change(gateway, '/v1/keys/calls/ann/override', { quota: 5 });
  await change(gateway, '/v1/keys/calls/bob/block', { expires_in: '1h' });

  await gateway.terminate();
  await gateway.launch();

  expect(await policyTold(gateway)).toContain('q=5;');
  expect((await fetch(gateway.url, { headers: { 'X-User': 'bob' } })).status).toBe(429);
  expect(await json(gateway, '/v1/overrides')).toMatchObject({ keptIn: 'file', blocks: { total: 1 } });
});

test('a thousand changes under load: every request is decided by the numbers of one of them', async () => {
  const yaml = config(REDIS());
  const [one, other] = await Promise.all([start(yaml), start(yaml)]);
  const seen = new Map<string, number>();
  const ending = new AbortController();
  const load = async (gateway: GatewayProcess): Promise<void> => {
    while (!ending.signal.aborted) {
      const told = (await policyTold(gateway)) ?? 'none';
      seen.set(told, (seen.get(told) ?? 0) + 1);
    }
  };
  const both = [
    { quota: 100, window: '10s' },
    { quota: 200, window: '20s' },
  ];
  await change(one, '/v1/keys/calls/ann/override', both[0]);
  await expect.poll(async () => policyTold(other), { timeout: PATIENCE_MS }).toContain('q=100;');
  const loads = [one, one, other, other].map(load);

  for (let at = 1; at <= 1000; at += 1) {
    expect(await change(at % 3 === 0 ? other : one, '/v1/keys/calls/ann/override', both[at % 2])).toBe(200);
  }
  ending.abort();
  await Promise.all(loads);

  const whole = ['"calls";q=100;w=10', '"calls";q=200;w=20'];
  expect([...seen.keys()].filter((told) => !whole.includes(told))).toEqual([]);
  expect([...seen.values()].every((count) => count > 10)).toBe(true);
});

test('every gateway lists all of them, the busiest keys and those denied most', async () => {
  const yaml = config(REDIS());
  const [one, other] = await Promise.all([start(yaml), start(yaml)]);
  await change(one, '/v1/keys/calls/eve/block', {});
  // Where it was set it holds at once.
  expect((await fetch(one.url, { headers: { 'X-User': 'eve' } })).status).toBe(429);
  for (let at = 0; at < 20; at += 1) await policyTold(at % 2 === 0 ? one : other, 'ann');
  await policyTold(one, 'bob');

  const keys = async (): Promise<unknown> => json(other, '/v1/keys?limit=2');

  await expect.poll(keys, { timeout: PATIENCE_MS }).toMatchObject({
    instances: 2,
    busiest: [{ policy: 'calls', key: 'ann', count: 20, error: 0, state: { remaining: 980 } }, {}],
    denied: [{ key: 'eve', count: 1, error: 0, state: { source: 'block' } }],
  });
  const fleet = await json(one, '/v1/fleet');
  expect(fleet).toMatchObject({
    configurations: [expect.stringMatching(/^[\da-f]{12}$/)],
    instances: [
      { kind: 'gateway', more: { phase: 'ready', traffic: { requests: {} } } },
      { kind: 'gateway' },
    ],
  });
});
