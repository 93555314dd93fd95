// Faults of Redis, planted one at a time; each has to be found, and nothing else.
import { connect, createServer, type AddressInfo, type Socket } from 'node:net';
import { setTimeout as latency } from 'node:timers/promises';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { eventually, startRedis } from '../../../../test/redis/servers.ts';
import { examineRedis } from '../../src/cli/doctor/examine-redis.ts';
import type { Examined } from '../../src/cli/doctor/finding.ts';
import { loadConfig } from '../../src/config/load-config.ts';
import { faults, HealthySetup } from './doctor-setup.ts';

let setup: HealthySetup;

beforeAll(async () => {
  setup = await HealthySetup.start();
});

afterAll(async () => setup.stop());

test('a server that is not there', async () => {
  const { bad } = await setup.examine({ redis: 'endpoints: ["127.0.0.1:9"], dial_timeout: 1s' });

  expect(bad[0]).toMatchObject({ subject: 'redis' });
  expect(bad[0]?.found).toContain('ECONNREFUSED');
});

test('a wrong password', async () => {
  const locked = await startRedis({ password: 'right' });
  const { bad } = await setup.examine({ redis: `endpoints: ["127.0.0.1:${locked.port}"], password: wrong` });
  await locked.stop();

  expect(bad[0]?.found).toContain('WRONGPASS');
  expect(bad[0]?.fix).toBe('Correct the redis section, or the settings of the server.');
});

test.each([
  [
    'a server that evicts',
    ['maxmemory 500mb', 'maxmemory-policy allkeys-lru', 'appendonly yes'],
    'redis eviction',
  ],
  ['a server that forgets', ['maxmemory 500mb'], 'redis persistence'],
  ['a server without room', ['maxmemory 20mb', 'appendonly yes'], 'redis memory'],
])('%s', async (_, config, subject) => {
  const server = await startRedis({ config });
  const { findings } = await setup.examine({ redis: `endpoints: ["127.0.0.1:${server.port}"]` });
  await server.stop();

  expect(findings.filter(({ verdict }) => verdict !== 'good').map((finding) => finding.subject)).toEqual([
    subject,
  ]);
});

test('a replica instead of the primary', async () => {
  const replica = await startRedis({ config: [`replicaof 127.0.0.1 ${setup.redis.port}`] });
  const { bad } = await setup.examine({
    redis: `endpoints: ["127.0.0.1:${replica.port}"], dial_timeout: 1s`,
  });
  await replica.stop();

  expect(bad[0]?.found).toMatch(/READONLY|replica/);
});

test('a replica that has no copy yet', async () => {
  // The primary waits that long for others before it sends the first copy.
  const primary = await startRedis({
    config: ['appendonly yes', 'repl-diskless-sync yes', 'repl-diskless-sync-delay 1000'],
  });
  const replica = await startRedis({ config: [`replicaof 127.0.0.1 ${primary.port}`] });
  await eventually('the primary knows it', async () =>
    String(await primary.command('INFO', 'replication')).includes('state=wait_bgsave'),
  );
  const { findings } = await setup.examine({ redis: `endpoints: ["127.0.0.1:${primary.port}"]` });
  await Promise.all([primary.stop(), replica.stop()]);

  expect(faults(findings)).toEqual([
    `redis replicas: 127.0.0.1:${replica.port} is not online: a failover forgets what was spent meanwhile`,
  ]);
});

test('a replica that lags, and none when it has caught up', async () => {
  const primary = await startRedis({ config: ['appendonly yes'] });
  const replica = await startRedis({ config: [`replicaof 127.0.0.1 ${primary.port}`] });
  const says = async (pattern: RegExp): Promise<boolean> =>
    pattern.test(String(await primary.command('INFO', 'replication')));
  await eventually('it has a copy', async () => says(/state=online,offset=\d+,lag=[01]/));
  const healthy = await setup.examine({ redis: `endpoints: ["127.0.0.1:${primary.port}"]` });
  await replica.pause();
  await eventually('it lags', async () => says(/lag=(?:1[1-9]|[2-9]\d)/));
  const lagging = await setup.examine({ redis: `endpoints: ["127.0.0.1:${primary.port}"]` });
  await Promise.all([primary.stop(), replica.stop()]);

  expect(faults(healthy.findings)).toEqual([]);
  expect(lagging.warnings.map(({ subject }) => subject)).toEqual(['redis replicas']);
  expect(lagging.warnings[0]?.found).toMatch(/^127\.0\.0\.1:\d+ was last heard of \d+ s ago: /);
});

test.each([
  ['ahead', -3_600_000, /^its clock is 3[56]\d{5} ms ahead of this machine's$/],
  ['behind', 3_600_000, /^its clock is 3[56]\d{5} ms behind this machine's$/],
])('a clock that is %s of the one of this machine', async (_, asideMs, found) => {
  const findings = await examineRedis(examinedAt(() => new Date(Date.now() + asideMs)));

  expect(findings.filter(({ verdict }) => verdict !== 'good')).toEqual([
    expect.objectContaining({
      subject: 'redis clock',
      verdict: 'warning',
      found: expect.stringMatching(found),
    }),
  ]);
});

test('decisions that are slower than the deadline, and some that are nearly', async () => {
  const slow = await slowDoor(setup.redis.port, () => 8);
  // One answer of eight, which the 95th percentile shows and the median does not.
  const uneven = await slowDoor(setup.redis.port, (answer) => (answer % 8 === 0 ? 260 : 0));
  const every = await setup.examine({
    redis: `endpoints: ["127.0.0.1:${slow.port}"]`,
    rate_limit: 'average: 10, deadline: 4ms',
  });
  const some = await setup.examine({
    redis: `endpoints: ["127.0.0.1:${uneven.port}"]`,
    rate_limit: 'average: 10, deadline: 500ms',
  });
  slow.close();
  uneven.close();

  expect(every.bad.map(({ subject }) => subject)).toEqual(['redis latency']);
  expect(every.bad[0]?.found).toMatch(
    /^p50 [\d.]+ ms, p95 [\d.]+ ms, p99 [\d.]+ ms of 200 decisions; the deadline is 4\.00 ms$/,
  );
  expect(some.warnings.map(({ subject }) => subject)).toEqual(['redis latency']);
});

/** The healthy set-up, seen from a machine with this clock. */
function examinedAt(now: () => Date): Examined {
  const loaded = loadConfig({ file: { path: 'gateway.yaml', text: setup.yaml({}) } });
  if (!loaded.ok) throw new Error('not a configuration');
  return { config: loaded.config, readFile: () => '', expectedKeys: 1, now };
}

interface SlowDoor {
  readonly port: number;
  readonly close: () => void;
}

/** A way to the server on which the answer with this number, from 1 on each connection, takes so long. */
async function slowDoor(port: number, delayMs: (answer: number) => number): Promise<SlowDoor> {
  const door = createServer((client) => {
    const server = connect(port, '127.0.0.1');
    client.pipe(server);
    for (const socket of [client, server]) socket.on('error', () => socket.destroy());
    client.on('close', () => server.destroy());
    void passOn(server, client, delayMs);
  });
  await new Promise<void>((resolve) => door.listen(0, '127.0.0.1', resolve));
  return { port: (door.address() as AddressInfo).port, close: () => door.close() };
}

async function passOn(server: Socket, client: Socket, delayMs: (answer: number) => number): Promise<void> {
  let answers = 0;
  try {
    for await (const answer of server) {
      answers += 1;
      await latency(delayMs(answers));
      if (Buffer.isBuffer(answer)) client.write(answer);
    }
  } catch {
    // Whoever asked has gone.
  }
}
