import { joinHostPort } from '../../host-port.ts';
import { requireOptionNames } from '../../options.ts';
import { ClientCluster } from './client-cluster.ts';
import { adaptClient } from './clients/client-package.ts';
import { ClusterTopology } from './cluster.ts';
import { connectionOf, OpenedConnection } from './connection.ts';
import { RedisNode, type NodeOptions } from './redis-node.ts';
import {
  acceptMasterName,
  acceptShards,
  acceptUrls,
  requireDistinctNames,
  requireDistinctServers,
  type AcceptedOptions,
  type RedisStoreOptions,
} from './redis-options.ts';
import { watchedByRole } from './replication.ts';
import { watchedBySentinels } from './sentinel.ts';
import { parseAddress } from './server-address.ts';
import { SingleServer, type Topology } from './topology.ts';
import { WatchedMaster } from './watched-master.ts';

/** One independent Redis, with its share of the keys. */
export interface OpenedShard {
  readonly name: string;
  readonly weight: number;
  readonly topology: Topology;
}

export function openShards(
  options: RedisStoreOptions,
  accepted: AcceptedOptions,
  nodeOptions: NodeOptions,
): readonly OpenedShard[] {
  if (options.shards === undefined) {
    return [{ name: 'redis', weight: 1, topology: openTopology(options, accepted, nodeOptions) }];
  }
  const { defaults } = accepted;
  const shards = acceptShards(options.shards).map((shard, at) => {
    const address =
      shard.url === undefined ? undefined : parseAddress(`shards[${at}].url`, shard.url, defaults);
    const name = shard.name ?? (address === undefined ? '' : joinHostPort(address));
    return { name, weight: shard.weight, client: shard.client, address };
  });
  requireDistinctNames(shards.map(({ name }) => name));
  return shards.map(({ name, weight, client, address }) => ({
    name,
    weight,
    topology:
      address === undefined
        ? topologyOf(client, name, nodeOptions)
        : new SingleServer(new RedisNode(new OpenedConnection(address), nodeOptions)),
  }));
}

function openTopology(
  { url, client, sentinel, cluster, replication }: RedisStoreOptions,
  { defaults }: AcceptedOptions,
  nodeOptions: NodeOptions,
): Topology {
  if (url !== undefined) {
    return new SingleServer(
      new RedisNode(new OpenedConnection(parseAddress('url', url, defaults)), nodeOptions),
    );
  }
  if (cluster !== undefined) {
    requireOptionNames('cluster', cluster, ['urls']);
    const seeds = acceptUrls('cluster.urls', cluster.urls);
    return new ClusterTopology(
      seeds.map((seed, at) => parseAddress(`cluster.urls[${at}]`, seed, defaults)),
      nodeOptions,
    );
  }
  if (sentinel !== undefined) {
    requireOptionNames('sentinel', sentinel, ['urls', 'name']);
    // A sentinel has neither databases nor the data servers' users.
    const ownDefaults = { ...defaults, username: undefined, password: undefined, database: 0 };
    const watch = watchedBySentinels({
      masterName: acceptMasterName(sentinel.name),
      sentinels: acceptUrls('sentinel.urls', sentinel.urls).map((address, at) =>
        parseAddress(`sentinel.urls[${at}]`, address, ownDefaults),
      ),
      master: defaults,
      options: nodeOptions,
    });
    return new WatchedMaster(watch, nodeOptions);
  }
  if (replication !== undefined) {
    requireOptionNames('replication', replication, ['urls']);
    const servers = acceptUrls('replication.urls', replication.urls).map((address, at) =>
      parseAddress(`replication.urls[${at}]`, address, defaults),
    );
    requireDistinctServers(servers.map(joinHostPort));
    return new WatchedMaster(watchedByRole(servers, nodeOptions), nodeOptions);
  }
  return topologyOf(client, 'client', nodeOptions);
}

/** The application's own client finds the way by itself. */
function topologyOf(client: unknown, name: string, nodeOptions: NodeOptions): Topology {
  const adapted = adaptClient(client);
  if (adapted.ownerOf !== undefined) return new ClientCluster(adapted, nodeOptions);
  return new SingleServer(new RedisNode(connectionOf(adapted, name), nodeOptions));
}
