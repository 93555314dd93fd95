import type { LimiterError } from '../../errors.ts';
import type { AdaptedClient } from './clients/client.ts';
import type { Command } from './script.ts';
import { connectionOf, firstOutcome, type RedisConnection } from './connection.ts';
import { RedisNode, type NodeOptions } from './redis-node.ts';
import { SLOT_COUNT, slotOf } from './slot.ts';
import { worstFailure, type Topology, type TopologyHealth } from './topology.ts';

/** While the client does not know who owns a slot. */
const UNKNOWN_OWNER = 'cluster';

/** A cluster behind an application's own client: it finds the way, and here each server has a breaker of its own. */
export class ClientCluster implements Topology {
  readonly opening: Promise<void>;
  private readonly client: AdaptedClient;
  private readonly options: NodeOptions;
  private readonly servers = new Map<string, RedisNode>();
  private readonly onReady = new Map<string, () => void>();

  constructor(client: AdaptedClient, options: NodeOptions) {
    this.client = client;
    this.opening = firstOutcome(client);
    this.options = options;
    // One listener for all servers: clients complain about many.
    client.onReady(() => {
      for (const listener of this.onReady.values()) listener();
    });
  }

  laneOf(key: string): number {
    return slotOf(key);
  }

  route(command: Command): Promise<unknown> {
    return this.nodeAt(this.ownerOf(command.key)).call(command);
  }

  health(): TopologyHealth {
    const servers = this.servers.size === 0 ? [this.nodeAt(UNKNOWN_OWNER)] : [...this.servers.values()];
    return { servers: servers.map((server) => server.health()), watchers: [] };
  }

  serverNames(key?: string): readonly string[] {
    return key === undefined ? [...this.servers.keys()] : [this.ownerOf(key)];
  }

  failure(): LimiterError | undefined {
    return worstFailure(this.servers.values());
  }

  async close(): Promise<void> {
    await Promise.all([...this.servers.values()].map((server) => server.close()));
    this.servers.clear();
    this.onReady.clear();
    this.client.release();
  }

  private ownerOf(key: string): string {
    return this.client.ownerOf?.(slotOf(key)) ?? UNKNOWN_OWNER;
  }

  private nodeAt(name: string): RedisNode {
    const known = this.servers.get(name);
    if (known !== undefined) return known;
    this.leaveFormerOwners();
    const connection: RedisConnection = {
      ...connectionOf(this.client, name, this.opening),
      onReady: (listener) => this.onReady.set(name, listener),
      onLost: () => undefined,
      close: async () => undefined,
    };
    const server = new RedisNode(connection, this.options);
    this.servers.set(name, server);
    return server;
  }

  /** Addresses come and go with the machines behind them; only those that own a slot now are kept. */
  private leaveFormerOwners(): void {
    if (this.servers.size === 0) return;
    const owners = new Set(Array.from({ length: SLOT_COUNT }, (_, slot) => this.client.ownerOf?.(slot)));
    for (const [name, server] of this.servers) {
      if (owners.has(name)) continue;
      this.servers.delete(name);
      this.onReady.delete(name);
      server.retire();
    }
  }
}
