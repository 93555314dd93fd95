// docs/recipes.md: every configuration is started, and does what the page says.
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { request as httpsRequest } from 'node:https';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import { WebSocket, WebSocketServer } from 'ws';
import { createCertificates } from '../../../../test/redis/certificates.ts';
import { TOPOLOGIES } from '../../../../test/redis/gateway-topologies.ts';
import { PATIENCE_MS } from '../../../../test/patience.ts';
import { eventually, exchange, startOrigin, type Origin } from '../proxy/rig.ts';
import { runGateway, type HeardResponse, type RunningGateway } from '../runtime/running-gateway.ts';

const page = readFileSync(new URL('../../../../docs/recipes.md', import.meta.url), 'utf8');
const recipes = new Map(
  [...page.matchAll(/^## (.+)\n[^]*?^```yaml\n([^]*?)^```$/gm)].map(([, title = '', yaml = '']) => [
    title,
    yaml,
  ]),
);

interface Kitchen extends RunningGateway {
  readonly backend: Origin;
}

/** The configuration of a recipe in front of a real backend; `changes` are what else has an address here. */
async function cook(
  title: string,
  changes: Readonly<Record<string, string>> = {},
  variables: Readonly<Record<string, string>> = {},
): Promise<Kitchen> {
  const yaml = recipes.get(title);
  if (yaml === undefined) throw new Error(`there is no recipe "${title}"`);
  const backend = await startOrigin();
  let text = yaml.replaceAll('http://localhost:3000', backend.url);
  for (const [from, to] of Object.entries(changes)) {
    if (!text.includes(from)) throw new Error(`the recipe does not contain ${from}`);
    text = text.replaceAll(from, to);
  }
  return { ...(await runGateway(text, variables)), backend };
}

type Sent = Parameters<RunningGateway['ask']>[1];

async function statuses(
  { ask }: RunningGateway,
  count: number,
  path = '/',
  sent: Sent = {},
): Promise<readonly number[]> {
  const found: number[] = [];
  for (let at = 0; at < count; at += 1) found.push((await ask(path, sent)).status);
  return found;
}

