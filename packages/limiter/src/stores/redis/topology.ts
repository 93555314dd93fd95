import type { NodeHealth, StoreHealth } from '../store.ts';
import type { RedisNode } from './redis-node.ts';

export interface TopologyHealth {
  /** Those that decide. */
  readonly servers: readonly NodeHealth[];
  /** Those that only know who decides. */
  readonly sentinels: readonly NodeHealth[];
}

/** Where the states of a store live: one server, a master behind sentinels, or a cluster. */
export interface Topology {
  /** Keys of one lane can share a script call: the slot in a cluster, else always the same. */
  laneOf(key: string): number;
  /** Sends a command to the server that has the key. Follows redirections; sends nothing twice that may have run. */
  send(key: string, command: string, args: readonly string[]): Promise<unknown>;
  /** The name of the server that has the key, as in `health()`. */
  nodeOf(key: string): string;
  health(): TopologyHealth;
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

  health(): TopologyHealth {
    return { servers: [this.node.health()], sentinels: [] };
  }

  close(): Promise<void> {
    return this.node.close();
  }
}

/** Up if all are, down if no server decides, whatever the sentinels do, else degraded. */
export function overallHealth(parts: readonly TopologyHealth[]): StoreHealth {
  const servers = parts.flatMap((part) => part.servers);
  const nodes = [...servers, ...parts.flatMap(({ sentinels }) => sentinels)];
  if (servers.every(({ status }) => status === 'down')) return { status: 'down', nodes };
  return { status: nodes.every(({ status }) => status === 'up') ? 'up' : 'degraded', nodes };
}
