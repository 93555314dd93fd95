import { createLimiter, tokenBucket } from 'spillgate';
import { redisStore, type RedisStoreOptions } from 'spillgate/redis';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { elementsOf, eventually, startRedis, type RedisServer } from '../servers.ts';
import { expectInTime, expectRecovery, expectStillEmpty } from './expectations.ts';
import { FaultRun } from './fault-run.ts';
import { exhaust } from './patience.ts';
import { NARROW_LIMITS } from './traffic.ts';
import { collectWarnings, type CollectedWarnings } from './warnings.ts';

/** Errors come at once; only a machine that stands still could make a check wait that long. */
const DEADLINE_MS = 250;
const MAX_GAP_MS = 2000;
const TEST_TIMEOUT_MS = 60_000;
const api = tokenBucket({ name: 'api', average: 1, burst: 1000, period: '1h' });

let master: RedisServer;
let first: RedisServer;
let second: RedisServer;
let warnings: CollectedWarnings;
const cleanups: (() => unknown)[] = [];

beforeEach(async () => {
  warnings = collectWarnings();
  master = await start();
  [first, second] = await Promise.all([start(master), start(master)]);
  await eventually('the replicas follow', async () => (await replicasOf(master)) === 2);
}, TEST_TIMEOUT_MS);

afterEach(async () => {
  warnings.stop();
  for (const cleanup of cleanups.splice(0).toReversed()) await cleanup();
});

async function start(of?: RedisServer): Promise<RedisServer> {
  const server = await startRedis({
    config: [...(of === undefined ? [] : [`replicaof ${of.host} ${of.port}`]), 'repl-diskless-sync-delay 0'],
  });
  cleanups.push(() => server.stop());
  return server;
}

async function replicasOf(server: RedisServer): Promise<number> {
  const [role, , replicas = null] = elementsOf(await server.command('ROLE'));
  return role === 'master' ? elementsOf(replicas).length : -1;
}

function optionsOf(servers: readonly RedisServer[], more: RedisStoreOptions = {}): RedisStoreOptions {
  return { replication: { urls: servers.map(({ url }) => url) }, ...more };
}

async function promote(successor: RedisServer, followers: readonly RedisServer[]): Promise<void> {
  await successor.command('REPLICAOF', 'NO', 'ONE');
  for (const follower of followers) await follower.command('REPLICAOF', successor.host, successor.port);
}

async function nameOfMaster(options: RedisStoreOptions): Promise<string | undefined> {
  const store = redisStore(options);
  try {
    await store.ready();
    return (await store.health()).nodes[0]?.name;
  } finally {
    await store.close();
  }
}

function nameOf({ port }: RedisServer): string {
  return `127.0.0.1:${port}`;
}

describe('a master and its replicas', { timeout: TEST_TIMEOUT_MS }, () => {
  test('are found in any order, and every server has its line in health()', async () => {
    for (const servers of [
      [master, first, second],
      [first, second, master],
      [second, master, first],
    ]) {
      const store = redisStore(optionsOf(servers));
      await store.ready();
      const { status, nodes } = await store.health();
      await store.close();

      const [decides, ...others] = nodes.map(({ name }) => name);
      expect(status).toBe('up');
      expect(decides).toBe(nameOf(master));
      expect(others.toSorted()).toEqual(
        [first, second].map((server) => `replica ${nameOf(server)}`).toSorted(),
      );
    }
  });

  test('of which a replica is gone decide as before', async () => {
    await first.kill();
    const store = redisStore({ ...optionsOf([first, master, second]), timeoutMs: 5000 });
    const limiter = createLimiter({ store, failurePolicy: 'failClosed', deadlineMs: 5000 });
    cleanups.push(() => limiter.close());

    expect(await limiter.check(api.for('k'))).toMatchObject({ allowed: true, source: 'store' });
    await eventually('health() tells', async () => {
      const { status, nodes } = await limiter.health();
      return (
        status === 'degraded' && nodes.find(({ name }) => name.endsWith(nameOf(first)))?.status === 'down'
      );
    });
  });

  test('without a master say who follows whom', async () => {
    const store = redisStore({ ...optionsOf([first, second]), connectTimeoutMs: 300 });
    cleanups.push(() => store.close());

    await expect(store.ready()).rejects.toMatchObject({
      code: 'STORE_UNAVAILABLE',
      message: expect.stringContaining(`${nameOf(first)} follows ${nameOf(master)}`),
    });
  });
});

