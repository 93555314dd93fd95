import { LimiterError } from '../../errors.ts';
import type { NodeHealth, StoreHealth } from '../store.ts';
import type { Command } from './script.ts';
import type { RedisNode } from './redis-node.ts';

export interface TopologyHealth {
  /** Those that decide. */
  readonly servers: readonly NodeHealth[];
  /** Those that only know who decides, or could take its place. */
  readonly watchers: readonly NodeHealth[];
}

/** Where the states of a store live: one server, a master that may be replaced, or a cluster. */
export interface Topology {
  /** Keys of one lane can share a script call: the slot in a cluster, else always the same. */
  laneOf(key: string): number;
  /**
   * The reply of the server that has the command's key. Follows redirections; sends nothing twice that may have run.
   */
  route(command: Command): Promise<unknown>;
  /** Resolves when the first attempt to reach the servers that decide has ended, well or not. */
  readonly opening: Promise<void>;
  health(): TopologyHealth;
  /** The server that decides about a key now, without a key all that decide, by their names in `health()`. */
  serverNames(key?: string): readonly string[];
  /**
   * Why a server does not decide, as far as that is known. One that an operator has to put right is named before
   * others.
   */
  failure(): LimiterError | undefined;
  close(): Promise<void>;
}

/** Of several servers that fail, the one that waiting does not help. */
export function worstFailure(servers: Iterable<RedisNode>): LimiterError | undefined {
  const failures = [...servers].flatMap((server) => server.failure() ?? []);
  return failures.find(({ errorClass }) => errorClass === 'configuration') ?? failures[0];
}

/** One server, whichever it is: its own, or one that an application's client found. */
export class SingleServer implements Topology {
  private readonly server: RedisNode;

  constructor(server: RedisNode) {
    this.server = server;
  }

  get opening(): Promise<void> {
    return this.server.opening;
  }

  laneOf(): number {
    return 0;
  }

  route(command: Command): Promise<unknown> {
    return this.server.call(command);
  }

  health(): TopologyHealth {
    return { servers: [this.server.health()], watchers: [] };
  }

  serverNames(): readonly string[] {
    return [this.server.name];
  }

  failure(): LimiterError | undefined {
    return this.server.failure();
  }

  close(): Promise<void> {
    return this.server.close();
  }
}

/** Up if all are, down if no server decides, whatever the watchers do, else degraded. */
export function overallHealth(parts: readonly TopologyHealth[]): StoreHealth {
  const servers = parts.flatMap((part) => part.servers);
  const nodes = [...servers, ...parts.flatMap(({ watchers }) => watchers)];
  if (servers.every(({ status }) => status === 'down')) return { status: 'down', nodes };
  return { status: nodes.every(({ status }) => status === 'up') ? 'up' : 'degraded', nodes };
}

const READY_POLL_MS = 5;

/** Resolves when every server that decides answers; rejects after so long, or at once where waiting does not help. */
export async function allDecide(topologies: readonly Topology[], timeoutMs: number): Promise<void> {
  const deadlineMs = performance.now() + timeoutMs;
  for (;;) {
    const waiting = topologies.filter((topology) => waitsFor(topology) !== undefined);
    if (waiting.length === 0) return;
    const failure = waiting.map((topology) => topology.failure()).find(isHopeless);
    if (failure !== undefined) throw failure;
    if (performance.now() >= deadlineMs) throw notReady(waiting);
    await new Promise((resolve) => setTimeout(resolve, READY_POLL_MS));
  }
}

/** Nothing that happens outside this process can help. */
function isHopeless(failure: LimiterError | undefined): boolean {
  return failure?.code === 'CLIENT_MISSING';
}

function waitsFor(topology: Topology): NodeHealth | undefined {
  return topology.health().servers.find(({ status }) => status !== 'up');
}

/** What an operator has to put right is said before what may pass by itself. */
function notReady(topologies: readonly Topology[]): LimiterError {
  for (const topology of topologies) {
    const failure = topology.failure();
    if (failure?.errorClass === 'configuration') return failure;
  }
  const [first] = topologies;
  const waiting = first === undefined ? undefined : waitsFor(first);
  const { name, detail } = waiting ?? { name: 'redis', detail: '' };
  return new LimiterError(
    'STORE_UNAVAILABLE',
    `${name} does not answer: ${detail.replace(/\.$/, '')}. The failure policy answers until it does.`,
    { cause: first?.failure(), node: waiting?.name },
  );
}
