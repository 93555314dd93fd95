import { createLimiter, tokenBucket, type Limiter } from 'spillgate';
import { redisStore, type RedisStoreOptions } from 'spillgate/redis';
import { afterEach, describe, expect, test } from 'vitest';
import { PATIENCE_MS } from '../../patience.ts';
import { eventually, startCluster, startShards, type RedisServer } from '../servers.ts';
import { CLUSTER_CLIENTS } from './cluster-clients.ts';

const TEST_TIMEOUT_MS = 2 * PATIENCE_MS;
/** Errors come at once, except from node-redis' cluster client: only a stalled machine makes others wait that long. */
const DEADLINE_MS = 5000;
const ROUNDS = 40;
const api = tokenBucket({ name: 'api', average: 1, burst: 1_000_000, period: '1h' });
const KEYS = Array.from({ length: 24 }, (_, at) => api.for(`key-${at}`));

const cleanups: (() => unknown)[] = [];

afterEach(async () => {
  for (const cleanup of cleanups.splice(0).toReversed()) await cleanup();
});

interface Place {
  readonly options: RedisStoreOptions;
  readonly victim: RedisServer;
}

async function shards(clientPackage: 'ioredis' | 'redis'): Promise<Place> {
  const started = await startShards(3);
  cleanups.push(() => started.stop());
  const { servers } = started;
  const [victim] = servers;
  if (victim === undefined) throw new Error('there is no shard');
  return { options: { shards: servers.map(({ url }) => url), clientPackage }, victim };
}

const PARTIAL = { config: ['cluster-require-full-coverage no'], nodeTimeoutMs: 15_000 };

async function cluster(clientPackage: 'ioredis' | 'redis'): Promise<Place> {
  const started = await startCluster(3, PARTIAL);
  cleanups.push(() => started.stop());
  const urls = started.nodes.map(({ url }) => url);
  return { options: { cluster: { urls }, clientPackage }, victim: started.masters[0] };
}

async function clusterBehindClient(at: number): Promise<Place> {
  const started = await startCluster(3, PARTIAL);
  cleanups.push(() => started.stop());
  const opened = await CLUSTER_CLIENTS[at]?.open(started);
  if (opened === undefined) throw new Error('there is no such client');
  cleanups.push(opened.close);
  return { options: { client: opened.client }, victim: started.masters[0] };
}

async function checkAll(limiter: Limiter): Promise<number> {
  const decisions = await Promise.all(KEYS.map((limit) => limiter.check(limit)));
  return decisions.filter(({ degraded }) => degraded).length;
}

describe('one of several servers that is down', { timeout: TEST_TIMEOUT_MS }, () => {
  test.each<[string, () => Promise<Place>]>([
    ['shards, opened by ioredis', () => shards('ioredis')],
    ['shards, opened by redis', () => shards('redis')],
    ['a cluster, opened by ioredis', () => cluster('ioredis')],
    ['a cluster, opened by redis', () => cluster('redis')],
    ['a cluster behind a client of ioredis', () => clusterBehindClient(0)],
    ['a cluster behind a client of redis', () => clusterBehindClient(1)],
  ])('is told of when it goes and when it comes back, and in no check between: %s', async (_name, open) => {
    const { options, victim } = await open();
    const store = redisStore({ ...options, timeoutMs: DEADLINE_MS, connectTimeoutMs: PATIENCE_MS });
    const limiter = createLimiter({ store, deadlineMs: DEADLINE_MS });
    cleanups.push(() => limiter.close());
    await store.ready();
    await checkAll(limiter);
    const told: string[] = [];
    let undecided = 0;
    limiter.on('storeError', ({ node, error }) => told.push(`storeError ${node} ${error.code}`));
    limiter.on('recovered', ({ node }) => told.push(`recovered ${node}`));
    limiter.on('undecided', () => {
      undecided += 1;
    });

    await victim.kill();
    await eventually('the server counts as down', async () => {
      await checkAll(limiter);
      return (await limiter.health()).nodes.some(({ status }) => status === 'down');
    });
    for (let round = 0; round < ROUNDS; round += 1) await checkAll(limiter);

    const node = `127.0.0.1:${victim.port}`;
    expect(undecided).toBeGreaterThan(ROUNDS);
    // A call that was under way may have missed its deadline before anybody knew why.
    expect([...new Set(told)].filter((line) => !line.endsWith('DEADLINE_EXCEEDED'))).toEqual([
      `storeError ${node} STORE_UNAVAILABLE`,
    ]);
    expect(told.length).toBeLessThanOrEqual(2);

    await victim.restart();
    await eventually('the server decides again', async () => (await checkAll(limiter)) === 0);
    for (let round = 0; round < ROUNDS; round += 1) await checkAll(limiter);

    expect(told.filter((line) => line.startsWith('recovered'))).toEqual([`recovered ${node}`]);
  });
});