describe.each(['ioredis', 'redis'] as const)('a promotion under load, %s', (clientPackage) => {
  let run: FaultRun;

  beforeEach(async () => {
    const options = optionsOf([first, master, second], { clientPackage });
    await exhaust(options, NARROW_LIMITS);
    const written = (): Promise<unknown> => master.command('WAIT', 2, 1000);
    await eventually('the replicas have everything', async () => (await written()) === 2);
    run = await FaultRun.start(options, 'failClosed', DEADLINE_MS);
    cleanups.push(() => run.close());
  }, TEST_TIMEOUT_MS);

  test('of a replica, while the master stays up and becomes a replica, is followed at once', async () => {
    await run.endure(() => promote(first, [master, second]));

    const gap = run.answers.filter(({ decision }) => decision.degraded).map(({ atMs }) => atMs);
    expect((gap.at(-1) ?? 0) - (gap[0] ?? 0)).toBeLessThan(MAX_GAP_MS);
    expect((await run.limiter.health()).nodes[0]).toMatchObject({ name: nameOf(first), status: 'up' });
    expectStillEmpty(NARROW_LIMITS, run.answers);
  });

  test('of a replica after the master is gone is followed, and gives nobody a new start', async () => {
    const report = await run.suffer({
      strike: () => master.kill(),
      heal: async () => {
        await promote(second, [first]);
        // It comes back as a master, and empty.
        await master.restart();
        await master.command('REPLICAOF', second.host, second.port);
      },
    });

    expectInTime(report);
    expectRecovery(report);
    expect(report.after.nodes[0]?.name).toBe(nameOf(second));
    expectStillEmpty(NARROW_LIMITS, run.answers);
  });
});

describe('two servers that call themselves the master', { timeout: TEST_TIMEOUT_MS }, () => {
  test('are told of, and every process chooses the one that has replicas', async () => {
    await promote(first, [second]);
    await eventually('the other replica follows the new one', async () => (await replicasOf(first)) === 1);
    await eventually('the former master is alone', async () => (await replicasOf(master)) === 0);

    const chosen = await Promise.all([
      nameOfMaster(optionsOf([master, first, second])),
      nameOfMaster(optionsOf([second, first, master])),
    ]);

    expect(chosen).toEqual([nameOf(first), nameOf(first)]);
    const codes = new Set(warnings.all.map(({ code }) => code));
    expect(codes).toEqual(new Set(['SPILLGATE_TWO_MASTERS']));
    expect(warnings.all[0]?.message).toContain('REPLICAOF');
  });

  test('and have no replicas: every process chooses the one to which more was written', async () => {
    await second.command('REPLICAOF', 'NO', 'ONE');
    await first.command('REPLICAOF', 'NO', 'ONE');
    await eventually('nobody follows', async () => (await replicasOf(master)) === 0);
    for (let at = 0; at < 20; at += 1) await first.command('SET', `key-${at}`, 'x'.repeat(100));

    const chosen = await Promise.all([
      nameOfMaster(optionsOf([master, first, second])),
      nameOfMaster(optionsOf([second, first, master])),
    ]);

    // Some servers do not count what nobody could ask them for: then all are equal, and the name decides.
    const [expected] = (await Promise.all([master, first, second].map(claimOf))).toSorted(
      (a, b) => b.offset - a.offset || (a.name < b.name ? -1 : 1),
    );
    expect(chosen).toEqual([expected?.name, expected?.name]);
  });
});

async function claimOf(server: RedisServer): Promise<{ readonly name: string; readonly offset: number }> {
  const [, offset] = elementsOf(await server.command('ROLE'));
  return { name: nameOf(server), offset: Number(offset) };
}
