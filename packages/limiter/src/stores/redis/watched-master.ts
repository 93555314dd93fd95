import { LimiterError } from '../../errors.ts';
import { joinHostPort } from '../../host-port.ts';
import type { NodeHealth } from '../store.ts';
import type { Command } from './script.ts';
import { OpenedConnection } from './connection.ts';
import { RedisNode, type NodeOptions } from './redis-node.ts';
import type { ServerAddress } from './server-address.ts';
import { worstFailure, type Topology, type TopologyHealth } from './topology.ts';

/** A failing master is looked for again, at most this often. */
const MIN_LOOKUP_INTERVAL_MS = 100;
/** A master that has been replaced may still answer us, so it is looked for regularly. */
const LOOKUP_INTERVAL_MS = 1000;

/** Knows who is the master: sentinels, or the servers themselves. */
export interface MasterWatch {
  /** What the master is called while nobody knows it. */
  readonly name: string;
  /** Those that are asked, not for decisions. */
  readonly watchers: readonly RedisNode[];
  /** The master's address; undefined if it cannot be told now. */
  find(): Promise<ServerAddress | undefined>;
  /** What a watcher is called beside the master; undefined for one that is not shown. */
  nameOf(watcher: RedisNode, master: RedisNode | undefined): string | undefined;
  /** Why there is no master. */
  explain(): string;
}

/**
 * Those that are asked who the master is. How long a decision may wait says nothing about them: they may be further
 * away.
 */
export function openWatcher(address: ServerAddress, options: NodeOptions): RedisNode {
  return new RedisNode(new OpenedConnection(address), {
    ...options,
    timeoutMs: () => Math.max(options.timeoutMs(), address.connectTimeoutMs),
    // One that goes down is reported by health(); only servers that decide are reported as events.
    observe: () => undefined,
    decides: false,
  });
}

/** A master that may be replaced, looked for again as soon as it fails, refuses to write, or has been replaced. */
export class WatchedMaster implements Topology {
  readonly opening: Promise<void>;
  private readonly watch: MasterWatch;
  private readonly options: NodeOptions;
  private master: RedisNode | undefined;
  private lookup: Promise<void> | undefined;
  private lookedUpAtMs = -Infinity;
  /** Lookups in a row after which there was no master at all. */
  private misses = 0;
  private closed = false;
  private readonly timer: ReturnType<typeof setInterval>;

  constructor(watch: MasterWatch, options: NodeOptions) {
    this.watch = watch;
    this.options = options;
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
    const { watch, master } = this;
    const watchers = watch.watchers.flatMap((watcher) => {
      const name = watch.nameOf(watcher, master);
      return name === undefined ? [] : [{ ...watcher.health(), name }];
    });
    const server: NodeHealth = master?.health() ?? {
      name: watch.name,
      status: 'down',
      detail: this.noMaster().message,
    };
    return { servers: [server], watchers };
  }

  serverNames(): readonly string[] {
    return [this.master?.name ?? this.watch.name];
  }

  failure(): LimiterError | undefined {
    return this.master === undefined ? worstFailure(this.watch.watchers) : this.master.failure();
  }

  async close(): Promise<void> {
    this.closed = true;
    clearInterval(this.timer);
    const { watchers } = this.watch;
    const servers = this.master === undefined ? watchers : [this.master, ...watchers];
    await Promise.all(servers.map((server) => server.close()));
  }

  private findMaster(): Promise<void> {
    if (this.lookup !== undefined) return this.lookup;
    const pauseMs = Math.min(LOOKUP_INTERVAL_MS, MIN_LOOKUP_INTERVAL_MS * 2 ** this.misses);
    const waitMs = Math.max(0, this.lookedUpAtMs + pauseMs - performance.now());
    this.lookup = this.lookUp(waitMs).finally(() => {
      this.lookup = undefined;
      this.lookedUpAtMs = performance.now();
      this.misses = this.master === undefined ? this.misses + 1 : 0;
      // Nothing can be decided without a master: keep asking, whether a check waits or not.
      if (this.master === undefined && !this.closed) void this.findMaster();
    });
    return this.lookup;
  }

  private async lookUp(waitMs: number): Promise<void> {
    if (waitMs > 0) await new Promise((resolve) => setTimeout(resolve, waitMs).unref());
    const address = await this.watch.find();
    if (address === undefined || this.closed) return;
    if (joinHostPort(address) === this.master?.name) return;
    const previous = this.master;
    this.master = new RedisNode(new OpenedConnection(address), this.options);
    previous?.retire();
  }

  private noMaster(): LimiterError {
    const failure = worstFailure(this.watch.watchers);
    if (failure?.errorClass === 'configuration') return failure;
    return new LimiterError('STORE_UNAVAILABLE', this.watch.explain());
  }
}
