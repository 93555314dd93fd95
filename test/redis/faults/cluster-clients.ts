import { Cluster as IoredisCluster } from 'ioredis';
import { createCluster } from 'redis';
import type { Cluster } from '../servers.ts';
import type { OpenClient } from '../store/clients.ts';

export interface ClusterClientPackage {
  readonly name: string;
  readonly open: (cluster: Cluster) => Promise<OpenClient>;
}

/** Short, so that a test does not wait for a client to notice that a node is back. */
const RECONNECT_MS = 50;

/** Clients of a whole cluster as an application would hold them. */
export const CLUSTER_CLIENTS: readonly ClusterClientPackage[] = [
  { name: 'ioredis 5', open: openIoredis },
  { name: 'redis 5', open: openNodeRedis },
];

async function openIoredis({ nodes }: Cluster): Promise<OpenClient> {
  const client = new IoredisCluster(
    nodes.map(({ host, port }) => ({ host, port })),
    { clusterRetryStrategy: () => RECONNECT_MS },
  );
  // An outage is the point of some tests; a client without a listener would end the process.
  client.on('error', () => undefined);
  await client.ping();
  return {
    client,
    close: () => {
      client.disconnect();
    },
  };
}

async function openNodeRedis({ nodes }: Cluster): Promise<OpenClient> {
  const client = createCluster({
    rootNodes: nodes.map(({ url }) => ({ url })),
    defaults: { socket: { reconnectStrategy: () => RECONNECT_MS } },
  });
  client.on('error', () => undefined);
  await client.connect();
  return {
    client,
    close: () => {
      client.destroy();
    },
  };
}
