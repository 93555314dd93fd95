import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { GatewayProcess } from './gateway-process.ts';
import { statusOf } from './traffic.ts';

let gateway: GatewayProcess | undefined;
let slow: Server;
const waiting: (() => void)[] = [];

beforeEach(async () => {
  waiting.length = 0;
  slow = createServer((_, response) => {
    waiting.push(() => response.end('late'));
  });
  await new Promise<void>((resolve) => {
    slow.listen(0, '127.0.0.1', resolve);
  });
});

afterEach(async () => {
  await gateway?.remove();
  gateway = undefined;
  slow.closeAllConnections();
  await new Promise((resolve) => {
    slow.close(resolve);
  });
});

function config(more = ''): string {
  const { port } = slow.address() as AddressInfo;
  return `
server: { address: "127.0.0.1:0", drain_timeout: 5s }
admin: { address: "127.0.0.1:0" }
backend: { url: "http://127.0.0.1:${port}" }
${more}`;
}

async function underWay(): Promise<void> {
  await expect.poll(() => waiting.length).toBeGreaterThan(0);
}

describe('signals', () => {
  test('SIGTERM: readiness off, the request under way gets its answer, exit code 0', async () => {
    gateway = await GatewayProcess.start(config());
    const { adminUrl, url } = gateway;
    const answer = fetch(url);
    await underWay();

    gateway.signal('SIGTERM');
    await gateway.line(({ msg }) => msg.startsWith('the gateway finishes'));
    const readiness = await statusOf(`${adminUrl}/readyz`);
    waiting[0]?.();

    expect(await (await answer).text()).toBe('late');
    expect(readiness).toBe(503);
    expect(await gateway.exit()).toBe(0);
  });

  test('a second signal ends it at once', async () => {
    gateway = await GatewayProcess.start(config());
    const answer = fetch(gateway.url).catch(() => 'cut off');
    await underWay();

    gateway.signal('SIGINT');
    await gateway.line(({ msg }) => msg.startsWith('the gateway finishes'));
    gateway.signal('SIGINT');

    expect(await gateway.exit()).toBe(1);
    expect(await answer).toBe('cut off');
  });

  test('a request that takes longer than drain_timeout is cut off', async () => {
    gateway = await GatewayProcess.start(config().replace('5s', '100ms'));
    const answer = fetch(gateway.url).catch(() => 'cut off');
    await underWay();

    expect(await gateway.terminate()).toBe(0);
    expect(await answer).toBe('cut off');
  });
});

describe('a gateway that cannot start says why', () => {
  test('a port in use', async () => {
    gateway = await GatewayProcess.start(config());

    const second = GatewayProcess.start(config().replace('127.0.0.1:0', `127.0.0.1:${gateway.port}`));

    await expect(second).rejects.toThrow(
      `the gateway ended with 1: server.address: 127.0.0.1:${gateway.port} is in use by another program. Stop that one, or choose another address with server.address, or with the variable: SPILLGATE_SERVER_ADDRESS=127.0.0.1:${gateway.port + 1}\n`,
    );
  });

  test('an admin port in use', async () => {
    gateway = await GatewayProcess.start(config());

    const second = GatewayProcess.start(
      config().replace(
        'admin: { address: "127.0.0.1:0"',
        `admin: { address: "127.0.0.1:${gateway.adminPort}"`,
      ),
    );

    await expect(second).rejects.toThrow(`admin.address: 127.0.0.1:${gateway.adminPort} is in use`);
  });

  test('a broken configuration', async () => {
    await expect(GatewayProcess.start('server: { adress: ":1" }\n')).rejects.toThrow(
      /ended with 1: .*spillgate\.yaml:1:11: error: server\.adress is not a setting\. Did you mean server\.address\?\nThe gateway does not start/,
    );
  });

  test('a certificate that is not there', async () => {
    await expect(
      GatewayProcess.start(config('redis: { tls: { enabled: true, ca_file: /does/not/exist } }\n')),
    ).rejects.toThrow(/ended with 1: .*redis\.tls\.ca_file: \/does\/not\/exist does not exist/);
  });
});

test('while drain_delay lasts, readiness says no and connections are still taken', async () => {
  gateway = await GatewayProcess.start(
    config().replace('drain_timeout: 5s', 'drain_delay: 1s, drain_timeout: 5s'),
  );

  gateway.signal('SIGTERM');
  await gateway.line(({ msg }) => msg.startsWith('the gateway finishes'));
  const readiness = await statusOf(`${gateway.adminUrl}/readyz`);
  const late = fetch(gateway.url);
  await underWay();
  waiting[0]?.();

  expect(readiness).toBe(503);
  expect((await late).status).toBe(200);
  expect(await gateway.exit()).toBe(0);
});

test('an output that nobody reads any more does not end it', async () => {
  gateway = await GatewayProcess.start(config());

  gateway.closeOutput();
  for (const number of [0, 1, 2]) {
    const answer = fetch(gateway.url);
    await expect.poll(() => waiting.length).toBe(number + 1);
    waiting[number]?.();
    expect((await answer).status).toBe(200);
  }

  expect(await gateway.terminate()).toBe(0);
});

test.each([
  ['error', 'rate_limit: { average: 100 }'],
  // Nobody answers at port 1, so the static limits hold and no backend is named.
  ['warn', 'rate_limit: { average: 100, external: { enabled: true, http: { url: "http://127.0.0.1:1" } } }'],
])(
  'a configuration without a backend is an %s in the log, and nothing echoes a request',
  async (level, limits) => {
    gateway = await GatewayProcess.start(
      `server: { address: "127.0.0.1:0" }\nadmin: { address: "127.0.0.1:0" }\n${limits}\n`,
    );

    const answer = await fetch(gateway.url, { headers: { Authorization: 'Bearer planted' } });
    const text = await answer.text();

    expect(gateway.lines.find(({ msg }) => msg.startsWith('no backend is configured'))?.level).toBe(level);
    expect([answer.status, text]).toEqual([502, expect.stringContaining('"code":"NO_BACKEND"')]);
    expect(text).not.toContain('planted');
    expect(await gateway.terminate()).toBe(0);
  },
);
