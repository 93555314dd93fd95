import { Redis } from 'ioredis';
import { createClient } from 'redis';
import type { RedisClient } from 'spillgate/redis';
import type { RedisServer } from '../servers.ts';

/** A connected client as an application would hold it. */
export interface OpenClient {
  readonly client: RedisClient;
  readonly close: () => void;
}

export interface ClientPackage {
  readonly name: string;
  readonly open: (server: RedisServer) => Promise<OpenClient>;
}

/** Short, so that a test does not wait for a client to notice that the server is back. */
const RECONNECT_MS = 20;

/** The client packages that the store promises to work with. */
export const CLIENT_PACKAGES: readonly ClientPackage[] = [
  { name: 'ioredis 5', open: openIoredis },
  { name: 'redis 5', open: openNodeRedis },
];

/** The client that tests use to look behind the store: it can read bytes. */
export function openRaw(server: RedisServer): Redis {
  const redis = new Redis(server.port, server.host, { retryStrategy: () => RECONNECT_MS });
  // An outage is the point of some tests; a client without a listener would end the process.
  redis.on('error', () => undefined);
  return redis;
}

async function openIoredis(server: RedisServer): Promise<OpenClient> {
  const client = openRaw(server);
  await client.ping();
  return {
    client,
    close: () => {
      client.disconnect();
    },
  };
}

async function openNodeRedis(server: RedisServer): Promise<OpenClient> {
  const client = createClient({ url: server.url, socket: { reconnectStrategy: () => RECONNECT_MS } });
  client.on('error', () => undefined);
  await client.connect();
  return {
    client,
    close: () => {
      client.destroy();
    },
  };
}
