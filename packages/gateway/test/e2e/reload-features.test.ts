// Every feature is turned on and off while the gateway runs.
import { once } from 'node:events';
import { writeFileSync } from 'node:fs';
import { createServer, type ServerResponse } from 'node:http';
import { connect as connectHttp2 } from 'node:http2';
import { connect, createServer as createNetServer, type AddressInfo } from 'node:net';
import { join } from 'node:path';
import { get as getSecurely } from 'node:https';
import { afterEach, beforeEach, describe, expect, onTestFinished, test } from 'vitest';
import { PATIENCE_MS } from '../../../../test/patience.ts';
import { createCertificates } from '../../../../test/redis/servers.ts';
import { startTraceCollector, type TraceCollector } from '../telemetry/trace-collector.ts';
import { GatewayProcess } from './gateway-process.ts';
import { startBackend, startLoad, statusOf, type Backend } from './traffic.ts';

let backend: Backend;
let gateway: GatewayProcess;

beforeEach(async () => {
  backend = await startBackend();
  gateway = await GatewayProcess.start(config());
});

afterEach(async () => {
  await gateway.remove();
  await backend.close();
});

interface Changes {
  readonly server?: string;
  readonly admin?: string;
  readonly more?: string;
}

const HERE = 'address: "127.0.0.1:0"';

/** The policy of tenants is always the same. */
function config({ server = HERE, admin = HERE, more = '' }: Changes = {}): string {
  return `
server: { ${server} }
admin: { ${admin} }
backend: { url: "${backend.url}" }
logging: { access_log_enabled: false, decision_log: "off" }
rate_limit:
  policies: { tenant: { average: 2, period: 1h } }
  rules:
    - name: tenants
      match: { header: { X-Tenant: "*" } }
      policies: [tenant]
      key: { type: header, header_name: X-Tenant }
${more}
`;
}

function tracing({ url }: TraceCollector, rate = 1): string {
  return `tracing: { enabled: true, endpoint: "${url}", sample_rate: ${rate} }`;
}

async function takenPort(): Promise<number> {
  const { port, release } = await takePort();
  onTestFinished(release);
  return port;
}

async function twoFreePorts(): Promise<readonly number[]> {
  // Both at once, so that they differ.
  const taken = [await takePort(), await takePort()];
  await Promise.all(taken.map(async ({ release }) => release()));
  return taken.map(({ port }) => port);
}

async function takePort(): Promise<{ readonly port: number; readonly release: () => Promise<void> }> {
  const server = createNetServer();
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const release = async (): Promise<void> => {
    server.close();
    await once(server, 'close');
  };
  return { port: (server.address() as AddressInfo).port, release };
}

const CLIENTS = 8;

test('every feature is turned on, off and on again under load: no request fails, and what was counted stays counted', async () => {
  const collector = await startTraceCollector();
  const tenant = { 'X-Tenant': 'acme' };
  const before = [await statusOf(gateway.url, tenant), await statusOf(gateway.url, tenant)];
  const load = startLoad({ urls: () => [gateway.url], clients: CLIENTS });
  const features: readonly Changes[] = [
    { more: tracing(collector) },
    { server: `${HERE}, http2: false` },
    { server: `${HERE}, max_header_bytes: 8KiB, max_uri_bytes: 4KiB, max_headers: 50` },
    { server: `${HERE}, max_streams_per_connection: 5, max_connections_per_address: 50` },
    { admin: 'enabled: false' },
    { admin: `${HERE}, read_timeout: 1s, write_timeout: 2s, idle_timeout: 3s` },
    { admin: 'address: "localhost:0"' },
  ];
  const outcomes: unknown[] = [];
  const after: number[] = [];

  for (const feature of [...features, ...features]) {
    for (const text of [config(feature), config()]) {
      outcomes.push((await gateway.reload(text))['outcome']);
      // With every configuration requests are made, also if reloads are quick.
      await load.answers(2 * CLIENTS);
    }
    after.push(await statusOf(gateway.url, tenant));
  }

  const { statuses, failures } = await load.stop();
  expect(failures).toEqual([]);
  expect([...statuses.keys()]).toEqual([200]);
  expect(new Set(outcomes)).toEqual(new Set(['applied']));
  expect(before).toEqual([200, 200]);
  expect(new Set(after)).toEqual(new Set([429]));
  // Spans are sent behind the requests that they are about.
  await expect.poll(() => collector.spans.length, { timeout: PATIENCE_MS }).toBeGreaterThan(0);
});

