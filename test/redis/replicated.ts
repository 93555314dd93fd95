import { randomBytes } from 'node:crypto';
import { allStarted, orStopAll, stopAll } from './group.ts';
import { eventually } from './polling.ts';
import { type LaunchOptions, RedisServer } from './redis-server.ts';
import { reserve } from './reservation.ts';
import { elementsOf, type Reply } from './resp.ts';

export interface ReplicatedOptions {
  readonly config?: readonly string[];
  /** How many. Default: one. */
  readonly replicas?: 1 | 2;
  /** Of the master and the replica. */
  readonly password?: string;
  readonly sentinelPassword?: string;
  /** Whether the clocks of the master and the replicas can be set. */
  readonly ownClock?: boolean;
  /** How long the master may be silent before a sentinel thinks that it is down. Default: 500 ms. */
  readonly downAfterMs?: number;
}

interface Address {
  readonly host: string;
  readonly port: number;
}

const SENTINELS = 3;
const QUORUM = 2;
const MASTER_NAME = 'main';
const DOWN_AFTER_MS = 500;
const FAILOVER_TIMEOUT_MS = 2000;
/** The sentinels' own periods are several seconds, and a failover waits for many of them. */
const QUICK_PERIODS = {
  // Three of them without news, and the replica is not fit to be promoted; sentinels look at the time every 100 ms.
  'info-period': 200,
  'ping-period': 200,
  'ask-period': 100,
  // Four of them, and a sentinel that has not heard of a promotion undoes it; the leader needs one second to see it.
  'publish-period': 500,
  'min-link-reconnect-period': 500,
  // After a busy machine has let them wait, sentinels do nothing for that long.
  'tilt-period': 500,
} as const;

/** A master, its replicas, and three sentinels that watch them. */
export async function startReplicated(options: ReplicatedOptions = {}): Promise<Replicated> {
  const servers: RedisServer[] = [];
  return orStopAll(servers, async () => {
    // One after the other: who misses another at its first look takes a second until the next.
    const master = await RedisServer.launch(await reserve(), dataOptions(options));
    servers.push(master);
    const replica = await RedisServer.launch(await reserve(), dataOptions(options, master));
    servers.push(replica);
    const others = [];
    for (let count = 1; count < (options.replicas ?? 1); count += 1) {
      others.push(await RedisServer.launch(await reserve(), dataOptions(options, master)));
    }
    servers.push(...others);
    const replicas = [replica, ...others];
    await eventually('the replicas have caught up', async () => {
      return (await Promise.all(replicas.map((one) => isReplicaOf(one, master)))).every(Boolean);
    });
    const sentinels = await launchSentinels(master, replicas, options);
    servers.push(...sentinels);

    const replicated = new Replicated([master, replica, ...others], sentinels);
    await Promise.all(sentinels.map(quicken));
    await eventually('the sentinels are ready', async () => replicated.isSettled());
    return replicated;
  });
}

type DataServers = readonly [RedisServer, RedisServer, ...RedisServer[]];

export class Replicated {
  /** The name by which the sentinels know the master. */
  readonly masterName = MASTER_NAME;
  readonly sentinels: readonly RedisServer[];
  readonly sentinelAddresses: readonly Address[];
  /** The servers that hold data. The first one is the master at the start. */
  readonly servers: DataServers;

  constructor(servers: DataServers, sentinels: readonly RedisServer[]) {
    this.servers = servers;
    this.sentinels = sentinels;
    this.sentinelAddresses = sentinels.map(({ host, port }) => ({ host, port }));
  }

  /** The server that all sentinels that respond call the master; undefined while they disagree. */
  async master(): Promise<RedisServer | undefined> {
    const responsive = this.sentinels.filter((sentinel) => sentinel.isResponsive);
    const ports = await Promise.all(responsive.map(masterPort));
    return this.servers.find(({ port }) => ports.length > 0 && ports.every((answer) => answer === port));
  }

  /** Swaps the roles, both servers staying up; resolves with the new master when everybody knows. */
  async failover(): Promise<RedisServer> {
    const before = await this.master();
    if (before === undefined) throw new Error('The sentinels do not agree on a master to replace');
    await eventually('the roles are swapped', async () => {
      if ((await this.master()) === before) await this.requestFailover();
      return (await this.master()) !== before && (await this.isSettled());
    });
    return this.#settledMaster();
  }

  /** Resolves with the new master once the sentinels have replaced `old`, which the test has killed or paused. */
  async promotionAfter(old: RedisServer): Promise<RedisServer> {
    await eventually(`the sentinels replace ${old.url}`, async () => {
      const now = await this.master();
      return now !== undefined && now !== old && (await isMaster(now));
    });
    return this.#settledMaster();
  }

  /** True when the sentinels agree and could act, and the other server replicates the master. */
  async isSettled(): Promise<boolean> {
    const master = await this.master();
    if (master === undefined || !(await isMaster(master))) return false;
    const others = this.servers.filter((server) => server !== master);
    const following = await Promise.all(others.map(async (server) => isReplicaOf(server, master)));
    const watching = await Promise.all(
      this.sentinels.map((sentinel) => isReadyToAct(sentinel, this.servers.length - 1)),
    );
    return [...following, ...watching].every(Boolean);
  }

