import type { RedisStoreOptions, TlsOptions } from 'spillgate/redis';
import { openRedisCommands } from 'spillgate/internal';
import type { Config } from '../config/config.ts';
import { readNamedFile } from '../config/problem.ts';
import type { CacheClient } from './answer-caches.ts';

type RedisConfig = NonNullable<Config['redis']>;

export interface RedisSection {
  readonly section: 'redis' | 'cache_redis';
  readonly config: RedisConfig;
}

/**
 * A client for cached limits, reached in the same way as the states of the limiter. It rejects within `read_timeout`.
 */
export function cacheClient({ section, config }: RedisSection, onError: (error: Error) => void): CacheClient {
  const redis = openRedisCommands(redisOptions({ section, config }));
  const run = async (key: string, name: string, ...args: string[]): Promise<unknown> => {
    try {
      return await redis.run(key, name, [key, ...args]);
    } catch (error) {
      if (error instanceof Error) onError(error);
      throw error;
    }
  };
  return {
    read: async (key) => {
      // Sent together. First the time: should the value be replaced in between, it is taken for older than it is.
      const [ttlMs, value] = await Promise.all([run(key, 'PTTL'), run(key, 'GET')]);
      return [typeof value === 'string' ? value : null, Number(ttlMs)];
    },
    write: async (key, value, ttlMs) => {
      await run(key, 'SET', value, 'PX', String(ttlMs));
    },
    remove: async (key) => {
      await run(key, 'DEL');
    },
    close: () => redis.close(),
  };
}

/** How the library reaches the servers of a section. Throws if a file that it names cannot be read. */
export function redisOptions({ section, config: redis }: RedisSection): RedisStoreOptions {
  return {
    ...placeOf(redis),
    clientPackage: 'ioredis',
    username: redis.username,
    password: redis.password,
    database: redis.mode === 'cluster' ? undefined : redis.db,
    tls: redis.tls.enabled || usesTls(redis) ? tlsOptions(section, redis.tls) : undefined,
    prefix: redis.key_prefix,
    timeoutMs: Math.ceil(redis.read_timeout),
    connectTimeoutMs: Math.ceil(redis.dial_timeout),
  };
}

type ConfiguredPlace = Pick<RedisStoreOptions, 'url' | 'replication' | 'sentinel' | 'cluster' | 'shards'>;

function placeOf(redis: RedisConfig): ConfiguredPlace {
  const urls = urlsOf(redis);
  switch (redis.mode) {
    case 'cluster':
      return { cluster: { urls } };
    case 'sentinel':
      return { sentinel: { urls: urls.map(asSentinel(redis)), name: redis.master_name ?? '' } };
    case 'replication':
      return { replication: { urls } };
    case 'shards':
      return { shards: redis.shards.length === 0 ? urls : redis.shards.map(shardOf) };
    default:
      return { url: urls[0] ?? '' };
  }
}

function urlsOf({ url, endpoints }: RedisConfig): readonly string[] {
  return url ?? endpoints.map(urlTo);
}

function urlTo(endpoint: string): string {
  return `redis://${endpoint}`;
}

function shardOf({ name, endpoint = '', url = urlTo(endpoint), weight }: RedisConfig['shards'][number]) {
  return { name, url, weight };
}

/** TLS files apply to `rediss://`, too; such a URL switches TLS on by itself. */
function usesTls({ url = [], shards }: RedisConfig): boolean {
  return [...url, ...shards.map((shard) => shard.url ?? '')].some((text) => text.startsWith('rediss:'));
}

/** A sentinel's own user and password, which are not those of the servers it watches. */
function asSentinel({ sentinel_username: user = '', sentinel_password: password }: RedisConfig) {
  return (text: string): string => {
    const url = new URL(text);
    if (password === undefined || url.username !== '' || url.password !== '') return text;
    const account = `${encodeURIComponent(user)}:${encodeURIComponent(password)}@`;
    return text.replace('://', `://${account}`);
  };
}

function tlsOptions(section: string, tls: RedisConfig['tls']): TlsOptions {
  const read = (name: 'ca_file' | 'cert_file' | 'key_file'): string | undefined =>
    readNamedFile([section, 'tls', name], tls[name]);
  return {
    ca: read('ca_file'),
    cert: read('cert_file'),
    key: read('key_file'),
    servername: tls.server_name,
    rejectUnauthorized: !tls.insecure_skip_verify,
  };
}
