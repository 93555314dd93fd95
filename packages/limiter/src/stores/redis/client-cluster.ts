import type { LimiterError } from '../../errors.ts';
import type { AdaptedClient } from './client.ts';
import type { Link } from './link.ts';
import { RedisNode, type NodeOptions } from './redis-node.ts';
import { SLOT_COUNT, slotOf } from './slot.ts';
import { worstFailure, type Topology, type TopologyHealth } from './topology.ts';

/** While the client does not know who owns a slot. */
const UNKNOWN_OWNER = 'cluster';

/** A cluster behind an application's own client: it finds the way, and here each server has a breaker of its own. */
export class ClientCluster implements Topology {
  private readonly client: AdaptedClient;
  private readonly options: NodeOptions;
  private readonly nodes = new Map<string, RedisNode>();
  private readonly onReady = new Map<string, () => void>();

  constructor(client: AdaptedClient, options: NodeOptions) {
    this.client = client;
    this.options = options;
    // One listener for all nodes: clients complain about many.
    client.onReady(() => {
      for (const listener of this.onReady.values()) listener();
    });
  }

  laneOf(key: string): number {
    return slotOf(key);
  }

  send(key: string, command: string, args: readonly string[]): Promise<unknown> {
    return this.nodeAt(this.nodeOf(key)).send(key, command, args);
  }

  nodeOf(key: string): string {
    return this.client.ownerOf?.(slotOf(key)) ?? UNKNOWN_OWNER;
  }

  health(): TopologyHealth {
    const nodes = this.nodes.size === 0 ? [this.nodeAt(UNKNOWN_OWNER)] : [...this.nodes.values()];
    return { servers: nodes.map((node) => node.health()), sentinels: [] };
  }

  failure(): LimiterError | undefined {
    return worstFailure(this.nodes.values());
  }

  async close(): Promise<void> {
    await Promise.all([...this.nodes.values()].map((node) => node.close()));
    this.nodes.clear();
    this.onReady.clear();
    this.client.release();
  }

  private nodeAt(name: string): RedisNode {
    const known = this.nodes.get(name);
    if (known !== undefined) return known;
    this.leaveFormerOwners();
    const { send, isReady } = this.client;
    const link: Link = {
      name,
      send,
      sendAsking: (command, args) => send('', command, args),
      isReady,
      connectionError: () => undefined,
      onReady: (listener) => this.onReady.set(name, listener),
      onLost: () => undefined,
      renew: () => undefined,
      close: async () => undefined,
    };
    const node = new RedisNode(link, this.options);
    this.nodes.set(name, node);
    return node;
  }

  /** Addresses come and go with the machines behind them; only those that own a slot now are kept. */
  private leaveFormerOwners(): void {
    if (this.nodes.size === 0) return;
    const owners = new Set(Array.from({ length: SLOT_COUNT }, (_, slot) => this.client.ownerOf?.(slot)));
    for (const [name, node] of this.nodes) {
      if (owners.has(name)) continue;
      this.nodes.delete(name);
      this.onReady.delete(name);
      node.retire();
    }
  }
}
