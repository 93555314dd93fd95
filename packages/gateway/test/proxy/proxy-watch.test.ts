// A proxy that is not trusted makes one client of many: the log says so, once, and a metric counts what was odd.
import { expect, test } from 'vitest';
import { configOf, keptLog } from './gateway-settings.ts';
import { eventually, exchange, startOrigin, startRig, type Rig } from './rig.ts';
import { ProxyWatch } from '../../src/proxy/request/proxy-watch.ts';
import { readRequest, readingRules } from '../../src/proxy/request/read-request.ts';

async function watched(clientAddress: object = {}) {
  const log = keptLog();
  const config = { server: { client_address: clientAddress } };
  const rig = await startRig({ origin: await startOrigin(), config, log });
  return { log, rig };
}

async function ask({ port }: Rig, ...headers: readonly string[]): Promise<void> {
  await exchange(port, `GET / HTTP/1.1\r\nHost: a\r\n${headers.map((line) => `${line}\r\n`).join('')}\r\n`);
}

const NOT_TRUSTED =
  'warn 127.0.0.1 sent x-forwarded-for, but is not in server.client_address.trusted_proxies, so the header was ignored. If it is your proxy, all clients behind it are counted as one: set server.client_address.trusted_proxies to [\'loopback\']. If it is a client, there is nothing to do. {"code":"PROXY_NOT_TRUSTED","docs":"docs/client-address.md"}';

test('a header of somebody who is not trusted is said once, and counted each time', async () => {
  const { log, rig } = await watched();

  await ask(rig);
  expect(log.lines).toEqual([]);
  await ask(rig, 'X-Forwarded-For: 1.2.3.4');
  await ask(rig, 'X-Forwarded-For: 1.2.3.4');
  await ask(rig, 'Forwarded: for=1.2.3.4');

  expect(log.lines).toEqual([NOT_TRUSTED]);
  expect(rig.oddities).toEqual(['untrustedHeader', 'untrustedHeader', 'untrustedHeader']);
});

test('a request for a tunnel is looked at, too', async () => {
  const { log, rig } = await watched();

  await ask(rig, 'Connection: Upgrade', 'Upgrade: websocket', 'X-Forwarded-For: 1.2.3.4');
  await eventually(() => rig.finished.length === 1);

  expect(log.lines).toEqual([NOT_TRUSTED]);
  expect(rig.oddities).toEqual(['untrustedHeader']);
});

test('a request that did not come through all hops is counted, with a header or without', async () => {
  const { log, rig } = await watched({ trusted_hops: 2 });

  await ask(rig, 'X-Forwarded-For: 1.2.3.4');
  await ask(rig);
  await ask(rig, 'X-Forwarded-For: 1.2.3.4, 5.6.7.8');

  expect(rig.oddities).toEqual(['tooFewHops', 'tooFewHops']);
  expect(log.lines).toEqual([]);
});

test('after a reload the warning comes again only if somebody else is trusted', async () => {
  const { log, rig } = await watched();
  await ask(rig, 'X-Forwarded-For: 1.2.3.4');

  await rig.reload({ server: { max_headers: 50 } });
  await ask(rig, 'X-Forwarded-For: 1.2.3.4');
  expect(log.lines).toHaveLength(1);
  await rig.reload({ server: { client_address: { trusted_proxies: ['10.0.0.0/8'] } } });
  await ask(rig, 'X-Forwarded-For: 1.2.3.4');

  expect(log.lines).toEqual([NOT_TRUSTED, NOT_TRUSTED]);
});

/** What is said about a thousand requests of a thousand clients. */
function saidOfMany(clientAddress: object, header: (client: string) => readonly string[]): readonly string[] {
  const log = keptLog();
  const watch = new ProxyWatch({ log, traffic: { count: () => undefined } });
  const rules = readingRules(configOf({ server: { client_address: clientAddress } }));
  for (let at = 0; at < 1000; at += 1) {
    const head = {
      protocol: 'HTTP/1.1',
      method: 'GET',
      scheme: 'http',
      target: '/',
      authority: undefined,
      rawHeaders: ['Host', 'a', ...header(`192.0.2.${at % 200}`)],
      peer: '10.0.0.1',
      bodyless: true,
    } as const;
    const request = readRequest(head, 'the-id', rules);
    if (typeof request === 'string') throw new Error(request);
    watch.saw(request, head.peer, rules.config);
  }
  return log.lines;
}

test.each([
  [
    'server.client_address.trusted_hops',
    { trusted_hops: 3 },
    (client: string) => ['X-Forwarded-For', `${client}, 10.0.0.2`],
  ],
  ['server.client_address.trusted_proxies', {}, (client: string) => ['X-Forwarded-For', client]],
  [
    'raise server.client_address.trusted_hops',
    { trusted_hops: 1 },
    (client: string) => ['X-Forwarded-For', `${client}, 10.0.0.2`],
  ],
  [
    'set server.client_address.source',
    { trusted_proxies: ['10.0.0.1'], source: 'forwarded' },
    (client: string) => ['X-Forwarded-For', client],
  ],
])('different clients that are counted as one: the log names %s', (setting, clientAddress, header) => {
  const lines = saidOfMany(clientAddress, header).filter((line) => line.includes('SHARED_ADDRESS'));

  expect(lines).toEqual([expect.stringContaining(setting)]);
  expect(lines[0]).not.toContain('trustedProxies');
});
