import type { NodeHealth } from '../store.ts';
import type { AdaptedClient } from './client.ts';
import type { Link } from './link.ts';
import { RedisNode, type NodeOptions } from './redis-node.ts';
import { slotOf } from './slot.ts';
import type { Topology } from './topology.ts';

/** While the client does not know who owns a slot. */
const UNKNOWN_OWNER = 'cluster';

/** A cluster behind an application's own client: it finds the way, and here each server has a breaker of its own. */
export class ClientCluster implements Topology {
  private readonly client: AdaptedClient;
  private readonly options: NodeOptions;
  private readonly nodes = new Map<string, RedisNode>();

  constructor(client: AdaptedClient, options: NodeOptions) {
    this.client = client;
    this.options = options;
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

  health(): readonly NodeHealth[] {
    const nodes = [...this.nodes.values()];
    return (nodes.length === 0 ? [this.nodeAt(UNKNOWN_OWNER)] : nodes).map((node) => node.health());
  }

  async close(): Promise<void> {
    await Promise.all([...this.nodes.values()].map((node) => node.close()));
    this.nodes.clear();
  }

  private nodeAt(name: string): RedisNode {
    const known = this.nodes.get(name);
    if (known !== undefined) return known;
    const { send, isReady, onReady } = this.client;
    const link: Link = {
      name,
      send,
      sendAsking: (command, args) => send('', command, args),
      isReady,
      connectionError: () => undefined,
      onReady,
      close: async () => undefined,
    };
    const node = new RedisNode(link, this.options);
    this.nodes.set(name, node);
    return node;
  }
}
