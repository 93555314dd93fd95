// Limits, keys and backends from a service of the operator.
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { GatewayProcess } from './gateway-process.ts';
import { startBackend, statusOf, type Backend } from './traffic.ts';

let service: Server;
let backends: readonly Backend[] = [];
let gateway: GatewayProcess;
let asked = 0;

const TENANTS: Readonly<Record<string, object>> = {
  small: { average: 2, burst: 2, period: '1h' },
  free: { average: 0, burst: 0, period: '1s' },
};

beforeEach(async () => {
  asked = 0;
  backends = await Promise.all([startBackend(), startBackend()]);
  service = createServer((request, response) => {
    let body = '';
    request.on('data', (chunk: Buffer) => {
      body += chunk.toString();
    });
    request.on('end', () => {
      asked += 1;
      const tenant = Object.keys(TENANTS).find((name) => body.includes(`"${name}"`));
      response.statusCode = tenant === undefined ? 500 : 200;
      response.setHeader('Content-Type', 'application/json');
      const routed = { backend_url: `http://127.0.0.1:${new URL(backends[1]?.url ?? '').port}` };
      response.end(JSON.stringify({ ...TENANTS[tenant ?? ''], ...(tenant === 'free' ? routed : {}) }));
    });
  });
  await new Promise<void>((resolve) => {
    service.listen(0, '127.0.0.1', resolve);
  });
  gateway = await GatewayProcess.start(config(true));
});

afterEach(async () => {
  await gateway.remove();
  service.closeAllConnections();
  service.close();
  await Promise.all(backends.map(async (backend) => backend.close()));
});

function config(enabled: boolean): string {
  const { port } = service.address() as AddressInfo;
  return `
server: { address: "127.0.0.1:0" }
admin: { address: "127.0.0.1:0" }
backend:
  url: "${backends[0]?.url}"
  url_policy: { allowed_hosts: ["127.0.0.1"] }
logging: { access_log_enabled: false, decision_log: "off" }
rate_limit:
  average: 1
  period: 1h
  key_strategy: { type: header, header_name: X-Tenant }
  external: { enabled: ${enabled}, timeout: 2s, http: { url: "http://127.0.0.1:${port}/limits" } }
`;
}

async function statuses(tenant: string, count: number): Promise<readonly number[]> {
  const found: number[] = [];
  for (let at = 0; at < count; at += 1) found.push(await statusOf(gateway.url, { 'X-Tenant': tenant }));
  return found;
}

test('its limits hold instead of the configured ones, unlimited tenants go to their own backend, unknown ones fall back', async () => {
  expect(await statuses('small', 3)).toEqual([200, 200, 429]);
  expect(await statuses('free', 3)).toEqual([200, 200, 200]);
  expect(await statuses('nobody', 2)).toEqual([200, 429]);
  expect([backends[0]?.served(), backends[1]?.served()]).toEqual([3, 3]);
  expect(asked).toBeLessThanOrEqual(4);
});

test('a reload turns it off and on again', async () => {
  expect(await statuses('small', 1)).toEqual([200]);

  await gateway.reload(config(false));
  expect(await statuses('other', 2)).toEqual([200, 429]);
  const askedBefore = asked;
  await gateway.reload(config(true));

  expect(await statuses('small', 2)).toEqual([200, 429]);
  expect(asked).toBeGreaterThan(askedBefore);
});
