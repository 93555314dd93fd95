import { LimiterError } from '../../errors.ts';
import { joinHostPort, splitHostPort } from '../../host-port.ts';
import type { NodeHealth } from '../store.ts';
import type { Command } from './command.ts';
import { OpenedConnection } from './connection.ts';
import { RedisNode, type NodeOptions } from './redis-node.ts';
import type { AddressDefaults, ServerAddress } from './server-address.ts';
import { worstFailure, type Topology, type TopologyHealth } from './topology.ts';

/** A failing master asks the sentinels again, at most this often. */
const MIN_LOOKUP_INTERVAL_MS = 100;
/** A master that the sentinels have replaced may still answer us, so the sentinels are asked regularly. */
const LOOKUP_INTERVAL_MS = 1000;

export interface SentinelParts {
  /** The name under which the sentinels know the master. */
  readonly masterName: string;
  readonly sentinels: readonly ServerAddress[];
  /** How to talk to the master, wherever it is. */
  readonly master: AddressDefaults;
  readonly options: NodeOptions;
}

/** The master that sentinels name, looked up again as soon as it fails, refuses to write, or has been replaced. */
export class SentinelTopology implements Topology {
  readonly opening: Promise<void>;
  private readonly parts: SentinelParts;
  private readonly sentinels: readonly RedisNode[];
  private master: RedisNode | undefined;
  private lookup: Promise<void> | undefined;
  private lookedUpAtMs = -Infinity;
  /** Lookups in a row after which there was no master at all. */
  private misses = 0;
  private closed = false;
  private readonly timer: ReturnType<typeof setInterval>;

  constructor(parts: SentinelParts) {
    this.parts = parts;
    const options = {
      ...parts.options,
      // How long a decision may wait says nothing about sentinels, which may be further away than the servers.
      timeoutMs: () => Math.max(parts.options.timeoutMs(), parts.master.connectTimeoutMs),
      // A sentinel that goes down is reported by health(); only servers that decide are reported as events.
      observe: () => undefined,
      decides: false,
    };
    this.sentinels = parts.sentinels.map((address) => new RedisNode(new OpenedConnection(address), options));
    this.opening = this.findMaster().then(() => this.master?.opening);
    this.timer = setInterval(() => void this.findMaster(), LOOKUP_INTERVAL_MS);
    this.timer.unref();
  }

  laneOf(): number {
    return 0;
  }

  async route(command: Command): Promise<unknown> {
    if (this.master === undefined && this.misses === 0) await this.findMaster();
    if (this.master === undefined) throw this.noMaster();
    try {
      return await this.master.call(command);
    } catch (error) {
      // Down, or no longer the master (READONLY): the next decisions should not meet the same.
      if (error instanceof LimiterError) void this.findMaster();
      throw error;
    }
  }

  health(): TopologyHealth {
    const sentinels = this.sentinels.map((sentinel) => ({
      ...sentinel.health(),
      name: `sentinel ${sentinel.name}`,
    }));
    const master: NodeHealth = this.master?.health() ?? {
      name: this.parts.masterName,
      status: 'down',
      detail: this.noMaster().message,
    };
    return { servers: [master], sentinels };
  }

  serverNames(): readonly string[] {
    return [this.master?.name ?? this.parts.masterName];
  }

  failure(): LimiterError | undefined {
    return this.master === undefined ? worstFailure(this.sentinels) : this.master.failure();
  }

  async close(): Promise<void> {
    this.closed = true;
    clearInterval(this.timer);
    const servers = this.master === undefined ? this.sentinels : [this.master, ...this.sentinels];
    await Promise.all(servers.map((server) => server.close()));
  }

  private findMaster(): Promise<void> {
    if (this.lookup !== undefined) return this.lookup;
    const pauseMs = Math.min(LOOKUP_INTERVAL_MS, MIN_LOOKUP_INTERVAL_MS * 2 ** this.misses);
    const waitMs = Math.max(0, this.lookedUpAtMs + pauseMs - performance.now());
    this.lookup = this.askSentinels(waitMs).finally(() => {
      this.lookup = undefined;
      this.lookedUpAtMs = performance.now();
      this.misses = this.master === undefined ? this.misses + 1 : 0;
      // Nothing can be decided without a master: keep asking, whether a check waits or not.
      if (this.master === undefined && !this.closed) void this.findMaster();
    });
    return this.lookup;
  }

  private async askSentinels(waitMs: number): Promise<void> {
    if (waitMs > 0) await new Promise((resolve) => setTimeout(resolve, waitMs).unref());
    const votes = this.sentinels.map((sentinel) => this.askOne(sentinel));
    const name = await namedByMajority(votes);
    if (name === undefined || name === this.master?.name || this.closed) return;
    const previous = this.master;
    const address = { ...this.parts.master, ...splitHostPort(name) };
    this.master = new RedisNode(new OpenedConnection(address), this.parts.options);
    previous?.retire();
  }

  private async askOne(sentinel: RedisNode): Promise<string | undefined> {
    const reply = await sentinel
      .call({ key: '', name: 'SENTINEL', args: ['GET-MASTER-ADDR-BY-NAME', this.parts.masterName] })
      .catch(() => undefined);
    if (!Array.isArray(reply) || reply.length !== 2) return undefined;
    return joinHostPort({ host: String(reply[0]), port: Number(reply[1]) });
  }

  private noMaster(): LimiterError {
    const { masterName, sentinels } = this.parts;
    const failure = worstFailure(this.sentinels);
    if (failure?.errorClass === 'configuration') return failure;
    return new LimiterError(
      'STORE_UNAVAILABLE',
      `No majority of the sentinels at ${sentinels.map(joinHostPort).join(', ')} names a master for ${masterName}: check the name and that they are up.`,
    );
  }
}

function majorityOf(count: number): number {
  return Math.floor(count / 2) + 1;
}

/**
 * The name that most of all configured sentinels give, as soon as they have; undefined if they do not. Not just most of
 * those that answer: one that is cut off from the others would lead us back to a master that has been replaced.
 */
function namedByMajority(votes: readonly Promise<string | undefined>[]): Promise<string | undefined> {
  const counts = new Map<string, number>();
  return new Promise((resolve) => {
    const counted = votes.map(async (vote) => {
      const name = await vote;
      if (name === undefined) return;
      const count = (counts.get(name) ?? 0) + 1;
      counts.set(name, count);
      if (count >= majorityOf(votes.length)) resolve(name);
    });
    void Promise.all(counted).then(() => resolve(undefined));
  });
}
