import { setTimeout as sleep } from 'node:timers/promises';
import { createLimiter, LimiterError, tokenBucket, type Decision, type Limiter } from 'spillgate';
import { redisStore, type RedisStore, type RedisStoreOptions } from 'spillgate/redis';
import { afterEach, beforeAll, describe, expect, test } from 'vitest';
import { eventually, startCluster, startRedis, startReplicated, startShards } from '../servers.ts';
import { Proxy } from './proxy.ts';

/** What a busy machine keeps. */
const DEADLINE_MS = 250;
const CONNECT_TIMEOUT_MS = 1000;
const RECOVERY_MS = 2000;

const api = tokenBucket({ name: 'api', average: 1, burst: 1_000_000, period: '1h' });

beforeAll(async () => {
  // The store loads it when it is first needed, which may take longer than anything here.
  await import('ioredis');
});

/** Ended after each test, the last one first. */
const cleanups: (() => Promise<unknown>)[] = [];

afterEach(async () => {
  for (const cleanup of cleanups.splice(0).toReversed()) await cleanup();
});

async function ending<Resource extends { stop(): Promise<unknown> }>(
  start: Promise<Resource>,
): Promise<Resource> {
  const resource = await start;
  cleanups.push(async () => resource.stop());
  return resource;
}

function open(options: RedisStoreOptions): { store: RedisStore; limiter: Limiter } {
  const store = redisStore({ timeoutMs: DEADLINE_MS, connectTimeoutMs: CONNECT_TIMEOUT_MS, ...options });
  const limiter = createLimiter({ store, failurePolicy: 'failClosed', deadlineMs: DEADLINE_MS });
  cleanups.push(async () => limiter.close());
  return { store, limiter };
}

async function decides(limiter: Limiter, key = 'k'): Promise<boolean> {
  return !(await limiter.check(api.for(key))).degraded;
}

/** The decision after the store has had its first chance: the first one may have met nothing but its deadline. */
async function causeOf(limiter: Limiter): Promise<LimiterError> {
  let decision: Decision | undefined;
  await eventually('the reason is known', async () => {
    decision = await limiter.check(api.for('k'));
    return decision.cause instanceof LimiterError && decision.cause.code !== 'DEADLINE_EXCEEDED';
  });
  expect(decision).toMatchObject({ allowed: false, degraded: true, source: 'failurePolicy' });
  return decision?.cause as LimiterError;
}

