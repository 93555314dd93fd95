import type { LimiterError } from '../../errors.ts';
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
  /** Why a server does not decide, as far as that is known. One that an operator has to put right is named before others. */
  failure(): LimiterError | undefined;
  close(): Promise<void>;
}

/** Of several servers that fail, the one that waiting does not help. */
export function worstFailure(nodes: Iterable<RedisNode>): LimiterError | undefined {
  const failures = [...nodes].flatMap((node) => node.failure() ?? []);
  return failures.find(({ code }) => code === 'STORE_MISCONFIGURED') ?? failures[0];
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

  failure(): LimiterError | undefined {
    return this.node.failure();
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
