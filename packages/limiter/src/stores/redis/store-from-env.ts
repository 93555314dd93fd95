import type { DistributedStoreSettings } from '../../distributed-settings.ts';
import { redisStore, type RedisStore } from './redis-store.ts';

/**
 * The store that environment variables describe: one server, or one shard for each address of `REDIS_ADDRS`.
 *
 * @example
 * const { limiter, policy } = limiterFromEnv(process.env, { createStore: redisStoreFromEnv });
 */
export function redisStoreFromEnv(settings: DistributedStoreSettings): RedisStore {
  const { addresses, url, database, username, password, prefix } = settings;
  const urls = url === undefined ? addresses.map((address) => `redis://${address}`) : [url];
  const place = urls.length === 1 ? { url: urls[0] } : { shards: urls };
  return redisStore({ ...place, database, username, password, prefix });
}
