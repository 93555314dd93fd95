import { Cluster as IoredisCluster, Redis } from 'ioredis';
import { Cluster as IoredisCluster6 } from 'ioredis-6';
import { Cluster as ValkeyCluster } from 'iovalkey';
import { createCluster, createSentinel } from 'redis';
import { createCluster as createCluster6 } from 'redis-6';
import type { RedisStoreOptions } from 'spillgate/redis';
import {
  startCluster,
  startReplicated,
  startShards,
  startTls,
  type Cluster,
  type RedisServer,
  type Replicated,
} from '../servers.ts';
import { LIMITED_USER, LIMITED_USER_ACL, limitedUrl, startLimited } from './limited-user.ts';

/** Where a store finds its servers, and how to end both. */
export interface Setup {
  readonly place: RedisStoreOptions;
  /** Those that hold data. */
  readonly servers: readonly RedisServer[];
  readonly stop: () => Promise<void>;
}

export interface TopologyUnderTest {
  readonly name: string;
  readonly start: () => Promise<Setup>;
}

/** Every way to reach a Redis that the store promises, beyond a single server through an application's client. */
export const TOPOLOGIES: readonly TopologyUnderTest[] = [
  { name: 'a url, opened by ioredis', start: () => startSingle('ioredis') },
  { name: 'a url, opened by redis', start: () => startSingle('redis') },
  { name: 'TLS with a client certificate, opened by ioredis', start: () => startSecured('ioredis') },
  { name: 'TLS with a client certificate, opened by redis', start: () => startSecured('redis') },
  { name: 'another database', start: startDatabase },
  { name: 'three shards', start: startThreeShards },
  { name: 'sentinels', start: startSentinels },
  { name: 'a master among its replicas', start: startMasterAmongReplicas },
  { name: 'sentinels behind a client of ioredis', start: () => startBehindSentinels(sentinelIoredis) },
  { name: 'sentinels behind a client of redis', start: () => startBehindSentinels(sentinelNodeRedis) },
  { name: 'a cluster of three, opened by ioredis', start: () => startNodes(3, 'ioredis') },
  { name: 'a cluster of six, opened by redis', start: () => startNodes(6, 'redis') },
  {
    name: 'a cluster behind a client of ioredis 5',
    start: () => startBehind(clusterIoredis(IoredisCluster)),
  },
  {
    name: 'a cluster behind a client of ioredis 6',
    start: () => startBehind(clusterIoredis(IoredisCluster6)),
  },
  { name: 'a cluster behind a client of iovalkey', start: () => startBehind(clusterIoredis(ValkeyCluster)) },
  { name: 'a cluster behind a client of redis 5', start: () => startBehind(clusterNodeRedis(createCluster)) },
  {
    name: 'a cluster behind a client of redis 6',
    start: () => startBehind(clusterNodeRedis(createCluster6)),
  },
];

async function startSingle(clientPackage: 'ioredis' | 'redis'): Promise<Setup> {
  const server = await startLimited();
  return { place: { url: limitedUrl(server), clientPackage }, servers: [server], stop: () => server.stop() };
}

async function startSecured(clientPackage: 'ioredis' | 'redis'): Promise<Setup> {
  const { server, certificates } = await startTls({ acl: [LIMITED_USER_ACL] });
  const { ca, client } = certificates;
  const tls = { ca, ...client, servername: 'redis.test' };
  return {
    place: { url: server.url, ...LIMITED_USER, tls, clientPackage },
    servers: [server],
    stop: () => server.stop(),
  };
}

async function startDatabase(): Promise<Setup> {
  const server = await startLimited();
  return { place: { url: `${limitedUrl(server)}/7` }, servers: [server], stop: () => server.stop() };
}

async function startThreeShards(): Promise<Setup> {
  const shards = await startShards(3, { acl: [LIMITED_USER_ACL] });
  const { servers } = shards;
  return { place: { shards: servers.map(limitedUrl) }, servers, stop: () => shards.stop() };
}

