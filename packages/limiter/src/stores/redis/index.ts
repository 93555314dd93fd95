export type { CallClient, RedisClient, SendCommandClient } from './client.ts';
export { redisStore, type RedisStoreOptions } from './redis-store.ts';
