export type {
  CallClient,
  ClusterCommandClient,
  RedisClient,
  SendCommandClient,
  SentinelCommandClient,
} from './clients/client.ts';
export type { PackageName } from './clients/client-package.ts';
export type {
  ClusterOptions,
  RedisStoreOptions,
  ReplicationOptions,
  SentinelOptions,
  ShardOptions,
} from './redis-options.ts';
export { redisStore, type RedisStore } from './redis-store.ts';
export { redisStoreFromEnv } from './store-from-env.ts';
export type { TlsOptions } from './server-address.ts';
