// One address must not take the places of all others.
import { EventEmitter } from 'node:events';
import type { Socket } from 'node:net';
import { connect as connectTls } from 'node:tls';
import { expect, onTestFinished, test } from 'vitest';
import { createCertificates } from '../../../../test/redis/certificates.ts';
import { ConnectionLimits } from '../../src/proxy/server/listener.ts';
import type { Log } from '../../src/telemetry/log.ts';
import type { TrafficListener } from '../../src/telemetry/traffic.ts';
import { configOf, eventually, exchange, RawClient, startOrigin, startRig } from './rig.ts';

const GET = 'GET / HTTP/1.1\r\nHost: a\r\n\r\n';
const OTHER = '127.0.0.2';

async function connections(port: number, count: number): Promise<readonly RawClient[]> {
  return Promise.all(Array.from({ length: count }, async () => RawClient.connect(port)));
}

test('an address at its bound is refused, another one gets in at once, and a connection that closes frees a place', async () => {
  const origin = await startOrigin();
  const server = { max_connections_per_address: 3 };
  const { port, opened, refused } = await startRig({ origin, config: { server } });
  const clients = await connections(port, 3);
  await eventually(() => opened.connections === 3);

  const fourth = await RawClient.connect(port);
  await fourth.untilClosed();
  const other = (await RawClient.connect(port, false, OTHER)).send(GET);
  await other.until(({ statuses }) => statuses.length === 1);
  clients[0]?.socket.destroy();
  await eventually(() => opened.connections === 3);
  const fifth = await exchange(port, GET);

  expect(fourth.text).toBe('');
  expect(other.statuses).toEqual([200]);
  expect(fifth.statuses).toEqual([200]);
  expect(refused).toEqual(['max_connections_per_address']);
});

test('connections count before TLS has agreed on anything', async () => {
  const { server: secureContext } = await createCertificates();
  const origin = await startOrigin();
  const config = { server: { max_connections_per_address: 2 } };
  const { port, opened } = await startRig({ origin, secureContext, config });
  await connections(port, 2);

  const third = await RawClient.connect(port);
  await third.untilClosed();
  const { socket } = await RawClient.connect(port, false, OTHER);
  const other = connectTls({ socket, rejectUnauthorized: false });
  onTestFinished(() => void other.destroy());
  await new Promise((resolve) => other.once('secureConnect', resolve));

  expect(third.text).toBe('');
  await eventually(() => opened.connections === 1);
});

test('thousands of idle connections of one address leave the places of the others, and nobody waits', async () => {
  const origin = await startOrigin();
  const config = { server: { max_connections: 1000, max_connections_per_address: 100 } };
  const { port, opened, refused } = await startRig({ origin, config });
  // In portions that fit into the queue of the system, so that none of them is sent again.
  for (let portion = 0; portion < 10; portion += 1) await connections(port, 200);
  await eventually(
    () => opened.connections === 100 && refused.length === 1900,
    () => `${opened.connections} open, ${refused.length} refused`,
  );

  const other = (await RawClient.connect(port, false, OTHER)).send(GET);
  await other.until(({ statuses }) => statuses.length === 1);

  expect(other.statuses).toEqual([200]);
  // None of them had to leave first.
  expect(opened.connections).toBe(101);
  expect(new Set(refused)).toEqual(new Set(['max_connections_per_address']));
});

test('a reload changes the bound, and what was opened before counts', async () => {
  const origin = await startOrigin();
  const { port, opened, reload } = await startRig({
    origin,
    config: { server: { max_connections_per_address: 0 } },
  });
  await connections(port, 4);
  await eventually(() => opened.connections === 4);

  await reload({ server: { max_connections_per_address: 4 } });
  const refused = await RawClient.connect(port);
  await refused.untilClosed();
  await reload({ server: { max_connections_per_address: 5 } });

  expect((await exchange(port, GET)).statuses).toEqual([200]);
});

interface Door {
  readonly doorkeeper: ConnectionLimits;
  readonly bounds: readonly string[];
  readonly lines: readonly object[];
}

function door(server: object): Door {
  const bounds: string[] = [];
  const lines: object[] = [];
  const ignore = (): void => undefined;
  const log: Log = {
    debug: ignore,
    info: ignore,
    error: ignore,
    warn: (fields, message) => lines.push({ ...fields, message }),
  };
  const traffic: TrafficListener = {
    started: ignore,
    finished: ignore,
    connectionOpened: ignore,
    connectionClosed: ignore,
    tunnelOpened: ignore,
    tunnelClosed: ignore,
    count: (_metric, ...[bound = '']) => void bounds.push(bound),
  };
  const config = configOf({ server });
  return { doorkeeper: new ConnectionLimits({ config: () => config, traffic, log }), bounds, lines };
}

function peer(remoteAddress: string | undefined): Socket {
  const socket = Object.assign(new EventEmitter(), { remoteAddress, destroy: () => undefined });
  return socket as unknown as Socket;
}

test('IPv6 is counted per network, and IPv4 is one address however it is written', () => {
  const { doorkeeper } = door({ max_connections_per_address: 2 });
  const admits = (address: string): boolean => doorkeeper.admits(peer(address));

  expect(['2001:db8:1:2::1', '2001:db8:1:2:ffff::9', '2001:db8:1:2::3'].map(admits)).toEqual([
    true,
    true,
    false,
  ]);
  expect(admits('2001:db8:1:3::1')).toBe(true);
  expect(['192.0.2.1', '::ffff:192.0.2.1', '192.0.2.1'].map(admits)).toEqual([true, true, false]);
});

test('proxies that may speak for clients are not bounded', () => {
  const trusted = door({
    max_connections_per_address: 1,
    client_address: { trusted_proxies: ['10.0.0.0/8'] },
  }).doorkeeper;
  const hops = door({ max_connections_per_address: 1, client_address: { trusted_hops: 1 } }).doorkeeper;

  expect([1, 2, 3].map(() => trusted.admits(peer('10.1.2.3')))).toEqual([true, true, true]);
  expect([1, 2].map(() => trusted.admits(peer('192.0.2.1')))).toEqual([true, false]);
  expect([1, 2].map(() => hops.admits(peer('192.0.2.1')))).toEqual([true, true]);
});

test('a peer that is already gone is nobody, and what closes is counted off once', () => {
  const { doorkeeper } = door({ max_connections_per_address: 1, max_connections: 3 });
  const first = peer('192.0.2.1');

  expect(doorkeeper.admits(first)).toBe(true);
  expect([1, 2].map(() => doorkeeper.admits(peer(undefined)))).toEqual([true, true]);
  expect(doorkeeper.admits(peer('192.0.2.9'))).toBe(false);
  first.emit('close');
  expect(doorkeeper.admits(peer('192.0.2.1'))).toBe(true);
  expect(doorkeeper.admits(peer('192.0.2.1'))).toBe(false);
});

test('a thousand refusals are one line of the log, and a thousand in the metrics', () => {
  const { doorkeeper, bounds, lines } = door({ max_connections_per_address: 1 });

  for (let at = 0; at < 1001; at += 1) doorkeeper.admits(peer('192.0.2.1'));

  expect(bounds).toHaveLength(1000);
  expect(lines).toEqual([
    {
      address: '192.0.2.1',
      unsaid: 0,
      message: expect.stringMatching(/^server\.max_connections_per_address is reached: .*trusted_proxies$/),
    },
  ]);
});
