import { Redis } from 'ioredis';
import { Redis as Redis6 } from 'ioredis-6';
import { Redis as Valkey } from 'iovalkey';
import { createClient } from 'redis';
import { createClient as createClient6 } from 'redis-6';
import type { RedisClient } from 'spillgate/redis';
import type { RedisServer } from '../servers.ts';
import { limitedUrl } from './limited-user.ts';

/** A connected client as an application would hold it. */
export interface OpenClient {
  readonly client: RedisClient;
  readonly close: () => void;
}

export interface ClientPackage {
  readonly name: string;
  /** By default it connects as the user with the smallest permissions, whom a server of `startLimited` knows. */
  readonly open: (server: RedisServer, url?: string) => Promise<OpenClient>;
}

/** Short, so that a test does not wait for a client to notice that the server is back. */
const RECONNECT_MS = 20;

/** The client packages that the store promises to work with. */
export const CLIENT_PACKAGES: readonly ClientPackage[] = [
  { name: 'ioredis 5', open: (server, url = limitedUrl(server)) => openIoredis(Redis, url) },
  { name: 'redis 5', open: (server, url = limitedUrl(server)) => openNodeRedis(createClient, url) },
  { name: 'ioredis 6', open: (server, url = limitedUrl(server)) => openIoredis(Redis6, url) },
  { name: 'redis 6', open: (server, url = limitedUrl(server)) => openNodeRedis(createClient6, url) },
  { name: 'iovalkey', open: (server, url = limitedUrl(server)) => openIoredis(Valkey, url) },
];

/** One of each family, for what depends on the family and takes its time. */
export const CLIENT_FAMILIES: readonly ClientPackage[] = CLIENT_PACKAGES.slice(0, 2);

/** The client that tests use to look behind the store: it can read bytes, and may do everything. */
export function openRaw(server: RedisServer): Redis {
  const redis = new Redis(server.port, server.host, { retryStrategy: () => RECONNECT_MS });
  // An outage is the point of some tests; a client without a listener would end the process.
  redis.on('error', () => undefined);
  return redis;
}

/** What ioredis and its relatives have in common. */
interface IoredisLike {
  call(command: string, ...args: string[]): Promise<unknown>;
  ping(): Promise<unknown>;
  disconnect(): void;
  on(event: 'error', listener: () => void): unknown;
}

type IoredisConstructor = new (url: string, options: { retryStrategy: () => number }) => IoredisLike;

async function openIoredis(Client: IoredisConstructor, url: string): Promise<OpenClient> {
  const client = new Client(url, { retryStrategy: () => RECONNECT_MS });
  client.on('error', () => undefined);
  await client.ping();
  return {
    client,
    close: () => {
      client.disconnect();
    },
  };
}

/** What both majors of node-redis have in common. */
interface NodeRedisLike {
  sendCommand(args: string[]): Promise<unknown>;
  connect(): Promise<unknown>;
  destroy(): void;
  on(event: 'error', listener: () => void): unknown;
}

type CreateNodeRedis = (options: {
  url: string;
  socket: { reconnectStrategy: () => number };
}) => NodeRedisLike;

async function openNodeRedis(create: CreateNodeRedis, url: string): Promise<OpenClient> {
  const client = create({ url, socket: { reconnectStrategy: () => RECONNECT_MS } });
  client.on('error', () => undefined);
  await client.connect();
  return {
    client,
    close: () => {
      client.destroy();
    },
  };
}
