import { Cluster as IoredisCluster, Redis } from 'ioredis';
import { Cluster as ValkeyCluster } from 'iovalkey';
import { createClient, createCluster } from 'redis';
import { createLimiter, tokenBucket, type Limiter } from 'spillgate';
import { redisStore, type RedisClient } from 'spillgate/redis';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { eventually, startCluster, startRedis, type Cluster, type RedisServer } from '../servers.ts';
import { CLIENT_PACKAGES } from '../store/clients.ts';
import { Proxy } from './proxy.ts';
import { collectWarnings, type CollectedWarnings } from './warnings.ts';

const TEST_TIMEOUT_MS = 60_000;
const api = tokenBucket({ name: 'api', average: 1, burst: 1_000_000, period: '1h' });
const KEYS = Array.from({ length: 24 }, (_, at) => api.for(`key-${at}`));

const cleanups: (() => unknown)[] = [];
let warnings: CollectedWarnings;

beforeEach(() => {
  warnings = collectWarnings();
});

afterEach(async () => {
  warnings.stop();
  for (const cleanup of cleanups.splice(0).toReversed()) await cleanup();
});

async function proxied(server: RedisServer): Promise<Proxy> {
  const proxy = await Proxy.start({ port: server.port });
  cleanups.push(() => proxy.stop());
  return proxy;
}

async function startProxied(): Promise<{ readonly server: RedisServer; readonly proxy: Proxy }> {
  const server = await startRedis();
  cleanups.push(() => server.stop());
  return { server, proxy: await proxied(server) };
}

async function limiterOf(client: RedisClient): Promise<Limiter> {
  const limiter = createLimiter({ store: redisStore({ client }), failurePolicy: 'failClosed' });
  cleanups.push(() => limiter.close());
  // Heard, so that only what is tested here is a warning of the process.
  limiter.on('nodeDown', () => undefined);
  await eventually('the store decides', async () => (await undecided(limiter)) === 0);
  return limiter;
}

async function undecided(limiter: Limiter): Promise<number> {
  const decisions = await Promise.all(KEYS.map((limit) => limiter.check(limit)));
  return decisions.filter(({ degraded }) => degraded).length;
}

async function sufferSilence(limiter: Limiter, proxy: Proxy): Promise<void> {
  proxy.forsake();
  await eventually('the server is down', async () => {
    await undecided(limiter);
    return (await limiter.health()).nodes.some(({ status }) => status === 'down');
  });
  await eventually('the store decides again', async () => (await undecided(limiter)) === 0);
}

describe(
  "an application's client whose connection leads nowhere any more",
  { timeout: TEST_TIMEOUT_MS },
  () => {
    test.each(CLIENT_PACKAGES)('is made to connect again: $name', async ({ open }) => {
      const { server, proxy } = await startProxied();
      const { client, close } = await open(server, proxy.url);
      cleanups.push(close);
      const limiter = await limiterOf(client);
      const heard: string[] = [];
      limiter.on('warning', ({ message }) => heard.push(message));

      await sufferSilence(limiter, proxy);

      expect(heard).toEqual([
        expect.stringMatching(/has failed for \d+ s.*made to connect again.*socketTimeout/),
      ]);
      expect(warnings.all).toEqual([{ code: 'SPILLGATE_SILENT_CLIENT', message: heard[0] }]);
    });

    test.each<[string, (cluster: Cluster, proxy: Proxy) => Promise<RedisClient>]>([
      ['ioredis', (cluster, proxy) => clusterIoredis(IoredisCluster, cluster, proxy)],
      ['iovalkey', (cluster, proxy) => clusterIoredis(ValkeyCluster, cluster, proxy)],
      ['redis', clusterNodeRedis],
    ])('is made to connect again: one server of a cluster, %s', async (_name, open) => {
      const cluster = await startCluster(3);
      cleanups.push(() => cluster.stop());
      const proxy = await proxied(cluster.masters[0]);
      const limiter = await limiterOf(await open(cluster, proxy));

      await sufferSilence(limiter, proxy);

      expect(warnings.all.map(({ code }) => code)).toEqual(['SPILLGATE_SILENT_CLIENT']);
    });
  },
);

describe('a client with the options that the documents ask for', { timeout: TEST_TIMEOUT_MS }, () => {
  test.each<[string, (url: string) => Promise<RedisClient>]>([
    ['ioredis', async (url) => quiet(new Redis(url, { socketTimeout: 1000 }))],
    [
      'redis',
      async (url) => {
        const client = createClient({
          url,
          pingInterval: 400,
          socket: { socketTimeout: 1000, reconnectStrategy: () => 100 },
        });
        quiet(client);
        await client.connect();
        return client;
      },
    ],
  ])('notices by itself: %s', async (_name, open) => {
    const { proxy } = await startProxied();
    const limiter = await limiterOf(await open(proxy.url));

    await sufferSilence(limiter, proxy);

    expect(warnings.all).toEqual([]);
  });
});

interface Client {
  on(event: 'error', listener: () => void): unknown;
}

/** An outage is the point of these tests; a client without a listener would end the process. */
function quiet<Opened extends Client & ({ disconnect(): unknown } | { destroy(): unknown })>(
  client: Opened,
): Opened {
  client.on('error', () => undefined);
  cleanups.push(() => ('destroy' in client ? client.destroy() : client.disconnect()));
  return client;
}

/** The way to the first master leads through the proxy. */
function detour(cluster: Cluster, proxy: Proxy): Record<string, { host: string; port: number }> {
  return { [`127.0.0.1:${cluster.masters[0].port}`]: { host: proxy.host, port: proxy.port } };
}

type ClusterConstructor = new (
  nodes: { host: string; port: number }[],
  options: { natMap: Record<string, { host: string; port: number }> },
) => Client & { call(command: string, ...args: string[]): Promise<unknown>; disconnect(): unknown };

async function clusterIoredis(
  Constructor: ClusterConstructor,
  cluster: Cluster,
  proxy: Proxy,
): Promise<RedisClient> {
  const client = quiet(
    new Constructor(
      cluster.nodes.map(({ host, port }) => ({ host, port })),
      { natMap: detour(cluster, proxy) },
    ),
  );
  await client.call('PING');
  return client;
}

async function clusterNodeRedis(cluster: Cluster, proxy: Proxy): Promise<RedisClient> {
  const client = createCluster({
    rootNodes: cluster.nodes.map(({ url }) => ({ url })),
    nodeAddressMap: detour(cluster, proxy),
  });
  quiet(client);
  await client.connect();
  return client;
}