async function startSentinels(): Promise<Setup> {
  const replicated = await startReplicated({ config: [LIMITED_USER_ACL] });
  return setupOf(replicated, {
    sentinel: { urls: replicated.sentinels.map(({ url }) => url), name: replicated.masterName },
    ...LIMITED_USER,
  });
}

async function startMasterAmongReplicas(): Promise<Setup> {
  const replicated = await startReplicated({ config: [LIMITED_USER_ACL] });
  const [master, replica] = replicated.servers;
  return setupOf(replicated, { replication: { urls: [replica.url, master.url] }, ...LIMITED_USER });
}

function setupOf(group: Replicated | Cluster, place: RedisStoreOptions, close?: () => void): Setup {
  const servers = 'masters' in group ? group.masters : group.servers.slice(0, 1);
  return {
    place,
    servers,
    stop: async () => {
      close?.();
      await group.stop();
    },
  };
}

interface ForeignClient {
  readonly client: NonNullable<RedisStoreOptions['client']>;
  readonly close: () => void;
}

type OpenBehindSentinels = (replicated: Replicated) => Promise<ForeignClient>;

async function startBehindSentinels(open: OpenBehindSentinels): Promise<Setup> {
  const replicated = await startReplicated();
  const { client, close } = await open(replicated);
  return setupOf(replicated, { client }, close);
}

async function sentinelIoredis({ sentinelAddresses, masterName }: Replicated): Promise<ForeignClient> {
  const client = new Redis({ sentinels: [...sentinelAddresses], name: masterName });
  client.on('error', () => undefined);
  await client.ping();
  return {
    client,
    close: () => {
      client.disconnect();
    },
  };
}

async function sentinelNodeRedis({ sentinelAddresses, masterName }: Replicated): Promise<ForeignClient> {
  const client = createSentinel({ name: masterName, sentinelRootNodes: [...sentinelAddresses] });
  client.on('error', () => undefined);
  await client.connect();
  return {
    client,
    close: () => {
      void client.destroy();
    },
  };
}

async function startNodes(count: 3 | 6, clientPackage: 'ioredis' | 'redis'): Promise<Setup> {
  const cluster = await startCluster(count, { config: [LIMITED_USER_ACL] });
  // One is enough: the others are found.
  return setupOf(cluster, {
    cluster: { urls: [cluster.masters[1].url] },
    ...LIMITED_USER,
    clientPackage,
  });
}

type OpenCluster = (cluster: Cluster) => Promise<ForeignClient>;

async function startBehind(open: OpenCluster): Promise<Setup> {
  const cluster = await startCluster(3);
  const { client, close } = await open(cluster);
  return setupOf(cluster, { client }, close);
}

interface IoredisClusterLike {
  call(command: string, ...args: string[]): Promise<unknown>;
  disconnect(): void;
  on(event: 'error', listener: () => void): unknown;
}

type IoredisClusterConstructor = new (nodes: { host: string; port: number }[]) => IoredisClusterLike;

function clusterIoredis(Constructor: IoredisClusterConstructor): OpenCluster {
  return async ({ nodes }) => {
    const client = new Constructor(nodes.map(({ host, port }) => ({ host, port })));
    client.on('error', () => undefined);
    await client.call('PING');
    return {
      client,
      close: () => {
        client.disconnect();
      },
    };
  };
}

interface NodeRedisClusterLike {
  sendCommand(
    firstKey: string | undefined,
    isReadonly: boolean | undefined,
    args: string[],
  ): Promise<unknown>;
  readonly masters: unknown;
  connect(): Promise<unknown>;
  destroy(): void;
  on(event: 'error', listener: () => void): unknown;
}

type CreateNodeRedisCluster = (options: { rootNodes: { url: string }[] }) => NodeRedisClusterLike;

function clusterNodeRedis(create: CreateNodeRedisCluster): OpenCluster {
  return async ({ nodes }) => {
    const client = create({ rootNodes: nodes.map(({ url }) => ({ url })) });
    client.on('error', () => undefined);
    await client.connect();
    return {
      client,
      close: () => {
        client.destroy();
      },
    };
  };
}
