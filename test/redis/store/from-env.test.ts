import { limiterFromEnv } from 'spillgate';
import { redisStoreFromEnv } from 'spillgate/redis';
import { afterEach, expect, test } from 'vitest';
import { startRedis, startShards } from '../servers.ts';

const cleanups: (() => Promise<unknown>)[] = [];

afterEach(async () => {
  for (const cleanup of cleanups.splice(0).toReversed()) await cleanup();
});

/** How many of ten checks the store decides that the variables describe. */
async function decidedBy(env: Readonly<Record<string, string>>): Promise<number> {
  const { limiter, policy } = limiterFromEnv(
    { DISTRIBUTED_RATE_LIMIT_ENABLED: 'true', ...env },
    { createStore: redisStoreFromEnv },
  );
  cleanups.push(() => limiter.close());
  const keys = Array.from({ length: 10 }, (_, at) => `key-${at}`);
  const decisions = await Promise.all(keys.map((key) => limiter.check(policy.for(key))));
  return decisions.filter(({ source }) => source === 'store').length;
}

test('a server behind a password, by its address or by its URL', async () => {
  const server = await startRedis({ password: 'sesame' });
  cleanups.push(() => server.stop());
  const address = `127.0.0.1:${server.port}`;

  expect(await decidedBy({ REDIS_ADDR: address, REDIS_PASSWORD: 'sesame', REDIS_DB: '1' })).toBe(10);
  expect(await decidedBy({ REDIS_URL: `redis://:sesame@${address}/2` })).toBe(10);

  const keyspace = String(await server.command('INFO', 'keyspace'));
  expect(keyspace).toContain('db1:keys=10');
  expect(keyspace).toContain('db2:keys=10');
});

test('several addresses are shards, with one password for all', async () => {
  const shards = await startShards(2, { password: 'sesame' });
  cleanups.push(() => shards.stop());
  const addresses = shards.servers.map(({ port }) => `127.0.0.1:${port}`).join(',');

  expect(await decidedBy({ REDIS_ADDRS: addresses, REDIS_PASSWORD: 'sesame' })).toBe(10);

  const sizes = await Promise.all(shards.servers.map((server) => server.command('DBSIZE')));
  expect(sizes.map(Number).reduce((sum, size) => sum + size, 0)).toBe(10);
});
