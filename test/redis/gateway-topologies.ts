// Redis in every way that a gateway's configuration and the library can name it.
import { connect, createServer, type Server } from 'node:net';
import type { RedisStoreOptions } from 'spillgate/redis';
import { startCluster, startRedis, startReplicated, startShards } from './servers.ts';

/** Servers as a `redis` section names them. */
export interface StartedTopology {
  readonly settings: string;
  readonly ports: readonly number[];
  /** The same for the library. */
  readonly place: RedisStoreOptions;
  stop(): Promise<void>;
}

export const TOPOLOGIES = {
  single: async (): Promise<StartedTopology> => {
    const server = await startRedis();
    return {
      settings: 'mode: single',
      ports: [server.port],
      place: { url: server.url },
      stop: async () => server.stop(),
    };
  },
  replication: async (): Promise<StartedTopology> => {
    const group = await startReplicated();
    // The master last: the order means nothing.
    const ports = portsOf(group.servers).toReversed();
    const place = { replication: { urls: urlsTo(ports) } };
    return { settings: 'mode: replication', ports, place, stop: async () => group.stop() };
  },
  sentinel: async (): Promise<StartedTopology> => {
    const group = await startReplicated();
    const settings = `mode: sentinel, master_name: ${group.masterName}`;
    const ports = portsOf(group.sentinels);
    const place = { sentinel: { urls: urlsTo(ports), name: group.masterName } };
    return { settings, ports, place, stop: async () => group.stop() };
  },
  cluster: async (): Promise<StartedTopology> => {
    const cluster = await startCluster(3);
    const ports = portsOf(cluster.masters);
    const place = { cluster: { urls: urlsTo(ports) } };
    return { settings: 'mode: cluster', ports, place, stop: async () => cluster.stop() };
  },
  shards: async (): Promise<StartedTopology> => {
    const shards = await startShards(3);
    const ports = portsOf(shards.servers);
    const place = { shards: urlsTo(ports) };
    return { settings: 'mode: shards', ports, place, stop: async () => shards.stop() };
  },
} as const;

function portsOf(servers: readonly { readonly port: number }[]): readonly number[] {
  return servers.map(({ port }) => port);
}

function urlsTo(ports: readonly number[]): readonly string[] {
  return ports.map((port) => `redis://127.0.0.1:${port}`);
}

/** The same servers, where every new connection takes so long. */
export async function withSlowConnections(
  topology: StartedTopology,
  delayMs: number,
): Promise<StartedTopology> {
  const doors = await Promise.all(topology.ports.map(async (port) => slowDoor(port, delayMs)));
  return {
    settings: topology.settings,
    place: topology.place,
    ports: doors.map(({ port }) => port),
    stop: async () => {
      for (const { server } of doors) server.close();
      await topology.stop();
    },
  };
}

async function slowDoor(
  port: number,
  delayMs: number,
): Promise<{ readonly server: Server; readonly port: number }> {
  const door = createServer((client) => {
    const timer = setTimeout(() => {
      const server = connect(port, '127.0.0.1');
      client.pipe(server).pipe(client);
      for (const socket of [client, server]) socket.on('error', () => socket.destroy());
    }, delayMs);
    client.on('error', () => client.destroy());
    client.on('close', () => clearTimeout(timer));
  });
  await new Promise<void>((resolve) => {
    door.listen(0, '127.0.0.1', resolve);
  });
  const address = door.address();
  if (address === null || typeof address === 'string') throw new Error('it does not listen');
  return { server: door, port: address.port };
}
