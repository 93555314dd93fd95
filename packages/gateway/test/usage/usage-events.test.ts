import { existsSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import { eventually, startOrigin } from '../proxy/rig.ts';
import { runGateway } from '../runtime/running-gateway.ts';

const RULES = `
rate_limit:
  policies: { few: { algorithm: fixedWindow, quota: 2, window: 1h } }
  rules: [{ name: all, policies: [few], key: { type: header, header_name: X-Tenant } }]
`;

interface SeenEvent {
  readonly id: string;
  readonly data: { readonly outcome: string };
}

test('events are appended to a file, one per line', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'spillgate-usage-'));
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
  const file = join(folder, 'usage.ndjson');
  const origin = await startOrigin();
  const { ask } = await runGateway(`
backend: { url: "${origin.url}" }
usage_events: { enabled: true, file: "${file}", flush_interval: 10ms }
${RULES}`);
  const linesOf = (): readonly string[] => {
    try {
      return readFileSync(file, 'utf8').split('\n').filter(Boolean);
    } catch {
      return [];
    }
  };

  for (let sent = 0; sent < 3; sent += 1) await ask('/items?secret=1', { headers: { 'X-Tenant': 'acme' } });
  await ask('/', { method: 'CONNECT-X' });
  await eventually(() => linesOf().length >= 3);

  const events = linesOf().map((line) => JSON.parse(line) as SeenEvent);
  expect(new Set(events.map(({ id }) => id)).size).toBe(events.length);
  expect(events.slice(0, 3).map(({ data }) => data.outcome)).toEqual(['forwarded', 'forwarded', 'refused']);
  expect(events[0]).toMatchObject({
    specversion: '1.0',
    type: 'spillgate.request.finished',
    datacontenttype: 'application/json',
    data: {
      rule: 'all',
      counted: [{ policy: 'few', key: 'acme' }],
      method: 'GET',
      path: '/items',
      status: 200,
      bytesSent: 2,
    },
  });
});

test('an event has the fields that the documentation lists, and no others', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'spillgate-usage-'));
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
  const file = join(folder, 'usage.ndjson');
  const origin = await startOrigin((_, response) => response.writeHead(200, { 'X-Cost': '7' }).end('hello'));
  const { ask } = await runGateway(`
backend: { url: "${origin.url}" }
usage_events: { enabled: true, file: "${file}", flush_interval: 10ms }
rate_limit:
  policies: { units: { algorithm: fixedWindow, quota: 100, window: 1h } }
  rules:
    - name: all
      policies: [units]
      key: { type: header, header_name: X-Tenant }
      cost: 60
      settle: { type: header, header_name: X-Cost }
`);
  const sent = { headers: { 'X-Tenant': 'acme', 'X-Request-Id': 'one', Host: 'api.example.com' } };
  const linesOf = (): readonly string[] =>
    existsSync(file) ? readFileSync(file, 'utf8').split('\n').filter(Boolean) : [];

  await ask('/items?secret=1', { ...sent, method: 'POST', body: 'abc' });
  await eventually(() => linesOf().length === 1);
  await ask('/items', { headers: { Host: 'api.example.com' } });
  await eventually(() => linesOf().length === 2);

  const [charged, refused] = linesOf().map((line) => JSON.parse(line) as { readonly data: object });
  expect(charged).toEqual({
    specversion: '1.0',
    id: expect.stringMatching(/^[\da-f-]{36}$/) as string,
    source: expect.stringMatching(/^\/spillgate\//) as string,
    type: 'spillgate.request.finished',
    time: expect.stringMatching(/^\d{4}-\d\d-\d\dT.*Z$/) as string,
    datacontenttype: 'application/json',
    data: {
      requestId: expect.any(String) as string,
      outcome: 'forwarded',
      rule: 'all',
      counted: [{ policy: 'units', key: 'acme' }],
      method: 'POST',
      host: 'api.example.com',
      path: '/items',
      status: 200,
      clientAddress: '127.0.0.1',
      bytesReceived: 3,
      bytesSent: 5,
      durationMs: expect.any(Number) as number,
      cost: 7,
      costEstimated: false,
    },
  });
  expect(refused?.data).toMatchObject({ outcome: 'refused', reason: 'missingKey', counted: [] });
  const documented = readFileSync(new URL('../../../../docs/gateway-operations.md', import.meta.url), 'utf8');
  for (const field of Object.keys({ ...charged?.data, ...refused?.data })) {
    expect(documented).toContain(`| \`${field}\``);
  }
});

