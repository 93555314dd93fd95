// Redis in every topology, with what can be done to it there.
import type { RedisStoreOptions } from 'spillgate/redis';
import { Proxy } from '../redis/faults/proxy.ts';
import {
  eventually,
  startCluster,
  startRedis,
  startReplicated,
  startShards,
  type RedisServer,
} from '../redis/servers.ts';
import { WORKERS, type FaultKind } from './plan.ts';

export interface TortureSetup {
  /** For the library, in the process of this number. */
  readonly place: (process: number) => RedisStoreOptions;
  /** The `redis` section of a gateway, which is one process more. */
  readonly settings: string;
  /** Those that hold data. */
  readonly servers: readonly RedisServer[];
  /** On the way to them from each process, where nobody goes around it. */
  readonly proxies: readonly (readonly Proxy[])[];
  /** Whether another server takes over from one that fails. */
  readonly isReplicated: boolean;
  /** What can happen here beside what can happen everywhere. */
  readonly kinds: readonly FaultKind[];
  /** Resolves when roles, replicas and slots are in order again. */
  readonly settle: () => Promise<void>;
  readonly failover?: () => Promise<unknown>;
  /** How many failovers there were, planned or not. */
  readonly failovers?: () => Promise<number>;
  readonly moveSlot?: (target: number) => Promise<void>;
  readonly stop: () => Promise<void>;
}

const EVERYWHERE: readonly FaultKind[] = [
  'worker killed',
  'worker stopped',
  'worker clock set',
  'Redis killed',
  'Redis stopped',
  'Redis memory full',
  'Redis clock set',
];
const OWN_CLOCK = { ownClock: true } as const;
const BY_PROXY: readonly FaultKind[] = ['network cut', 'network slow', 'answers lost'];

export const SETUPS: Readonly<Record<string, () => Promise<TortureSetup>>> = {
  single: async () => singleSetup(await startRedis(OWN_CLOCK)),
  shards: async () => {
    const shards = await startShards(3, OWN_CLOCK);
    const proxies = await proxiesOf(shards.servers);
    const named = proxies[WORKERS]?.map(({ url }, at) => `{ url: "${url}", name: shard-${at} }`) ?? [];
    return {
      place: (process) => {
        return { shards: proxies[process]?.map(({ url }, at) => ({ url, name: `shard-${at}` })) ?? [] };
      },
      settings: `mode: shards, shards: [${named.join(', ')}]`,
      servers: shards.servers,
      proxies,
      isReplicated: false,
      kinds: [...EVERYWHERE, ...BY_PROXY],
      settle: async () => undefined,
      stop: async () => stopAll(proxies, shards),
    };
  },
  sentinel: async () => {
    const group = await startReplicated(OWN_CLOCK);
    const urls = group.sentinels.map(({ url }) => url);
    return {
      place: () => ({ sentinel: { urls, name: group.masterName } }),
      settings: `mode: sentinel, master_name: ${group.masterName}, ${endpoints(group.sentinels)}`,
      servers: group.servers,
      proxies: [],
      isReplicated: true,
      kinds: [...EVERYWHERE, 'failover'],
      settle: async () => settled(() => group.isSettled()),
      failover: async () => group.requestFailover(),
      failovers: async () => group.failovers(),
      stop: async () => group.stop(),
    };
  },
  replication: async () => {
    const group = await startReplicated(OWN_CLOCK);
    return {
      place: () => ({ replication: { urls: group.servers.map(({ url }) => url) } }),
      settings: `mode: replication, ${endpoints(group.servers)}`,
      servers: group.servers,
      proxies: [],
      isReplicated: true,
      kinds: [...EVERYWHERE, 'failover'],
      settle: async () => settled(() => group.isSettled()),
      failover: async () => group.requestFailover(),
      failovers: async () => group.failovers(),
      stop: async () => group.stop(),
    };
  },
  cluster: async () => {
    const cluster = await startCluster(3, OWN_CLOCK);
    const moveSlot = async (target: number): Promise<void> => {
      const keys = await keysOf(cluster.masters);
      const key = keys[target % keys.length];
      const owner = cluster.masters[target % cluster.masters.length];
      if (key === undefined || owner === undefined) return;
      const slot = await cluster.slotOf(key);
      if ((await cluster.ownerOf(slot)) !== owner) await cluster.moveSlot(slot, owner);
    };
    return {
      place: () => ({ cluster: { urls: cluster.masters.map(({ url }) => url) } }),
      settings: `mode: cluster, ${endpoints(cluster.masters)}`,
      servers: cluster.masters,
      proxies: [],
      isReplicated: false,
      kinds: [...EVERYWHERE, 'slot moved'],
      settle: async () =>
        settled(async () => {
          const states = await Promise.all(cluster.masters.map((node) => node.command('CLUSTER', 'INFO')));
          return states.every((state) => String(state).includes('cluster_state:ok'));
        }),
      moveSlot,
      stop: async () => cluster.stop(),
    };
  },
};

async function singleSetup(server: RedisServer): Promise<TortureSetup> {
  const proxies = await proxiesOf([server]);
  return {
    place: (process) => ({ url: proxies[process]?.[0]?.url ?? '' }),
    settings: `url: "${proxies[WORKERS]?.[0]?.url}"`,
    servers: [server],
    proxies,
    isReplicated: false,
    kinds: [...EVERYWHERE, ...BY_PROXY],
    settle: async () => undefined,
    stop: async () => stopAll(proxies, server),
  };
}

/** Each process has a network of its own. */
async function proxiesOf(servers: readonly RedisServer[]): Promise<readonly (readonly Proxy[])[]> {
  const processes = Array.from({ length: WORKERS + 1 });
  const each = async (): Promise<readonly Proxy[]> =>
    Promise.all(servers.map(async ({ port }) => Proxy.start({ port })));
  return Promise.all(processes.map(each));
}

async function stopAll(
  proxies: readonly (readonly Proxy[])[],
  servers: { stop(): Promise<void> },
): Promise<void> {
  await Promise.all(proxies.flat().map(async (proxy) => proxy.stop()));
  await servers.stop();
}

function endpoints(servers: readonly RedisServer[]): string {
  return `endpoints: [${servers.map(({ port }) => `"127.0.0.1:${port}"`).join(', ')}]`;
}

/** The names of all states that there are now. */
async function keysOf(servers: readonly RedisServer[]): Promise<readonly string[]> {
  const up = servers.filter(({ isResponsive }) => isResponsive);
  const found = await Promise.all(up.map((server) => server.command('KEYS', '*')));
  return found.flatMap((keys) => (Array.isArray(keys) ? keys.map(String) : []));
}

async function settled(holds: () => Promise<boolean>): Promise<void> {
  await eventually('the servers are in order', holds);
}
