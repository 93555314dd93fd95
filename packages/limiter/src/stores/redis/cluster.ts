import { LimiterError } from '../../errors.ts';
import { joinHostPort, splitHostPort } from '../../host-port.ts';
import type { NodeHealth, StoreEvent } from '../store.ts';
import type { Command } from './script.ts';
import { parseRedirection, type Redirection } from './failure-class.ts';
import { OpenedConnection } from './connection.ts';
import { RedisNode, type NodeOptions } from './redis-node.ts';
import type { ServerAddress } from './server-address.ts';
import { SLOT_COUNT, slotOf } from './slot.ts';
import { worstFailure, type Topology, type TopologyHealth } from './topology.ts';

/** A slot may move again while we follow it; past this something is wrong. */
const MAX_REDIRECTIONS = 5;
/** Failing nodes and redirections ask for a new map, at most this often. */
const MIN_REFRESH_INTERVAL_MS = 100;
/** Nobody tells a client that a replica was promoted while nothing was sent. */
const REFRESH_INTERVAL_MS = 10_000;
/** Without any map, nodes are asked at least this often. */
const LAST_RETRY_MS = 1000;
const MAX_SERVERS = 1000;
/** What stands for the master of a slot while nobody has told who it is. */
const UNMAPPED = 'cluster';

/** A Redis Cluster: knows which master has which slot, and learns from every redirection. */
export class ClusterTopology implements Topology {
  readonly opening: Promise<void>;
  private readonly seeds: readonly ServerAddress[];
  private readonly options: NodeOptions;
  private readonly report: NodeOptions['observe'];
  private readonly servers = new Map<string, RedisNode>();
  /** The address of each slot's master, '' where nobody is known. */
  private owners: string[] = [];
  private refreshing: Promise<void> | undefined;
  private refreshedAtMs = -Infinity;
  /** Refreshes in a row after which there was no map at all. */
  private misses = 0;
  private closed = false;
  private readonly timer: ReturnType<typeof setInterval>;

  constructor(seeds: readonly ServerAddress[], options: NodeOptions) {
    this.seeds = seeds;
    this.options = { ...options, observe: (event) => this.pass(event) };
    this.report = options.observe;
    this.opening = this.open();
    this.timer = setInterval(() => void this.refresh(), REFRESH_INTERVAL_MS);
    this.timer.unref();
  }

  laneOf(key: string): number {
    return slotOf(key);
  }

  async route(command: Command): Promise<unknown> {
    const slot = slotOf(command.key);
    let server = await this.ownerOf(slot);
    let asking = false;
    for (let hop = 0; hop <= MAX_REDIRECTIONS; hop += 1) {
      try {
        return await server.call(command, asking);
      } catch (error) {
        const redirection = this.redirectionIn(error);
        asking = redirection.kind === 'ASK';
        server = this.follow(slot, server, redirection);
      }
    }
    throw new LimiterError(
      'STORE_UNAVAILABLE',
      `Slot ${slot} was moved ${MAX_REDIRECTIONS} times while a decision followed it: look at CLUSTER NODES.`,
    );
  }

  health(): TopologyHealth {
    const servers =
      this.owners.length === 0
        ? [this.unmapped()]
        : [...this.servers.values()].map((server) => server.health());
    return { servers, watchers: [] };
  }

  serverNames(key?: string): readonly string[] {
    if (this.owners.length === 0) return [UNMAPPED];
    return key === undefined ? [...this.servers.keys()] : [this.owners[slotOf(key)] || UNMAPPED];
  }

  failure(): LimiterError | undefined {
    return worstFailure(this.servers.values());
  }

  async close(): Promise<void> {
    this.closed = true;
    clearInterval(this.timer);
    await Promise.all([...this.servers.values()].map((server) => server.close()));
  }

  /** A node that decides again is a sign that the cluster is complete again, for which the others wait too. */
  private pass(event: StoreEvent): void {
    this.report(event);
    if (event.type !== 'nodeUp') return;
    for (const server of this.servers.values()) server.probeNow();
  }

  private redirectionIn(error: unknown): Redirection {
    const redirection = parseRedirection(error);
    if (redirection !== undefined) return redirection;
    // The node may have failed, or have been replaced: another node of the cluster knows.
    if (error instanceof LimiterError) void this.refresh();
    throw error;
  }

  private follow(slot: number, from: RedisNode, { kind, address }: Redirection): RedisNode {
    const { host, port } = splitHostPort(address);
    const name = joinHostPort({ host: host === '' ? splitHostPort(from.name).host : host, port });
    if (kind === 'MOVED') {
      this.owners[slot] = name;
      void this.refresh();
    }
    return this.nodeAt(name);
  }

  private async open(): Promise<void> {
    await this.refresh();
    await Promise.all(Array.from(this.servers.values(), ({ opening }) => opening));
  }

  private async ownerOf(slot: number): Promise<RedisNode> {
    if (this.owners.length === 0 && this.misses === 0) await this.refresh();
    const owner = this.owners[slot];
    if (owner !== undefined && owner !== '') return this.nodeAt(owner);
    void this.refresh();
    const failure = this.failure();
    if (failure?.errorClass === 'configuration') throw failure;
    throw new LimiterError(
      'STORE_UNAVAILABLE',
      `No master of the cluster at ${this.seeds.map(joinHostPort).join(', ')} is known to serve slot ${slot}.`,
    );
  }