const TASTES: Readonly<Record<string, (title: string) => Promise<void>>> = {
  'Protect a login': async (title) => {
    const gateway = await cook(title);

    expect(await statuses(gateway, 5, '/login', { method: 'POST' })).toEqual([200, 200, 200, 200, 200]);
    expect(await statuses(gateway, 1, '/LOGIN/', { method: 'POST' })).toEqual([429]);
    const denied = await gateway.ask('/login', { method: 'POST' });
    const blocked = await gateway.ask('/login', { method: 'POST' });
    expect(JSON.parse(denied.body)).not.toHaveProperty('penalty');
    expect(JSON.parse(blocked.body)).toMatchObject({ penalty: { reason: 'denied 3 times within 1m' } });
    expect(Number(blocked.headers['retry-after'])).toBeGreaterThan(800);
    expect(await statuses(gateway, 1, '/login')).toEqual([200]);
  },
  'Limit each API key': async (title) => {
    const gateway = await cook(title);

    expect(await statuses(gateway, 4, '/', { headers: { 'X-Api-Key': 'one' } })).toEqual([
      200, 200, 200, 429,
    ]);
    expect(await statuses(gateway, 1, '/', { headers: { 'X-Api-Key': 'two' } })).toEqual([200]);
    expect(await statuses(gateway, 1)).toEqual([400]);
  },
  'Give some keys a larger plan': async (title) => {
    const gateway = await cook(title);

    expect(await statuses(gateway, 3, '/', { headers: { 'X-Tenant': 'other' } })).toEqual([200, 200, 429]);
    const acme = await statuses(gateway, 6, '/', { headers: { 'X-Tenant': 'acme' } });
    expect(acme).toEqual([200, 200, 200, 200, 200, 429]);
  },
  'Limit each tenant by its path': async (title) => {
    const gateway = await cook(title);

    expect(await statuses(gateway, 3, '/t/acme/items')).toEqual([200, 200, 429]);
    expect(await statuses(gateway, 1, '/t/other/items')).toEqual([200]);
  },
  'Allow larger bursts to premium clients': async (title) => {
    const gateway = await cook(title);

    const premium = await statuses(gateway, 5, '/', { headers: { 'X-Plan': 'premium' } });
    expect(premium).toEqual([200, 200, 200, 200, 429]);
    expect(await statuses(gateway, 2)).toEqual([200, 429]);
  },
  'A quota per calendar day': async (title) => {
    const gateway = await cook(title);

    expect(await statuses(gateway, 4)).toEqual([200, 200, 200, 429]);
  },
  'A short and a long limit together': async (title) => {
    const gateway = await cook(title);

    const [first, , third] = [await gateway.ask(), await gateway.ask(), await gateway.ask()];
    expect(first.headers['ratelimit-policy']).toMatch(/"burst".*"monthly"/);
    expect(third.status).toBe(429);
    expect(third.headers['ratelimit']).toContain('"monthly";r=998');
  },
  'Count expensive requests more': async (title) => {
    const gateway = await cook(title);

    expect(await statuses(gateway, 3, '/export')).toEqual([200, 200, 429]);
    expect(await statuses(gateway, 1)).toEqual([429]);
  },
  'Let requests wait instead of refusing them': async (title) => {
    const gateway = await cook(title);

    const all = await Promise.all(Array.from({ length: 20 }, async () => gateway.ask()));
    const admitted = all.filter(({ status }) => status === 200).length;
    // One goes at once, and as many as have their turn within 200 ms at one per 50 ms wait for it.
    expect(admitted).toBeGreaterThanOrEqual(5);
    expect(all.some(({ status }) => status === 429)).toBe(true);
  },
  'Do not count some addresses': async (title) => {
    const gateway = await cook(title);

    expect(await statuses(gateway, 3)).toEqual([200, 200, 200]);
  },
  'Keep some addresses out': async (title) => {
    const gateway = await cook(title);

    expect(await statuses(gateway, 1, '/', { headers: { 'X-Forwarded-For': '198.51.100.7' } })).toEqual([
      403,
    ]);
    expect(await statuses(gateway, 1, '/', { headers: { 'X-Forwarded-For': '203.0.113.7' } })).toEqual([200]);
  },
  'Count clients behind a load balancer': async (title) => {
    const gateway = await cook(title);

    expect(await statuses(gateway, 2, '/', { headers: { 'X-Forwarded-For': '203.0.113.7' } })).toEqual([
      200, 429,
    ]);
    expect(await statuses(gateway, 1, '/', { headers: { 'X-Forwarded-For': '203.0.113.8' } })).toEqual([200]);
  },
  'Try a limit before it refuses anyone': async (title) => {
    const gateway = await cook(title);

    expect(await statuses(gateway, 3)).toEqual([200, 200, 200]);
    await eventually(() => gateway.log.join('').includes('wouldDeny'));
  },
  'Serve a browser application of another origin': async (title) => {
    const gateway = await cook(title);
    const Origin = 'https://app.example.com';
    const preflight = { method: 'OPTIONS', headers: { Origin, 'Access-Control-Request-Method': 'PUT' } };

    expect(await statuses(gateway, 3, '/', preflight)).toEqual([204, 204, 204]);
    const [first, second] = [
      await gateway.ask('/', { headers: { Origin } }),
      await gateway.ask('/', { headers: { Origin } }),
    ];
    expect([first.status, second.status]).toEqual([200, 429]);
    expect(second.headers['access-control-allow-origin']).toBe(Origin);
    expect(second.headers['access-control-expose-headers']).toContain('Retry-After');
  },
  'Close for maintenance': async (title) => {
    const gateway = await cook(title);

    const { status, headers, body } = await gateway.ask('/shop');
    expect([status, headers['retry-after'], headers['content-type']]).toEqual([
      503,
      '600',
      'text/html; charset=utf-8',
    ]);
    expect(body).toContain('closed for maintenance');
    await gateway.askAdmin('/v1/maintenance/off', {
      method: 'POST',
      headers: { 'Content-Type': 'application/json' },
    });
    expect(await statuses(gateway, 1)).toEqual([200]);
  },
  'Several backends behind one gateway': async (title) => {
    const orders = await startOrigin();
    const gateway = await cook(title, { 'http://localhost:3001': orders.url });

    await gateway.ask('/orders/1');
    await gateway.ask('/items');
    expect(orders.requests.map(({ url }) => url)).toEqual(['/orders/1']);
    expect(gateway.backend.requests.map(({ url }) => url)).toEqual(['/items']);
  },
  'Strip or replace a prefix': async (title) => {
    const { ask, backend } = await cook(title);

    await ask('/api/items?a=1');
    expect(backend.requests[0]?.url).toBe('/v2/items?a=1');
    expect(backend.requests[0]?.header('X-Forwarded-Prefix')).toBe('/api');
  },
  'Set and remove headers for the backend': async (title) => {
    const { ask, backend } = await cook(title);

    await ask('/static/a.css', { headers: { Cookie: 'a=b', 'X-Gateway-Key': 'forged' } });
    expect(backend.requests[0]?.header('Cookie')).toBeUndefined();
    expect(backend.requests[0]?.header('X-Gateway-Key')).toBe('change-me');
  },
  'A 429 page of your own': async (title) => {
    const { ask } = await cook(title);
    await ask();

    const html = await ask("/a'b", { headers: { Accept: 'text/html' } });
    const json = await ask('/', { headers: { Accept: 'application/json' } });
    expect([html.status, html.headers['x-reason']]).toEqual([429, 'few']);
    expect(html.body).toMatch(/^<h1>Slow down<\/h1><p>Try &#47;a&#39;b again in \d+ seconds\.<\/p>$/);
    expect(JSON.parse(json.body)).toMatchObject({ error: 'rate_limited', policy: 'few' });
  },
  'Limit WebSockets': async (title) => {
    const { port, backend } = await cook(title);
    const sockets = new WebSocketServer({ noServer: true });
    backend.server.on('upgrade', (request, socket, head) =>
      sockets.handleUpgrade(request, socket, head, () => undefined),
    );
    const open = async () =>
      new Promise<number>((resolve) => {
        const client = new WebSocket(`ws://127.0.0.1:${port}/live`);
        onTestFinished(() => client.terminate());
        client.once('open', () => resolve(101));
        client.once('unexpected-response', (_, response) => resolve(response.statusCode ?? 0));
        client.on('error', () => undefined);
      });

    expect([await open(), await open()]).toEqual([101, 429]);
  },
  'Limit gRPC methods': async (title) => {
    const { port } = await cook(title);
    const call = async () =>
      exchange(
        port,
        'POST /shop.v1.Catalog/Search HTTP/1.1\r\nHost: a\r\nContent-Type: application/grpc\r\nContent-Length: 0\r\n\r\n',
      );
    await call();

    expect((await call()).text).toContain('grpc-status: 8\r\n');
  },
  'Share limits between gateways': async (title) => shared(title, 'single', 'localhost:6379'),
  'Redis behind Sentinel': async (title) => shared(title, 'sentinel', 'localhost:26379'),
  'Redis Cluster': async (title) => shared(title, 'cluster', 'localhost:7000'),
  'Refuse while Redis is down': async (title) => {
    const gateway = await cook(title, { 'localhost:6379': '127.0.0.1:1' });

    const { status, headers } = await gateway.ask();
    expect(status).toBe(503);
    expect(headers).toHaveProperty('retry-after');
  },
  'Serve HTTPS': async (title) => {
    const folder = mkdtempSync(join(tmpdir(), 'spillgate-recipe-'));
    onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
    const { ca, server } = await createCertificates();
    writeFileSync(join(folder, 'tls.crt'), server.cert);
    writeFileSync(join(folder, 'tls.key'), server.key);
    const { port } = await cook(title, { '/etc/spillgate': folder });

    const status = await new Promise((resolve, reject) => {
      httpsRequest({ port, host: '127.0.0.1', ca, agent: false }, (response) =>
        resolve(response.resume().statusCode),
      )
        .once('error', reject)
        .end();
    });
    expect(status).toBe(200);
  },
  'Ask a service who may pass': async (title) => {
    const service = await startOrigin((request, response) => {
      response.writeHead(request.headers.cookie === 'session=good' ? 200 : 302, {
        'X-User-Id': 'ann',
        Location: '/login',
      });
      response.end();
    });
    const { ask, backend } = await cook(title, { 'http://localhost:4000': service.url });

    const stranger = await ask('/private');
    const known = await ask('/private', { headers: { Cookie: 'session=good', 'X-User-Id': 'forged' } });
    expect([stranger.status, stranger.headers.location]).toEqual([302, '/login']);
    expect(known.status).toBe(200);
    expect(backend.requests.map((seen) => seen.header('X-User-Id'))).toEqual(['ann']);
  },
  "Ask a service of Envoy's ext_authz": async (title) => {
    // The decision service of another gateway is such a service.
    const other = await runGateway(`
backend: { url: "http://127.0.0.1:1" }
server: { client_address: { trusted_proxies: [loopback] } }
service: { address: "127.0.0.1:0" }
rate_limit: { rules: [{ name: closed, match: { path: /closed }, deny: { cidrs: ["0.0.0.0/0", "::/0"] } }] }
`);
    const address = `127.0.0.1:${other.gateway.serviceAddress()?.port ?? 0}`;
    const gateway = await cook(
      title,
      { 'localhost:4001': address },
      { SPILLGATE_AUTHORIZATION_TIMEOUT: '60s' },
    );
    const down = await cook(title, { 'localhost:4001': '127.0.0.1:1' });

    expect(await statuses(gateway, 1, '/closed')).toEqual([403]);
    expect(await statuses(gateway, 1, '/open')).toEqual([200]);
    expect(await statuses(down, 1, '/closed')).toEqual([200]);
  },
  'Write usage events to a file': async (title) => {
    const folder = mkdtempSync(join(tmpdir(), 'spillgate-recipe-'));
    onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
    const { ask } = await cook(title, { '/var/log/spillgate': folder });
    await ask('/items');

    const file = join(folder, 'usage.ndjson');
    await eventually(() => existsSync(file) && readFileSync(file, 'utf8').endsWith('\n'));
    expect(JSON.parse(readFileSync(file, 'utf8'))).toMatchObject({ data: { path: '/items', status: 200 } });
  },
  'Send usage events to a service': async (title) => {
    const service = await startOrigin();
    const { ask } = await cook(title, { 'http://localhost:4002': service.url });
    await ask('/items');

    await eventually(() => service.requests[0]?.complete === true);
    expect(JSON.parse(service.requests[0]?.body ?? '')).toMatchObject([{ data: { path: '/items' } }]);
  },
};

/** A busy machine is no outage of Redis. */
const PATIENT = {
  SPILLGATE_RATE_LIMIT_DEADLINE: `${PATIENCE_MS}ms`,
  SPILLGATE_REDIS_READ_TIMEOUT: `${PATIENCE_MS}ms`,
};

/** Two gateways on one Redis admit together what one may. */
async function shared(
  title: string,
  kind: 'single' | 'sentinel' | 'cluster',
  address: string,
): Promise<void> {
  const topology = await TOPOLOGIES[kind]();
  onTestFinished(async () => topology.stop());
  const name = /master_name: (\S+)/.exec(topology.settings)?.[1];
  const changes = {
    [`"${address}"`]: topology.ports.map((port) => `"127.0.0.1:${port}"`).join(', '),
    ...(name === undefined ? {} : { mymaster: name }),
  };
  const [one, other] = [await cook(title, changes, PATIENT), await cook(title, changes, PATIENT)];

  const answers: HeardResponse[] = [];
  for (const { ask } of [one, other, one, other]) answers.push(await ask());

  expect(answers.map(({ status }) => status)).toEqual([200, 200, 429, 429]);
}

test('there are at least 20 recipes, and each is tried', () => {
  expect(recipes.size).toBeGreaterThanOrEqual(20);
  expect([...recipes.keys()]).toEqual(Object.keys(TASTES));
});

test.each(Object.entries(TASTES))('%s', { timeout: 2 * PATIENCE_MS }, async (title, taste) => {
  expect.hasAssertions();
  await taste(title);
});
