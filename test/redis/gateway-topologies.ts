// Redis in every way that a gateway's configuration can name it.
import { connect, createServer, type Server } from 'node:net';
import { startCluster, startRedis, startReplicated, startShards } from './servers.ts';

/** Servers as a `redis` section names them. */
export interface StartedTopology {
  readonly settings: string;
  readonly ports: readonly number[];
  stop(): Promise<void>;
}

export const TOPOLOGIES = {
  single: async (): Promise<StartedTopology> => {
    const server = await startRedis();
    return { settings: 'mode: single', ports: [server.port], stop: async () => server.stop() };
  },
  replication: async (): Promise<StartedTopology> => {
    const group = await startReplicated();
    // The master last: the order means nothing.
    const ports = portsOf(group.servers).toReversed();
    return { settings: 'mode: replication', ports, stop: async () => group.stop() };
  },
  sentinel: async (): Promise<StartedTopology> => {
    const group = await startReplicated();
    const settings = `mode: sentinel, master_name: ${group.masterName}`;
    return { settings, ports: portsOf(group.sentinels), stop: async () => group.stop() };
  },
  cluster: async (): Promise<StartedTopology> => {
    const cluster = await startCluster(3);
    return { settings: 'mode: cluster', ports: portsOf(cluster.masters), stop: async () => cluster.stop() };
  },
  shards: async (): Promise<StartedTopology> => {
    const shards = await startShards(3);
    return { settings: 'mode: shards', ports: portsOf(shards.servers), stop: async () => shards.stop() };
  },
} as const;

function portsOf(servers: readonly { readonly port: number }[]): readonly number[] {
  return servers.map(({ port }) => port);
}

/** The same servers, where every new connection takes so long. */
export async function withSlowConnections(
  topology: StartedTopology,
  delayMs: number,
): Promise<StartedTopology> {
  const doors = await Promise.all(topology.ports.map(async (port) => slowDoor(port, delayMs)));
  return {
    settings: topology.settings,
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