  /** How many failovers there were, whoever wanted them: also sentinels that waited too long on a busy machine. */
  async failovers(): Promise<number> {
    const states = await Promise.all(
      this.sentinels.map(async (sentinel) => sentinel.command('SENTINEL', 'MASTER', MASTER_NAME)),
    );
    return Math.max(...states.map((state) => Number(fields(state).get('config-epoch'))));
  }

  async stop(): Promise<void> {
    await stopAll([...this.sentinels, ...this.servers]);
  }

  /**
   * Asks a sentinel to swap the roles, once. It gives up if it finds the replica unfit at that moment; whoever repeats
   * the request keeps the sentinels from making a replica of a second master.
   */
  async requestFailover(): Promise<void> {
    const [sentinel] = this.sentinels;
    if (sentinel === undefined) return;
    const state = fields(await sentinel.command('SENTINEL', 'MASTER', MASTER_NAME));
    if (state.get('flags') === 'master') await sentinel.command('SENTINEL', 'FAILOVER', MASTER_NAME);
  }

  async #settledMaster(): Promise<RedisServer> {
    const master = await this.master();
    if (master === undefined) throw new Error('The sentinels changed their mind');
    return master;
  }
}

function dataOptions(options: ReplicatedOptions, master?: RedisServer): LaunchOptions {
  const { config = [], password, ownClock = false } = options;
  const replication = master === undefined ? [] : [`replicaof ${master.host} ${master.port}`];
  return {
    config: [...replication, ...passwordLines('masterauth', password), ...config],
    ownClock,
    ...(password === undefined ? {} : { password }),
  };
}

/** Each sentinel is told about everybody: to find one another by themselves takes them seconds. */
async function launchSentinels(
  master: RedisServer,
  replicas: readonly RedisServer[],
  { password, sentinelPassword, downAfterMs = DOWN_AFTER_MS }: ReplicatedOptions,
): Promise<readonly RedisServer[]> {
  const reservations = await Promise.all(Array.from({ length: SENTINELS }, async () => reserve()));
  const known = reservations.map((reservation) => ({ reservation, id: randomBytes(20).toString('hex') }));
  const launches = known.map(async ({ reservation, id }, index) => {
    // The last one is slower, so that it votes instead of standing for election: three candidates at the same moment
    // get one vote each, and start over after twice the failover timeout.
    const patience = index === SENTINELS - 1 ? 3 : 1;
    const others = known.filter((other) => other.id !== id);
    return RedisServer.launch(reservation, {
      mode: 'sentinel',
      ...(sentinelPassword === undefined ? {} : { password: sentinelPassword }),
      config: [
        `sentinel myid ${id}`,
        `sentinel monitor ${MASTER_NAME} 127.0.0.1 ${master.port} ${QUORUM}`,
        `sentinel down-after-milliseconds ${MASTER_NAME} ${downAfterMs * patience}`,
        `sentinel failover-timeout ${MASTER_NAME} ${FAILOVER_TIMEOUT_MS}`,
        ...passwordLines(`sentinel auth-pass ${MASTER_NAME}`, password),
        ...replicas.map(({ port }) => `sentinel known-replica ${MASTER_NAME} 127.0.0.1 ${port}`),
        ...others.map(
          (other) => `sentinel known-sentinel ${MASTER_NAME} 127.0.0.1 ${other.reservation.port} ${other.id}`,
        ),
      ],
    });
  });
  return allStarted(launches);
}

async function quicken(sentinel: RedisServer): Promise<void> {
  await sentinel.command('SENTINEL', 'DEBUG', ...Object.entries(QUICK_PERIODS).flat());
}

async function masterPort(sentinel: RedisServer): Promise<number> {
  const address = await sentinel.command('SENTINEL', 'GET-MASTER-ADDR-BY-NAME', MASTER_NAME);
  return Number(elementsOf(address)[1]);
}

async function isMaster(server: RedisServer): Promise<boolean> {
  return (await role(server))[0] === 'master';
}

async function isReplicaOf(server: RedisServer, master: RedisServer): Promise<boolean> {
  const [name, , port, link] = await role(server);
  return name === 'slave' && port === master.port && link === 'connected';
}

async function role(server: RedisServer): Promise<readonly Reply[]> {
  return elementsOf(await server.command('ROLE'));
}

/** It sees a healthy master with healthy replicas, and enough other sentinels. */
async function isReadyToAct(sentinel: RedisServer, count: number): Promise<boolean> {
  const master = fields(await sentinel.command('SENTINEL', 'MASTER', MASTER_NAME));
  const replicas = elementsOf(await sentinel.command('SENTINEL', 'REPLICAS', MASTER_NAME)).map(fields);
  const quorum = await sentinel.command('SENTINEL', 'CKQUORUM', MASTER_NAME);
  return (
    master.get('flags') === 'master' &&
    replicas.length === count &&
    replicas.every((one) => one.get('flags') === 'slave' && one.get('master-link-status') === 'ok') &&
    String(quorum).startsWith(`OK ${SENTINELS} `)
  );
}

/** Sentinels answer names and values in turn. */
function fields(reply: Reply): ReadonlyMap<string, string> {
  const flat = elementsOf(reply).map(String);
  const pairs = flat.flatMap((name, index) =>
    index % 2 === 0 ? [[name, flat[index + 1] ?? ''] as const] : [],
  );
  return new Map(pairs);
}

function passwordLines(directive: string, password: string | undefined): string[] {
  return password === undefined ? [] : [`${directive} ${JSON.stringify(password)}`];
}
