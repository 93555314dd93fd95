// What instances share through Redis, on every topology.
import { openRedisFleet, type KeySetting, type RedisFleet } from 'spillgate/internal';
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest';
import { PATIENCE_MS } from '../../patience.ts';
import { readFileSync } from 'node:fs';
import { startCluster, startRedis, startReplicated, startShards } from '../servers.ts';
import { FLEET_COMMANDS, LIMITED_USER, LIMITED_USER_ACL } from './limited-user.ts';
import type { Setup } from './topologies.ts';

const ACL = `${LIMITED_USER_ACL} ${FLEET_COMMANDS}`;

const TOPOLOGIES: readonly { readonly name: string; readonly start: () => Promise<Setup> }[] = [
  { name: 'one server, opened by ioredis', start: async () => startOne('ioredis') },
  { name: 'one server, opened by redis', start: async () => startOne('redis') },
  { name: 'shards', start: startThree },
  { name: 'sentinels', start: startSentinels },
  { name: 'a cluster, opened by ioredis', start: async () => startNodes('ioredis') },
  { name: 'a cluster, opened by redis', start: async () => startNodes('redis') },
];

async function startOne(clientPackage: 'ioredis' | 'redis'): Promise<Setup> {
  const server = await startRedis({ acl: [ACL] });
  const place = { url: server.url, ...LIMITED_USER, clientPackage };
  return { place, servers: [server], stop: () => server.stop() };
}

async function startThree(): Promise<Setup> {
  const shards = await startShards(3, { acl: [ACL] });
  const { servers } = shards;
  return {
    place: { shards: servers.map(({ url }) => url), ...LIMITED_USER },
    servers,
    stop: () => shards.stop(),
  };
}

async function startSentinels(): Promise<Setup> {
  const replicated = await startReplicated({ config: [ACL] });
  const { sentinels, masterName, servers } = replicated;
  const place = { sentinel: { urls: sentinels.map(({ url }) => url), name: masterName }, ...LIMITED_USER };
  return { place, servers, stop: () => replicated.stop() };
}

async function startNodes(clientPackage: 'ioredis' | 'redis'): Promise<Setup> {
  const cluster = await startCluster(3, { config: [ACL] });
  const { masters } = cluster;
  const place = { cluster: { urls: [masters[1].url] }, ...LIMITED_USER, clientPackage };
  return { place, servers: masters, stop: () => cluster.stop() };
}

test('the documents name the permissions that these tests run with', () => {
  const page = readFileSync(new URL('../../../docs/redis.md', import.meta.url), 'utf8');
  expect(page).toContain(`\n${FLEET_COMMANDS}\n`);
});

const SETTING: KeySetting = {
  kind: 'override',
  policy: 'api',
  key: 'ann "quoted" é',
  numbers: { quota: 7, window: '30s' },
  setAt: '2026-01-01T00:00:00.000Z',
  by: 'eve',
  note: 'ticket 12',
};

describe.each(TOPOLOGIES)('$name', ({ start }) => {
  let setup: Setup;
  let one: RedisFleet;
  let other: RedisFleet;

  beforeAll(async () => {
    setup = await start();
    [one, other] = [openRedisFleet(setup.place), openRedisFleet(setup.place)];
    // On a busy machine it takes longer to load a client package than a command may.
    await vi.waitFor(async () => Promise.all([one.read(undefined), other.read(undefined)]), PATIENCE_MS);
  });

  afterAll(async () => {
    await Promise.all([one.close(), other.close()]);
    await setup.stop();
  });

  test('what one wrote the other reads, until it is removed; what has not changed is not read again', async () => {
    const before = await other.read(undefined);
    await one.write(SETTING);
    const written = await other.read(before?.version);
    const again = await other.read(written?.version);
    await other.remove(SETTING);
    const removed = await one.read(written?.version);

    expect(before?.settings).toEqual([]);
    expect(written?.settings).toEqual([SETTING]);
    expect(again).toBeUndefined();
    expect(removed?.settings).toEqual([]);
  });

  test('what is discarded has to be what is there', async () => {
    await one.write(SETTING);

    await other.discard([{ ...SETTING, note: 'an older one' }]);
    const kept = await one.read(undefined);
    await other.discard([SETTING]);

    expect(kept?.settings).toEqual([SETTING]);
    expect((await one.read(undefined))?.settings).toEqual([]);
  });

  test('instances are known until they withdraw', async () => {
    await one.publish('a', '{"id":"a"}', 60_000);
    await other.publish('b', '{"id":"b"}', 60_000);
    await other.publish('b', '{"id":"b","again":true}', 60_000);
    const both = await one.summaries();
    await one.withdraw('a');

    expect([...both].toSorted()).toEqual(['{"id":"a"}', '{"id":"b","again":true}']);
    expect(await other.summaries()).toEqual(['{"id":"b","again":true}']);
    await other.withdraw('b');
  });

  test('those that do not tell again are forgotten', async () => {
    await one.publish('a', '{"id":"a"}', 20);

    await expect.poll(async () => other.summaries()).toEqual([]);
  });
});
