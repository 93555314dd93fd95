import type { DistributedStoreSettings } from '../../distributed-settings.ts';
import { redisStore, type RedisStore } from './redis-store.ts';

/**
 * The store that environment variables describe: one server, or one shard for each address of `REDIS_ADDRS`.
 *
 * @example
 * const { limiter, policy } = limiterFromEnv(process.env, { createStore: redisStoreFromEnv });
 */
export function redisStoreFromEnv({ addresses, database, prefix }: DistributedStoreSettings): RedisStore {
  const urls = addresses.map((address) => `redis://${address}`);
  const [url] = urls;
  return redisStore({ ...(urls.length === 1 ? { url } : { shards: urls }), database, prefix });
}
