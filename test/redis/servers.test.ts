import { existsSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { ConnectionOptions } from 'node:tls';
import { afterEach, describe, expect, test } from 'vitest';
import {
  type Cluster,
  createCertificates,
  elementsOf,
  eventually,
  type RedisServer,
  type Reply,
  startCluster,
  startRedis,
  startReplicated,
  startShards,
  startTls,
} from './servers.ts';
import { Watchdog } from './watchdog.ts';

const SLOTS = 16_384;
/** Processes start, and roles change, much later on a machine that is busy with other tests. */
const PATIENT = { timeout: 30_000 } as const;

/** Which one a client sees depends on how far it got. */
const HUNG_UP = /alert|closed|ECONNRESET|EPIPE/;

const started: { stop(): Promise<void> }[] = [];

/** Stopped after the test, however it ends. */
function toStop<T extends { stop(): Promise<void> }>(servers: T): T {
  started.push(servers);
  return servers;
}

afterEach(async () => {
  await Promise.all(started.splice(0).map(async (servers) => servers.stop()));
});

describe('one server', PATIENT, () => {
  test('starts empty, on 127.0.0.1 only, and keeps nothing on disk', async () => {
    const server = toStop(await startRedis());

    expect(server.url).toBe(`redis://127.0.0.1:${server.port}`);
    expect(await server.command('PING')).toBe('PONG');
    expect(await server.command('DBSIZE')).toBe(0);
    expect(await server.command('CONFIG', 'GET', 'bind')).toEqual(['bind', '127.0.0.1']);
    expect(await server.command('CONFIG', 'GET', 'save')).toEqual(['save', '']);
    expect(await server.command('CONFIG', 'GET', 'appendonly')).toEqual(['appendonly', 'no']);
  });

  test('takes lines of configuration', async () => {
    const server = toStop(await startRedis({ config: ['maxmemory 3mb', 'maxmemory-policy noeviction'] }));

    expect(await server.command('CONFIG', 'GET', 'maxmemory')).toEqual(['maxmemory', String(3 * 2 ** 20)]);
  });

  test('asks clients for the password', async () => {
    const password = 'p@ss "word"/';
    const server = toStop(await startRedis({ password }));

    const connection = await server.connect();

    expect(await connection.command('PING')).toBe('PONG');
    expect(decodeURIComponent(new URL(server.url).password)).toBe(password);
    await expect(server.connect({ password: 'wrong' })).rejects.toThrow('WRONGPASS');
    connection.close();
  });

  test('obeys its access list, and tests may still look', async () => {
    const server = toStop(
      await startRedis({ acl: ['user default off', 'user app on >secret ~app:* +get +set'] }),
    );

    const connection = await server.connect({ username: 'app', password: 'secret' });

    expect(await connection.command('SET', 'app:1', 'x')).toBe('OK');
    await expect(connection.command('GET', 'other')).rejects.toThrow('NOPERM');
    expect(await server.command('GET', 'app:1')).toBe('x');
    connection.close();
  });

  test('answers nothing while it is paused, and everything when it resumes', async () => {
    const server = toStop(await startRedis());
    const connection = await server.connect();
    await server.pause();
    const impatient = await server.connect({ deadlineMs: 50 });

    await expect(impatient.command('PING')).rejects.toThrow('No reply to PING within 50 ms');
    const patient = connection.command('ECHO', 'late');
    server.resume();

    expect(await patient).toBe('late');
    connection.close();
  });

  test('comes back on the same port after a crash, without its data', async () => {
    const server = toStop(await startRedis());
    const { port, pid } = server;
    const connection = await server.connect();
    await connection.command('SET', 'key', 'value');

    const lost = connection.command('BLPOP', 'nothing', 0);
    await Promise.all([expect(lost).rejects.toThrow(HUNG_UP), server.kill()]);
    expect(server.pid).toBeUndefined();
    await expect(server.connect()).rejects.toThrow('ECONNREFUSED');
    await server.restart();

    expect(server.port).toBe(port);
    expect(server.pid).not.toBe(pid);
    const again = await server.connect();
    expect(await again.command('GET', 'key')).toBeNull();
    again.close();
  });

  test('is one process, also when it is restarted several times at once', async () => {
    const server = toStop(await startRedis());

    const restarts = await Promise.allSettled([server.restart(), server.restart(), server.restart()]);

    expect(restarts.some(({ status }) => status === 'fulfilled')).toBe(true);
    await server.kill();
    await expect(server.connect()).rejects.toThrow('ECONNREFUSED');
    await server.restart();
    expect(await server.command('PING')).toBe('PONG');
  });

  test('restarts also when it is up or frozen', async () => {
    const server = toStop(await startRedis());
    const { pid } = server;
    await server.pause();

    await server.restart();

    expect(isAlive(pid)).toBe(false);
    expect(await server.command('PING')).toBe('PONG');
  });

  test.each(['running', 'frozen', 'dead'])(
    'leaves no process and no folder when it is stopped: %s',
    async (state) => {
      const server = await startRedis();
      const { pid, folder } = server;
      if (state === 'frozen') await server.pause();
      if (state === 'dead') await server.kill();

      await server.stop();
      await server.stop();

      expect(isAlive(pid)).toBe(false);
      expect(existsSync(folder)).toBe(false);
      await expect(server.restart()).rejects.toThrow('was stopped for good');
    },
  );

  test('that cannot start says why and leaves nothing behind', async () => {
    const failure = await startRedis({ config: ['no-such-setting 1'] }).then(() => '', String);

    const [, port] =
      /redis-server on port (\d+) ended by itself \(1\):[^]*no-such-setting 1/.exec(failure) ?? [];
    expect(port).toBeDefined();
    expect(existsSync(join(tmpdir(), `spillgate-redis-${port}`))).toBe(false);
  });

  test.each(['running', 'frozen'])('ends with the process that started it: %s', async (state) => {
    const server = toStop(await startRedis());
    const kept = toStop(await startRedis());
    const { pid, folder } = server;
    if (state === 'frozen') await server.pause();
    const watchdog = new Watchdog();
    for (const each of [server, kept]) watchdog.hold(each.folder);
    watchdog.drop(kept.folder);

    await watchdog.bite();

    await eventually('the server is gone', () => !isAlive(pid));
    expect(existsSync(folder)).toBe(false);
    expect(await kept.command('PING')).toBe('PONG');
  });
});

describe('a TLS server', PATIENT, () => {
  test('serves clients that show a certificate of its authority', async () => {
    const { server, certificates, files } = await startTls();
    toStop(server);
    const { ca, client } = certificates;

    const connection = await server.connect({ tls: { ca, ...client, servername: 'redis.test' } });

    expect(server.url).toBe(`rediss://127.0.0.1:${server.port}`);
    expect(await connection.command('SET', 'key', 'value')).toBe('OK');
    expect(await connection.command('GET', 'key')).toBe('value');
    expect(Object.values(files).filter((path) => !existsSync(path))).toEqual([]);
    connection.close();
  });

  test('refuses clients without a certificate and those of a stranger', async () => {
    const { server, certificates } = await startTls();
    toStop(server);
    const { ca } = certificates;
    const stranger = await createCertificates();

    await expect(ping(server, { ca })).rejects.toThrow(HUNG_UP);
    await expect(ping(server, { ca, ...stranger.client })).rejects.toThrow(HUNG_UP);
    await expect(ping(server, { ca: stranger.ca, ...certificates.client })).rejects.toThrow('certificate');
    await expect(ping(server, { ca, ...certificates.client, servername: 'other.test' })).rejects.toThrow(
      'altnames',
    );
  });

  test('can do without client certificates', async () => {
    const { server, certificates } = await startTls({ clientCertificate: 'unused', password: 'secret' });
    toStop(server);

    expect(await ping(server, { ca: certificates.ca })).toBe('PONG');
  });
});

test('shards know nothing of each other', PATIENT, async () => {
  const { servers } = toStop(await startShards(3));

  await servers[0]?.command('SET', 'key', 'value');

  expect(new Set(servers.map(({ port }) => port)).size).toBe(3);
  expect(await Promise.all(servers.map(async (server) => server.command('DBSIZE')))).toEqual([1, 0, 0]);
});

describe('a cluster', PATIENT, () => {
  test('of three serves every slot and sends clients to the right node', async () => {
    const cluster = toStop(await startCluster(3));
    const slot = await cluster.slotOf('key');
    const owner = await cluster.ownerOf(slot);

    const answers = await Promise.all(
      cluster.nodes.map(async (node) => node.command('SET', 'key', 'value').catch(String)),
    );

    const moved = `ReplyError: MOVED ${slot} 127.0.0.1:${owner.port}`;
    expect(answers).toEqual(cluster.nodes.map((node) => (node === owner ? 'OK' : moved)));
    expect(await slotCount(cluster)).toBe(SLOTS);
    expect(cluster.replicas).toEqual([]);
  });

  test('moves a slot under the eyes of clients', async () => {
    const cluster = toStop(await startCluster(3, { password: 'secret' }));
    const slot = await cluster.slotOf('{tag}');
    const source = await cluster.ownerOf(slot);
    const [target = source] = cluster.masters.filter((node) => node !== source);
    await source.command('SET', '{tag}1', 'value', 'PX', 60_000);

    const move = await cluster.beginSlotMove(slot, target);
    expect(await source.command('GET', '{tag}1')).toBe('value');
    expect(await move.moveKeys()).toBe(1);
    await expect(source.command('GET', '{tag}1')).rejects.toThrow(`ASK ${slot} 127.0.0.1:${target.port}`);
    await move.finish();

    await expect(source.command('GET', '{tag}1')).rejects.toThrow(`MOVED ${slot} 127.0.0.1:${target.port}`);
    expect(await target.command('GET', '{tag}1')).toBe('value');
    expect(await target.command('PTTL', '{tag}1')).toBeGreaterThan(0);
    expect(await cluster.ownerOf(slot)).toBe(target);
    expect(await slotCount(cluster)).toBe(SLOTS);
  });

  test('of six replaces a master that dies', async () => {
    const cluster = toStop(await startCluster(6, { nodeTimeoutMs: 500 }));
    const slot = await cluster.slotOf('key');
    const master = await cluster.ownerOf(slot);
    const replica = cluster.replicas[cluster.masters.indexOf(master)];
    await master.command('SET', 'key', 'value');
    await master.command('WAIT', 1, 1000);

    await master.kill();
    await eventually('the replica serves', async () => (await replica?.command('GET', 'key')) === 'value');

    expect(await cluster.ownerOf(slot)).toBe(replica);
  });
});

describe('a master with a replica and three sentinels', PATIENT, () => {
  test('swaps its roles on request', async () => {
    const replicated = toStop(await startReplicated({ password: 'secret', sentinelPassword: 'other' }));
    const { masterName, sentinels, sentinelAddresses, servers } = replicated;
    const [first, second] = servers;
    await first.command('SET', 'key', 'value');
    await first.command('WAIT', 1, 1000);
    expect(sentinelAddresses).toEqual(sentinels.map(({ port }) => ({ host: '127.0.0.1', port })));
    expect(await portsNamedBy(sentinels, masterName)).toEqual([first.port, first.port, first.port]);

    const promoted = await replicated.failover();

    expect(promoted).toBe(second);
    expect(await portsNamedBy(sentinels, masterName)).toEqual([second.port, second.port, second.port]);
    expect(await second.command('GET', 'key')).toBe('value');
    await expect(first.command('SET', 'key', 'new')).rejects.toThrow('READONLY');
  });

  test('promotes the replica when the master dies', async () => {
    const replicated = toStop(await startReplicated());
    const [first, second] = replicated.servers;
    await first.command('SET', 'key', 'value');
    await first.command('WAIT', 1, 1000);

    await first.kill();

    expect(await replicated.promotionAfter(first)).toBe(second);
    expect(await second.command('GET', 'key')).toBe('value');
    expect(await second.command('SET', 'key', 'new')).toBe('OK');
  });
});

function isAlive(pid: number | undefined): boolean {
  if (pid === undefined) throw new Error('The server was not running');
  try {
    return process.kill(pid, 0);
  } catch {
    return false;
  }
}

async function ping(server: RedisServer, tls: ConnectionOptions): Promise<Reply> {
  const connection = await server.connect({ tls });
  try {
    return await connection.command('PING');
  } finally {
    connection.close();
  }
}

/** The slots that the nodes together say they serve. */
async function slotCount(cluster: Cluster): Promise<number> {
  const ranges = elementsOf((await cluster.nodes[0]?.command('CLUSTER', 'SLOTS')) ?? null).map(elementsOf);
  return ranges.reduce((sum, [first, last]) => sum + Number(last) - Number(first) + 1, 0);
}

async function portsNamedBy(sentinels: readonly RedisServer[], masterName: string): Promise<number[]> {
  return Promise.all(
    sentinels.map(async (sentinel) => {
      const address = await sentinel.command('SENTINEL', 'GET-MASTER-ADDR-BY-NAME', masterName);
      return Number(elementsOf(address)[1]);
    }),
  );
}
