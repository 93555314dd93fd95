import { Cluster, Redis, type RedisOptions } from 'ioredis';
import type { Config } from '../config/config.ts';
import { tlsOptions } from './client-tls.ts';
import type { CacheClient } from './shared-cache.ts';

type RedisConfig = NonNullable<Config['redis']>;

const MAX_RECONNECT_MS = 2000;

/** A client for cached limits, as the configuration describes the servers. It connects and reconnects by itself. */
export function cacheClient(config: RedisConfig, onError: (error: Error) => void): CacheClient {
  const redis = connect(config);
  redis.on('error', onError);
  return {
    read: async (name) => {
      // Sent together. First the time: should the value be replaced in between, it is taken for older than it is.
      const [ttlMs, value] = await Promise.all([redis.pttl(name), redis.get(name)]);
      return [value, ttlMs];
    },
    write: async (name, value, ttlMs) => {
      await redis.set(name, value, 'PX', ttlMs);
    },
    remove: async (name) => {
      await redis.del(name);
    },
    close: () => redis.disconnect(),
  };
}

function connect(config: RedisConfig): Redis | Cluster {
  const addresses = config.endpoints.map(address);
  const options = optionsOf(config);
  switch (config.mode) {
    case 'cluster':
      return new Cluster(addresses, {
        redisOptions: options,
        enableAutoPipelining: true,
        clusterRetryStrategy: reconnectAfter,
        // Servers with certificates announce addresses, and have names.
        dnsLookup: (host, callback) => callback(null, host),
      });
    case 'sentinel':
      return new Redis({
        ...options,
        sentinels: addresses,
        ...(config.master_name === undefined ? {} : { name: config.master_name }),
        ...(config.sentinel_username === undefined ? {} : { sentinelUsername: config.sentinel_username }),
        ...(config.sentinel_password === undefined ? {} : { sentinelPassword: config.sentinel_password }),
        ...(options.tls === undefined ? {} : { sentinelTLS: options.tls, enableTLSForSentinelMode: true }),
        db: config.db,
        sentinelRetryStrategy: reconnectAfter,
      });
    default:
      return new Redis({ ...options, ...addresses[0], db: config.db });
  }
}

function optionsOf(config: RedisConfig): RedisOptions {
  return {
    connectTimeout: config.dial_timeout,
    // A crowd of cold keys is one write to the socket, not thousands.
    enableAutoPipelining: true,
    // One failed read must not wait for a reconnection: the cache is skipped instead.
    maxRetriesPerRequest: 0,
    retryStrategy: reconnectAfter,
    ...(config.username === undefined ? {} : { username: config.username }),
    ...(config.password === undefined ? {} : { password: config.password }),
    ...(config.tls.enabled ? { tls: tlsOptions(config.tls) } : {}),
  };
}

function address(endpoint: string): { readonly host: string; readonly port: number } {
  const colon = endpoint.lastIndexOf(':');
  return { host: endpoint.slice(0, colon).replaceAll(/[[\]]/g, ''), port: Number(endpoint.slice(colon + 1)) };
}

function reconnectAfter(attempts: number): number {
  return Math.min(MAX_RECONNECT_MS, attempts * 50);
}