test('what no policy charged costs nothing, so that the sum of all costs is what was charged', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'spillgate-usage-'));
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
  const file = join(folder, 'usage.ndjson');
  const origin = await startOrigin((_, response) => response.writeHead(200, { 'X-Cost': '0' }).end('hello'));
  const { ask } = await runGateway(`
backend: { url: "${origin.url}" }
usage_events: { enabled: true, file: "${file}", flush_interval: 10ms, outcomes: [forwarded, refused, failed, aborted] }
identity: { api_keys: { keys: [{ name: acme, hash: "sha256:${'0'.repeat(64)}" }] } }
rate_limit:
  policies:
    ten: { algorithm: fixedWindow, quota: 10, window: 1h }
    tried: { algorithm: fixedWindow, quota: 10, window: 1h }
    back: { algorithm: fixedWindow, quota: 10, window: 1h }
    one: { algorithm: fixedWindow, quota: 10, window: 1h }
  rules:
    - { name: costly, match: { path: /costly }, policies: [ten], cost: 10 }
    - { name: shadow, match: { path: /shadow }, policies: [tried], cost: 10, shadow: true }
    - { name: refunded, match: { path: /refunded }, policies: [back], cost: 10, settle: { type: header, header_name: X-Cost } }
    - { name: plain, match: { path: /plain }, policies: [one] }
    - { name: free, match: { path: /free }, policies: [] }
`);
  const costs = (): readonly (readonly [path: string, status: number, cost: number])[] =>
    (existsSync(file) ? readFileSync(file, 'utf8').split('\n').filter(Boolean) : []).map((line) => {
      const { data } = JSON.parse(line) as { data: { path: string; status: number; cost: number } };
      return [data.path, data.status, data.cost];
    });

  const paths = ['/costly', '/costly', '/shadow', '/shadow', '/refunded', '/plain', '/free'];
  for (const path of paths) {
    const before = costs().length;
    await ask(path);
    await eventually(() => costs().length > before);
  }
  await ask('/plain', { headers: { 'X-API-Key': 'nobodys' } });
  await eventually(() => costs().length > paths.length);

  expect(costs()).toEqual([
    ['/costly', 200, 10],
    ['/costly', 429, 0],
    ['/shadow', 200, 10],
    ['/shadow', 200, 0],
    ['/refunded', 200, 0],
    ['/plain', 200, 1],
    ['/free', 200, 0],
    ['/plain', 401, 0],
  ]);
});

test('a service gets batches of CloudEvents, and a batch that failed again with the same ids', async () => {
  let failures = 2;
  const service = await startOrigin((request, response) => {
    request.resume().once('end', () => {
      response.statusCode = failures > 0 ? 503 : 202;
      failures -= 1;
      response.end();
    });
  });
  const origin = await startOrigin();
  const { ask, gateway } = await runGateway(`
backend: { url: "${origin.url}" }
usage_events:
  enabled: true
  flush_interval: 10ms
  http: { url: "${service.url}/events?a=1", auth: { value: Bearer planted } }
${RULES}`);

  await ask('/', { headers: { 'X-Tenant': 'acme' } });
  await ask('/', { headers: { 'X-Tenant': 'acme' } });
  await eventually(() => failures < 0);
  await gateway.drain();

  const [first, ...later] = service.requests;
  const idsOf = (body: string): readonly string[] => (JSON.parse(body) as SeenEvent[]).map(({ id }) => id);
  expect(first?.method).toBe('POST');
  expect(first?.url).toBe('/events?a=1');
  expect(first?.header('content-type')).toBe('application/cloudevents-batch+json; charset=utf-8');
  expect(first?.header('authorization')).toBe('Bearer planted');
  expect(idsOf(later[0]?.body ?? '[]')).toEqual(expect.arrayContaining([...idsOf(first?.body ?? '[]')]));
  const all = new Set(service.requests.flatMap(({ body }) => idsOf(body)));
  expect(all.size).toBe(2);
});

test('a service that hangs slows no request down, and what is beyond the bound is dropped', async () => {
  const service = await startOrigin(() => undefined);
  const origin = await startOrigin();
  const { ask, askAdmin } = await runGateway(`
backend: { url: "${origin.url}" }
usage_events: { enabled: true, flush_interval: 10ms, batch_size: 1, max_queued: 3, http: { url: "${service.url}/" } }
`);

  const statuses = await Promise.all(Array.from({ length: 10 }, async () => (await ask()).status));

  expect(statuses.every((status) => status === 200)).toBe(true);
  const metrics = await askAdmin('/metrics');
  expect(metrics.body).toContain('spillgate_gateway_usage_events_total{event="dropped"} 7');
});