describe('traces', () => {
  test('begin and end with a reload, go elsewhere, and lose nothing that was under way', async () => {
    const [first, second] = [await startTraceCollector(), await startTraceCollector()];
    const held: ServerResponse[] = [];
    const slow = createServer((_, response) => held.push(response));
    slow.listen(0, '127.0.0.1');
    await once(slow, 'listening');
    onTestFinished(() => void slow.close());
    const slowUrl = `http://127.0.0.1:${(slow.address() as AddressInfo).port}`;
    const at = (more = ''): string => config({ more }).replace(backend.url, slowUrl);

    await statusOf(`${gateway.url}/untraced-before`);
    await gateway.reload(at(tracing(first)));
    const traced = statusOf(`${gateway.url}/first`);
    await expect.poll(() => held.length).toBe(1);
    await gateway.reload(at(tracing(second)));
    const elsewhere = statusOf(`${gateway.url}/second`);
    await expect.poll(() => held.length).toBe(2);
    await gateway.reload(at());
    const untraced = statusOf(`${gateway.url}/untraced-after`);
    await expect.poll(() => held.length).toBe(3);
    for (const response of held) response.end('ok');
    expect(await Promise.all([traced, elsewhere, untraced])).toEqual([200, 200, 200]);
    await expect.poll(() => first.paths()).toContain('/first');
    await expect.poll(() => second.paths()).toContain('/second');
    await gateway.terminate();

    expect(new Set(first.paths())).toEqual(new Set(['/first']));
    expect(new Set(second.paths())).toEqual(new Set(['/second']));
  });

  test('follow another share of requests', async () => {
    const collector = await startTraceCollector();
    await gateway.reload(config({ more: tracing(collector, 0) }));
    await statusOf(`${gateway.url}/none`);
    await gateway.reload(config({ more: tracing(collector, 1) }));
    await statusOf(`${gateway.url}/all`);

    await expect.poll(() => collector.paths()).toContain('/all');
    expect(collector.paths()).not.toContain('/none');
  });
});

describe('the admin server', () => {
  const reloadBy = async (port: number): Promise<Response> =>
    fetch(`http://127.0.0.1:${port}/v1/reload`, {
      method: 'POST',
      headers: { 'Content-Type': 'application/json' },
      body: '{}',
    });

  test('answers the request that moves it or turns it off, and its old port is closed', async () => {
    const old = gateway.adminPort;
    gateway.write(config({ admin: 'address: "localhost:0"' }));
    const moved = await reloadBy(old);
    const line = await gateway.line(({ msg }) => msg === 'the gateway listens elsewhere');
    const now = Number(line['adminPort']);
    const ready = await fetch(`http://localhost:${now}/readyz`);
    await expect(fetch(`http://127.0.0.1:${old}/readyz`)).rejects.toThrow('fetch failed');
    await ready.body?.cancel();

    gateway.write(config({ admin: 'enabled: false' }));
    const off = await fetch(`http://localhost:${now}/v1/reload`, {
      method: 'POST',
      headers: { 'Content-Type': 'application/json' },
      body: '{}',
    });

    expect([moved.status, ready.status, off.status]).toEqual([200, 200, 200]);
    expect(await off.json()).toMatchObject({ outcome: 'applied', generation: 3 });
    expect(off.headers.get('connection')).toBe('close');
    await expect.poll(() => gateway.listeningPorts()).toBe(1);
    expect(await statusOf(gateway.url)).toBe(200);
    await gateway.reload(config());
    expect(gateway.listeningPorts()).toBe(2);
  });

  test('stays where it is if it cannot move, and nothing else changes either', async () => {
    const taken = await takenPort();
    const server = `${HERE}, http2: false`;

    const line = await gateway.reload(config({ server, admin: `address: "127.0.0.1:${taken}"` }));

    expect(line).toMatchObject({ outcome: 'refused', generation: 1 });
    expect(line['problems']).toEqual([
      expect.stringMatching(
        new RegExp(
          `spillgate\\.yaml:3:19: error: admin\\.address: 127\\.0\\.0\\.1:${taken} is in use by another program\\. Stop that one, or`,
        ),
      ),
    ]);
    expect((await fetch(`${gateway.adminUrl}/readyz`)).status).toBe(200);
    const session = connectHttp2(gateway.url);
    session.on('error', () => undefined);
    await once(session, 'remoteSettings');
    session.destroy();
  });

  test('has other timeouts from the reload on', async () => {
    await gateway.reload(config({ admin: `${HERE}, read_timeout: 200ms` }));
    const socket = connect(gateway.adminPort, '127.0.0.1');
    let text = '';
    socket.setEncoding('utf8').on('data', (chunk: string) => (text += chunk));
    socket.write('GET / HT');

    await once(socket, 'close');

    expect(text).toMatch(/^HTTP\/1\.1 408 /);
  });
});