describe('at the start', () => {
  test('a wrong password is named as such, and one that is made right is noticed', async () => {
    const server = await ending(startRedis({ password: 'right' }));
    const { store, limiter } = open({ url: `redis://:wrong@${server.host}:${server.port}` });

    await expect(store.ready()).rejects.toMatchObject({
      code: 'STORE_MISCONFIGURED',
      message: expect.stringMatching(
        /WRONGPASS.*; give the store the username and password of the server\.$/,
      ),
      cause: expect.objectContaining({ message: expect.stringContaining('WRONGPASS') }),
    });
    expect(await causeOf(limiter)).toMatchObject({
      code: 'STORE_MISCONFIGURED',
      errorClass: 'configuration',
      message: expect.stringContaining('WRONGPASS'),
    });
    expect((await limiter.health()).status).toBe('down');

    await server.command('CONFIG', 'SET', 'requirepass', 'wrong');
    await eventually('the store decides', async () => decides(limiter), RECOVERY_MS);
    expect((await limiter.health()).status).toBe('up');
  });

  test('a missing password is named as such', async () => {
    const server = await ending(startRedis({ password: 'right' }));
    const { store, limiter } = open({ url: `redis://${server.host}:${server.port}` });

    await expect(store.ready()).rejects.toMatchObject({
      code: 'STORE_MISCONFIGURED',
      message: expect.stringMatching(/NOAUTH.*; give the store the username and password of the server\.$/),
    });
    expect(await causeOf(limiter)).toMatchObject({ code: 'STORE_MISCONFIGURED' });
  });

  test('a server that starts later than the limiter decides as soon as it is there', async () => {
    const server = await ending(startRedis());
    await server.kill();
    const { store, limiter } = open({ url: server.url });

    await expect(store.ready()).rejects.toMatchObject({
      code: 'STORE_UNAVAILABLE',
      message: expect.stringContaining(
        `${server.host}:${server.port} does not answer: no connection: connect ECONNREFUSED`,
      ),
    });
    expect(await causeOf(limiter)).toMatchObject({ code: 'STORE_UNAVAILABLE', errorClass: 'transient' });
    expect((await limiter.health()).status).toBe('down');

    await server.restart();
    await eventually('the store decides', async () => decides(limiter), RECOVERY_MS);
    await expect(store.ready()).resolves.toBeUndefined();
    expect((await limiter.health()).status).toBe('up');
  });

  test('one dead shard costs only its own keys', async () => {
    const { servers } = await ending(startShards(3));
    const [dead] = servers;
    await dead?.kill();
    const { store, limiter } = open({ shards: servers.map(({ url }) => url) });

    await expect(store.ready()).rejects.toThrow(`127.0.0.1:${dead?.port} does not answer`);
    const decisions = await Promise.all(
      Array.from({ length: 60 }, (_, at) => limiter.check(api.for(`key-${at}`))),
    );
    const failed = decisions.filter(({ degraded }) => degraded);
    expect(failed.length).toBeGreaterThan(5);
    expect(failed.length).toBeLessThan(40);
    for (const { cause } of failed) expect(String(cause)).toContain(`127.0.0.1:${dead?.port}`);
    expect(await limiter.health()).toMatchObject({ status: 'degraded' });

    await dead?.restart();
    await eventually(
      'every key is decided',
      async () => {
        const again = await Promise.all(failed.map(({ key }) => limiter.check(api.for(key))));
        return again.every(({ degraded }) => !degraded);
      },
      RECOVERY_MS,
    );
    await expect(store.ready()).resolves.toBeUndefined();
  });

  test('of several servers the one is named that has to be put right', async () => {
    const { servers } = await ending(startShards(2));
    const [dead, closed] = servers;
    await dead?.kill();
    await closed?.command('CONFIG', 'SET', 'requirepass', 'secret');
    const { store } = open({ shards: servers.map(({ url }) => url) });

    await expect(store.ready()).rejects.toMatchObject({
      code: 'STORE_MISCONFIGURED',
      message: expect.stringContaining(`127.0.0.1:${closed?.port} could not decide: NOAUTH`),
    });
    await closed?.command('AUTH', 'secret');
    await closed?.command('CONFIG', 'SET', 'requirepass', '');
  });

  test.each(['sentinel', 'cluster'] as const)('a %s that wants a password says so', async (kind) => {
    const server = await ending(startRedis({ password: 'right' }));
    const url = `redis://${server.host}:${server.port}`;
    const { store } = open(
      kind === 'sentinel' ? { sentinel: { urls: [url], name: 'main' } } : { cluster: { urls: [url] } },
    );

    await expect(store.ready()).rejects.toMatchObject({
      code: 'STORE_MISCONFIGURED',
      message: expect.stringContaining('NOAUTH'),
    });
  });

  test('sentinels that do not know the name of the master say so', async () => {
    const group = await ending(startReplicated());
    const { store, limiter } = open({
      sentinel: { urls: group.sentinels.map(({ url }) => url), name: 'unknown' },
    });

    await expect(store.ready()).rejects.toThrow(/names a master for unknown: check the name/);
    expect((await causeOf(limiter)).message).toMatch(/names a master for unknown/);
    expect(await limiter.health()).toMatchObject({
      status: 'down',
      nodes: [{ name: 'unknown', status: 'down' }, {}, {}, {}],
    });
  });

  test('one dead sentinel does not matter', async () => {
    const group = await ending(startReplicated());
    await group.sentinels[0]?.kill();
    const { store, limiter } = open({
      sentinel: { urls: group.sentinels.map(({ url }) => url), name: group.masterName },
      connectTimeoutMs: RECOVERY_MS,
    });

    await store.ready();
    await eventually('the store decides', async () => decides(limiter));
    expect(await limiter.health()).toMatchObject({
      status: 'degraded',
      nodes: [{ status: 'up' }, { status: 'down' }, { status: 'up' }, { status: 'up' }],
    });
  });

  test('a dead seed of a cluster does not matter, all of them do', async () => {
    const cluster = await ending(startCluster(3));
    const nobody = await ending(startRedis());
    await nobody.kill();
    const [alive] = cluster.masters;
    const lucky = open({ cluster: { urls: [nobody.url, alive.url] }, connectTimeoutMs: RECOVERY_MS });
    const unlucky = open({ cluster: { urls: [nobody.url] } });

    await lucky.store.ready();
    expect((await lucky.limiter.health()).nodes).toHaveLength(3);
    await expect(unlucky.store.ready()).rejects.toThrow(
      `none of 127.0.0.1:${nobody.port} has told who serves which slot yet`,
    );
    expect((await causeOf(unlucky.limiter)).message).toContain(`127.0.0.1:${nobody.port}`);
  });

  test('a store that is closed before it has found its cluster opens no further connection', async () => {
    const silent = await ending(startRedis());
    await silent.pause();
    const other = await ending(startRedis());
    const proxy = await ending(Proxy.start({ port: other.port }));
    const store = redisStore({ cluster: { urls: [silent.url, proxy.url] }, timeoutMs: DEADLINE_MS });

    await store.close();
    await sleep(DEADLINE_MS * 2);

    expect(proxy.connections).toBe(0);
  });

  test('a server that is too old is refused', async () => {
    const server = await ending(startRedis());
    const proxy = await ending(
      Proxy.start({
        port: server.port,
        rewrite: (chunk) =>
          Buffer.from(chunk.toString('latin1').replace(/redis_version:\d/, 'redis_version:4'), 'latin1'),
      }),
    );
    const { store, limiter } = open({ url: proxy.url });

    await expect(store.ready()).rejects.toMatchObject({
      code: 'STORE_MISCONFIGURED',
      message: expect.stringMatching(
        /runs Redis 4\.\S+; the limiter needs 5\.0 or newer: upgrade the server/,
      ),
    });
    expect(await causeOf(limiter)).toMatchObject({ code: 'STORE_MISCONFIGURED' });
    expect(await limiter.health()).toMatchObject({
      status: 'down',
      nodes: [{ detail: expect.stringContaining('needs 5.0 or newer') }],
    });
  });

  test('a server that is too old decides nothing, not even a check that has waited for the connection', async () => {
    const server = await ending(startRedis());
    const proxy = await ending(
      Proxy.start({
        port: server.port,
        // What it is comes late, and what it decides could come at once.
        delayMs: 5,
        rewrite: (chunk) =>
          Buffer.from(chunk.toString('latin1').replace(/redis_version:\d/, 'redis_version:4'), 'latin1'),
      }),
    );

    for (const clientPackage of ['ioredis', 'redis'] as const) {
      for (let start = 0; start < 10; start += 1) {
        const { limiter } = open({ url: proxy.url, clientPackage });
        const decisions = await Promise.all([1, 2, 3].map(() => limiter.check(api.for('k'))));
        for (const decision of decisions) {
          expect(decision).toMatchObject({ degraded: true, cause: { code: 'STORE_MISCONFIGURED' } });
        }
      }
    }
  });

  test('a server without scripts is refused', async () => {
    const server = await ending(startRedis({ config: ['rename-command EVALSHA ""'] }));
    const { store, limiter } = open({ url: server.url });

    await expect(store.ready()).rejects.toThrow(
      /unknown command 'EVALSHA'.*the limiter needs EVALSHA and EVAL/,
    );
    expect(await causeOf(limiter)).toMatchObject({ code: 'STORE_MISCONFIGURED' });
    expect((await limiter.health()).status).toBe('down');
  });

  test('a user without the permission is refused until it has it', async () => {
    const server = await ending(startRedis({ acl: ['user app on >secret ~* +@all -evalsha -eval'] }));
    const { store, limiter } = open({ url: `redis://app:secret@${server.host}:${server.port}` });

    await expect(store.ready()).rejects.toThrow(/NOPERM.*the limiter needs EVALSHA and EVAL/);
    expect(await causeOf(limiter)).toMatchObject({ code: 'STORE_MISCONFIGURED' });

    await server.command('ACL', 'SETUSER', 'app', '+evalsha', '+eval');
    await eventually('the store decides', async () => decides(limiter));
    expect((await limiter.health()).status).toBe('up');
  });

  test('a database that does not exist is refused, and no other one used instead', async () => {
    const server = await ending(startRedis({ config: ['databases 4'] }));
    const { store, limiter } = open({ url: `${server.url}/7` });

    await expect(store.ready()).rejects.toThrow(/DB index is out of range/);
    expect(await causeOf(limiter)).toMatchObject({ code: 'STORE_MISCONFIGURED' });
    expect(await server.command('DBSIZE')).toBe(0);
  });

  test('a server that evicts keys is used, with a warning said once', async () => {
    const warnings: Error[] = [];
    const hear = (warning: Error) => {
      if (warning.name === 'SpillgateWarning') warnings.push(warning);
    };
    process.on('warning', hear);
    cleanups.push(async () => process.off('warning', hear));
    const server = await ending(startRedis({ config: ['maxmemory-policy allkeys-lru'] }));
    const { store, limiter } = open({ url: server.url });
    const events: string[] = [];
    limiter.on('warning', ({ message }) => events.push(message));

    await store.ready();
    await server.command('CLIENT', 'KILL', 'TYPE', 'normal');
    await eventually('there is another connection', async () => {
      return (await decides(limiter)) && (await limiter.health()).status === 'up';
    });

    const advice = expect.stringMatching(
      /maxmemory-policy allkeys-lru.*CONFIG SET maxmemory-policy noeviction/,
    );
    expect(events).toEqual([advice]);
    expect(warnings.map(({ message }) => message)).toEqual([advice]);
    expect((await limiter.health()).nodes).toMatchObject([{ status: 'up', detail: advice }]);
  });
});
