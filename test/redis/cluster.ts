import { formCluster } from './cluster-formation.ts';
import { nodesFile, parseNodes, planCluster, servesSlot } from './cluster-layout.ts';
import { allStarted, orStopAll, stopAll } from './group.ts';
import { eventually } from './polling.ts';
import { ADMIN, RedisServer } from './redis-server.ts';
import { reserve } from './reservation.ts';
import { elementsOf } from './resp.ts';

export interface ClusterOptions {
  readonly config?: readonly string[];
  readonly password?: string;
  /** How long a node may be silent before the others think that it failed. Default: 2 s. */
  readonly nodeTimeoutMs?: number;
  /** Whether the clocks of the nodes can be set. */
  readonly ownClock?: boolean;
}

/**
 * A slot on its way between two masters. Clients that ask the source for a key it no longer has are sent on by `ASK`.
 */
export interface SlotMove {
  readonly source: RedisServer;
  readonly target: RedisServer;
  /** Moves every key that the source has now, or at most so many of them, and answers how many. */
  moveKeys(most?: number): Promise<number>;
  /** Moves what is left and gives the slot to the target; resolves when all nodes that respond know it. */
  finish(): Promise<void>;
}

const NODE_TIMEOUT_MS = 2000;
const KEYS_PER_MIGRATE = 100;
const MIGRATE_TIMEOUT_MS = 1000;

/** Three masters that share all slots, and with six nodes one replica of each. */
export async function startCluster(nodeCount: 3 | 6, options: ClusterOptions = {}): Promise<Cluster> {
  const layout = planCluster(await Promise.all(Array.from({ length: nodeCount }, async () => reserve())));
  const { password } = options;
  const nodes = await allStarted(
    layout.members.map(async (member) =>
      RedisServer.launch(member.reservation, {
        config: clusterConfig(options),
        files: { 'nodes.conf': nodesFile(member, layout) },
        ownClock: options.ownClock ?? false,
        ...(password === undefined ? {} : { password }),
      }),
    ),
  );
  return orStopAll(nodes, async () => {
    await formCluster(nodes, layout);
    const cluster = new Cluster(nodes);
    await eventually('the replicas have caught up', async () => cluster.isReplicated());
    return cluster;
  });
}

export class Cluster {
  /** Masters first. Roles are those of the start: they change when a replica is promoted. */
  readonly nodes: readonly RedisServer[];
  readonly masters: readonly [RedisServer, RedisServer, RedisServer];
  /** The first one replicates the first master, and so on. */
  readonly replicas: readonly RedisServer[];

  constructor(nodes: readonly RedisServer[]) {
    const [first, second, third, ...replicas] = nodes;
    if (first === undefined || second === undefined || third === undefined) {
      throw new RangeError('A cluster needs three masters');
    }
    this.nodes = nodes;
    this.masters = [first, second, third];
    this.replicas = replicas;
  }

  async slotOf(key: string): Promise<number> {
    const [node] = this.#responsive();
    return Number(await node?.command('CLUSTER', 'KEYSLOT', key));
  }

  /** The master of a slot, once all nodes that respond agree about it. */
  async ownerOf(slot: number): Promise<RedisServer> {
    let owner: RedisServer | undefined;
    await eventually(`all nodes agree who serves slot ${slot}`, async () => {
      const owners = await Promise.all(this.#responsive().map(async (node) => this.#ownerSeenBy(node, slot)));
      [owner] = owners;
      return owners.every((other) => other === owner);
    });
    if (owner === undefined) throw new Error(`No node serves slot ${slot}`);
    return owner;
  }

  /** True when every replica is in step with its master. */
  async isReplicated(): Promise<boolean> {
    const roles = await Promise.all(
      this.#responsive().map(async (node) => elementsOf(await node.command('ROLE'))),
    );
    return roles.every(([name, , , link]) => name === 'master' || link === 'connected');
  }

  async beginSlotMove(slot: number, target: RedisServer): Promise<SlotMove> {
    const source = await this.ownerOf(slot);
    await target.command('CLUSTER', 'SETSLOT', slot, 'IMPORTING', await idOf(source));
    await source.command('CLUSTER', 'SETSLOT', slot, 'MIGRATING', await idOf(target));
    const moveKeys = async (most?: number) => migrateKeys({ slot, source, target }, most);
    return {
      source,
      target,
      moveKeys,
      finish: async () => {
        await moveKeys();
        // The target first: if this stopped halfway, a slot with two owners is safer than one with none.
        for (const node of [target, source]) {
          await node.command('CLUSTER', 'SETSLOT', slot, 'NODE', await idOf(target));
        }
        await eventually('the new owner is known', async () => (await this.ownerOf(slot)) === target);
      },
    };
  }

  async moveSlot(slot: number, target: RedisServer): Promise<void> {
    const move = await this.beginSlotMove(slot, target);
    await move.finish();
  }

  async stop(): Promise<void> {
    await stopAll(this.nodes);
  }

  async #ownerSeenBy(node: RedisServer, slot: number): Promise<RedisServer | undefined> {
    const owner = parseNodes(await node.command('CLUSTER', 'NODES')).find((view) => servesSlot(view, slot));
    return this.nodes.find(({ port }) => port === owner?.port);
  }

  #responsive(): readonly RedisServer[] {
    return this.nodes.filter((node) => node.isResponsive);
  }
}

function clusterConfig({ config = [], password, nodeTimeoutMs = NODE_TIMEOUT_MS }: ClusterOptions): string[] {
  return [
    'cluster-enabled yes',
    `cluster-node-timeout ${nodeTimeoutMs}`,
    ...(password === undefined ? [] : [`masterauth ${JSON.stringify(password)}`]),
    ...config,
  ];
}

interface Migration {
  readonly slot: number;
  readonly source: RedisServer;
  readonly target: RedisServer;
}

async function migrateKeys({ slot, source, target }: Migration, most = Infinity): Promise<number> {
  let moved = 0;
  while (moved < most) {
    const count = Math.min(KEYS_PER_MIGRATE, most - moved);
    const keys = elementsOf(await source.command('CLUSTER', 'GETKEYSINSLOT', slot, count));
    if (keys.length === 0) break;
    const address = [target.host, target.port, '', 0, MIGRATE_TIMEOUT_MS];
    const credentials = ['AUTH2', ADMIN.username, ADMIN.password];
    await source.command('MIGRATE', ...address, ...credentials, 'KEYS', ...keys.map(String));
    moved += keys.length;
  }
  return moved;
}

async function idOf(node: RedisServer): Promise<string> {
  return String(await node.command('CLUSTER', 'MYID'));
}
