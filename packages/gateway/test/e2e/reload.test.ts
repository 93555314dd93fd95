import { afterEach, beforeEach, expect, test } from 'vitest';
import { GatewayProcess } from './gateway-process.ts';
import { startBackend, startLoad, statusOf, type Backend } from './traffic.ts';

let backends: readonly Backend[] = [];
let gateway: GatewayProcess;

beforeEach(async () => {
  backends = await Promise.all([startBackend(), startBackend()]);
  gateway = await GatewayProcess.start(config(0));
});

afterEach(async () => {
  await gateway.remove();
  await Promise.all(backends.map(async (backend) => backend.close()));
});

/** Differs by its number, also in the backend, and always keeps the policy of tenants. */
function config(number: number): string {
  return `
server: { address: "127.0.0.1:0" }
admin: { address: "127.0.0.1:0" }
backend: { url: "${backends[number % 2]?.url}", max_conns: ${100 + number} }
logging: { access_log_enabled: false, decision_log: "off" }
rate_limit:
  policies: { tenant: { average: 2, period: 1h }, other: { average: ${number + 1} } }
  rules:
    - name: tenants
      match: { header: { X-Tenant: "*" } }
      policies: [tenant]
      key: { type: header, header_name: X-Tenant }
    - { name: never, match: { path: /never }, policies: [other] }
`;
}

/** Also one that reads well, and cannot be used: somebody else has the port. */
function broken(number: number): string {
  const taken = backends[0]?.url.replace('http://', '') ?? '';
  const texts = ['rate_limit: [', 'rate_limit: { average: -1 }', '', `server: { address: "${taken}" }\n`];
  return texts[number % texts.length] ?? '';
}

test('50 reloads under load, good and broken: no request fails, and nothing that was counted is forgotten', async () => {
  const tenant = { 'X-Tenant': 'acme' };
  const before = [
    await statusOf(gateway.url, tenant),
    await statusOf(gateway.url, tenant),
    await statusOf(gateway.url, tenant),
  ];
  const load = startLoad({ urls: () => [gateway.url], clients: 8 });
  const outcomes: string[] = [];

  for (let number = 1; number <= 50; number += 1) {
    gateway.write(number % 3 === 0 ? broken(number) : config(number));
    const response = await fetch(`${gateway.adminUrl}/v1/reload`, {
      method: 'POST',
      headers: { 'Content-Type': 'application/json' },
      body: '{}',
    });
    outcomes.push(`${number % 3 === 0 ? 'broken' : 'good'} ${response.status}`);
  }

  const { statuses, failures } = await load.stop();
  expect(failures).toEqual([]);
  expect([...statuses.keys()]).toEqual([200]);
  expect(new Set(outcomes)).toEqual(new Set(['good 200', 'broken 422']));
  expect(before).toEqual([200, 200, 429]);
  expect(await statusOf(gateway.url, tenant)).toBe(429);
  expect(backends[1]?.served()).toBeGreaterThan(0);
});

test('a file that changes is taken into use by itself, and so it is at SIGHUP', async () => {
  gateway.write(config(1));
  const byFile = await gateway.line(({ msg }) => msg === 'configuration reloaded');
  gateway.signal('SIGHUP');

  expect(byFile).toMatchObject({ outcome: 'applied', generation: 2 });
  expect(await gateway.line(({ msg }) => msg === 'configuration unchanged')).toMatchObject({ generation: 2 });
});

test('a broken file is refused with every problem, and what runs goes on', async () => {
  gateway.write('server: { adress: ":1", workers: 0 }\n');

  const line = await gateway.line(({ level }) => level === 'error');

  expect(line).toMatchObject({ outcome: 'refused', generation: 1 });
  expect(line['problems']).toEqual([
    expect.stringContaining('adress is not a setting. Did you mean server.address?'),
    expect.stringContaining('server.workers is 0; expected at least 1.'),
  ]);
  expect(await statusOf(gateway.url)).toBe(200);
});

test('what cannot change while it runs is refused, and says so', async () => {
  const many = config(0).replace('address: "127.0.0.1:0"', 'workers: 2, address: "127.0.0.1:0"');

  const line = await gateway.reload(`${many}redis: { endpoints: ["127.0.0.1:1"] }\n`);

  expect(line['problems']).toEqual([
    expect.stringMatching(
      /spillgate\.yaml:2:20: error: server\.workers cannot change from 1 to 2 while the gateway runs: .* Restart the gateway/,
    ),
  ]);
});

test('a reload that is refused leaves nothing half done', async () => {
  gateway.write(`${config(0)}redis: { tls: { enabled: true, ca_file: /does/not/exist } }\n`);

  const line = await gateway.line(({ level }) => level === 'error');

  expect(line['problems']).toEqual([
    expect.stringContaining('redis.tls.ca_file: /does/not/exist does not exist'),
  ]);
  expect(await statusOf(gateway.url)).toBe(200);
});

test('a reload that takes the backend away is answered with 502, never with an echo', async () => {
  gateway.write(config(1).replace(/backend: .*/, ''));
  await gateway.line(({ msg }) => msg.startsWith('no backend is configured'));

  expect(await statusOf(gateway.url)).toBe(502);
  expect(gateway.listeningPorts()).toBe(2);
});