  private unmapped(): NodeHealth {
    const seeds = this.seeds.map(joinHostPort).join(', ');
    return { name: UNMAPPED, status: 'down', detail: `none of ${seeds} has told who serves which slot yet` };
  }

  private nodeAt(name: string): RedisNode {
    const known = this.servers.get(name);
    if (known !== undefined) return known;
    // A connection that is opened now would never be closed.
    if (this.closed) throw new LimiterError('STORE_UNAVAILABLE', 'The store has been closed.');
    const [seed] = this.seeds;
    if (seed === undefined) throw new RangeError('a cluster needs an address to start from');
    const server = new RedisNode(new OpenedConnection({ ...seed, ...splitHostPort(name) }), this.options);
    this.servers.set(name, server);
    return server;
  }

  /** Asks for the map of slots, one request at a time. */
  private refresh(): Promise<void> {
    if (this.refreshing !== undefined) return this.refreshing;
    const pauseMs = Math.min(LAST_RETRY_MS, MIN_REFRESH_INTERVAL_MS * 2 ** this.misses);
    const waitMs = Math.max(0, this.refreshedAtMs + pauseMs - performance.now());
    this.refreshing = this.loadOwners(waitMs).finally(() => {
      this.refreshing = undefined;
      this.refreshedAtMs = performance.now();
      this.misses = this.owners.length === 0 ? this.misses + 1 : 0;
      // Nothing can be decided without a map: keep asking, whether a check waits or not.
      if (this.owners.length === 0 && !this.closed) void this.refresh();
    });
    return this.refreshing;
  }

  private async loadOwners(waitMs: number): Promise<void> {
    if (waitMs > 0) await new Promise((resolve) => setTimeout(resolve, waitMs).unref());
    if (this.owners.length === 0) return this.loadFirst();
    // Healthy nodes first: others cost their timeout, or have outdated maps. The seeds may be the way back.
    const known = [...this.servers.values()].toSorted((a, b) => Number(b.isWell) - Number(a.isWell));
    const names = new Set([...known.map(({ name }) => name), ...this.seeds.map(joinHostPort)]);
    for (const name of names) {
      if (this.isClosed()) return;
      const owners = await this.askForOwners(name);
      if (owners !== undefined) return this.adopt(owners);
    }
  }

  /**
   * Without any map all seeds are asked at once, each when it has had its chance to connect: the first that knows is
   * right.
   */
  private async loadFirst(): Promise<void> {
    const answers = this.seeds.map(async (seed) => {
      const name = joinHostPort(seed);
      await this.nodeAt(name).opening;
      const owners = this.isClosed() ? undefined : await this.askForOwners(name);
      return owners ?? Promise.reject(new Error(`${name} does not know`));
    });
    const owners = await Promise.any(answers).catch(() => undefined);
    if (owners !== undefined) this.adopt(owners);
  }

  private adopt(owners: string[]): void {
    if (this.closed) return;
    this.owners = owners;
    this.keepOnly(new Set(owners.filter((owner) => owner !== '')));
  }

  /** Asked again after every wait. */
  private isClosed(): boolean {
    return this.closed;
  }

  private async askForOwners(name: string): Promise<string[] | undefined> {
    const server = this.nodeAt(name);
    const ranges = await server.call({ key: '', name: 'CLUSTER', args: ['SLOTS'] }).catch(() => undefined);
    return readOwners(ranges, splitHostPort(server.name).host);
  }

  /** Connects to every master before it is needed, and leaves nodes without slots or with another name. */
  private keepOnly(masters: ReadonlySet<string>): void {
    for (const master of masters) this.nodeAt(master);
    for (const [name, server] of this.servers) {
      if (masters.has(name)) continue;
      this.servers.delete(name);
      server.retire();
    }
  }
}

/** `CLUSTER SLOTS`: from, to, then the master's host and port first. Undefined if it is something else. */
function readOwners(ranges: unknown, answeringHost: string): string[] | undefined {
  if (!Array.isArray(ranges) || ranges.length === 0 || ranges.length > SLOT_COUNT) return undefined;
  const owners = Array.from({ length: SLOT_COUNT }, () => '');
  const names = new Set<string>();
  for (const range of ranges.map(readRange)) {
    if (range === undefined) return undefined;
    const name = joinHostPort({ host: range.host === '' ? answeringHost : range.host, port: range.port });
    names.add(name);
    owners.fill(name, range.from, range.to + 1);
  }
  return names.size <= MAX_SERVERS ? owners : undefined;
}

interface SlotRange {
  readonly from: number;
  readonly to: number;
  readonly host: string;
  readonly port: number;
}

function readRange(range: unknown): SlotRange | undefined {
  const [from, to, master] = listOf(range);
  const [host, port] = listOf(master);
  if (!isCount(from) || !isCount(to) || !isCount(port)) return undefined;
  // A node that does not know its own host names none.
  return { from, to, host: typeof host === 'string' ? host : '', port };
}

function listOf(value: unknown): readonly unknown[] {
  return Array.isArray(value) ? value : [];
}

function isCount(value: unknown): value is number {
  return Number.isInteger(value) && Number(value) >= 0;
}
