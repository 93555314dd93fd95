import type { NodeHealth, StoreHealth } from '../store.ts';
import type { RedisNode } from './redis-node.ts';

/** Where the states of a store live: one server, a master behind sentinels, or a cluster. */
export interface Topology {
  /** Keys of one lane can share a script call: the slot in a cluster, else always the same. */
  laneOf(key: string): number;
  /** Sends a command to the server that has the key. Follows redirections; sends nothing twice that may have run. */
  send(key: string, command: string, args: readonly string[]): Promise<unknown>;
  /** The name of the server that has the key, as in `health()`. */
  nodeOf(key: string): string;
  health(): readonly NodeHealth[];
  close(): Promise<void>;
}

/** One server, whichever it is: its own, or one that an application's client found. */
export class SingleServer implements Topology {
  private readonly node: RedisNode;

  constructor(node: RedisNode) {
    this.node = node;
  }

  laneOf(): number {
    return 0;
  }

  send(key: string, command: string, args: readonly string[]): Promise<unknown> {
    return this.node.send(key, command, args);
  }

  nodeOf(): string {
    return this.node.name;
  }

  health(): readonly NodeHealth[] {
    return [this.node.health()];
  }

  close(): Promise<void> {
    return this.node.close();
  }
}

/** Up if all are, down if none answers, else degraded. */
export function overallHealth(nodes: readonly NodeHealth[]): StoreHealth {
  const statuses = new Set(nodes.map(({ status }) => status));
  const status = statuses.size === 1 ? nodes[0]?.status : 'degraded';
  return { status: status ?? 'down', nodes };
}