describe('the address', () => {
  test('moves under load, and no request fails', async () => {
    const ports = [gateway.port, ...(await twoFreePorts())];
    // Clients know all places from the beginning, and ask around: at every moment somebody listens at one of them.
    const urls = [...ports, ...ports].map((port) => `http://127.0.0.1:${port}`);
    const load = startLoad({ urls: () => urls, clients: CLIENTS });
    await load.answers(50);

    for (const port of ports.slice(1)) {
      await gateway.reload(config({ server: `address: "127.0.0.1:${port}"` }));
      expect(gateway.port).toBe(port);
      await load.answers(100);
    }

    const { statuses, failures } = await load.stop();
    expect(failures).toEqual([]);
    expect([...statuses.keys()]).toEqual([200]);
    expect(gateway.listeningPorts()).toBe(2);
  });

  test('stays if the new one is taken, by another program or by the gateway itself', async () => {
    const taken = await takenPort();
    const byOther = await gateway.reload(config({ server: `address: "127.0.0.1:${taken}"` }));
    const own = `address: ":${gateway.port}"`;
    const bySelf = await gateway.reload(config({ server: own }));

    expect(byOther['problems']).toEqual([
      expect.stringMatching(
        /spillgate\.yaml:2:20: error: server\.address: .* is in use by another program\./,
      ),
    ]);
    expect(bySelf['problems']).toEqual([
      expect.stringMatching(
        /spillgate\.yaml:2:20: error: server\.address: the gateway itself listens on port \d+, .*\. Choose another port, or restart the gateway\.$/,
      ),
    ]);
    expect(await statusOf(gateway.url)).toBe(200);
    expect(gateway.listeningPorts()).toBe(2);
  });
});

test('TLS is turned on and off on the same port, a certificate that cannot be read leaves it as it is', async () => {
  const { server } = await createCertificates();
  const [cert, key] = [join(gateway.folder, 'server.crt'), join(gateway.folder, 'server.key')];
  writeFileSync(cert, server.cert);
  writeFileSync(key, server.key);
  const tls = (file: string): string =>
    config({ server: `${HERE}, tls: { enabled: true, cert_file: "${file}", key_file: "${key}" }` });
  const secureUrl = gateway.url.replace('http:', 'https:');
  const secure = async (): Promise<number | undefined> =>
    new Promise((resolve, reject) => {
      getSecurely(secureUrl, { agent: false, rejectUnauthorized: false }, (response) => {
        response.resume().on('end', () => resolve(response.statusCode));
      }).on('error', reject);
    });
  const tenant = { 'X-Tenant': 'acme' };
  const spent = [await statusOf(gateway.url, tenant), await statusOf(gateway.url, tenant)];

  const missing = await gateway.reload(tls('/does/not/exist'));
  expect(missing['outcome']).toBe('refused');
  expect(await statusOf(gateway.url)).toBe(200);
  for (let round = 0; round < 2; round += 1) {
    await gateway.reload(tls(cert));
    expect(await secure()).toBe(200);
    await gateway.reload(config());
    expect(await statusOf(gateway.url)).toBe(200);
    await expect(secure()).rejects.toThrow(/SSL|wrong version|packet length|socket|ECONNRESET/i);
  }

  expect(spent).toEqual([200, 200]);
  expect(await statusOf(gateway.url, tenant)).toBe(429);
});
