import type { Clock } from '../../clock.ts';
import { LimiterError, show } from '../../errors.ts';
import { requireOptionNames } from '../../options.ts';
import { PACKAGES, type PackageName } from './clients/client-package.ts';
import type { RedisClient } from './clients/client.ts';
import type { AddressDefaults, TlsOptions } from './server-address.ts';

/** A master that sentinels watch. */
export interface SentinelOptions {
  /** The sentinels: `redis://host:26379` each, with credentials of their own if they need some. */
  readonly urls: readonly string[];
  /** The name under which they know the master. */
  readonly name: string;
}

/** A Redis Cluster. */
export interface ClusterOptions {
  /** Some of its nodes; the others are found. */
  readonly urls: readonly string[];
}

/** A master and its replicas, without sentinels: somebody else promotes a replica when the master is gone. */
export interface ReplicationOptions {
  /** All of them, in any order: each is asked whether it is the master. */
  readonly urls: readonly string[];
}

/** One of several independent servers. */
export interface ShardOptions {
  /** What keys are placed by: keep it when the address changes. Default: `host:port` of the url. */
  readonly name?: string | undefined;
  readonly url?: string | undefined;
  /** Instead of `url`; then a name is needed. */
  readonly client?: RedisClient | undefined;
  /** Its share of the keys in proportion to the others'. Default: 1. */
  readonly weight?: number | undefined;
}

/** Where the states live: exactly one of `url`, `client`, `sentinel`, `replication`, `cluster` and `shards`. */
export interface RedisStoreOptions {
  /**
   * `redis://user:password@host:port/database`, or `rediss://` for TLS. Opened with whichever of ioredis, iovalkey,
   * redis or @redis/client is installed.
   */
  readonly url?: string | undefined;
  /**
   * A connected client of one of these packages: a single server, sentinels or a cluster. The application opens and
   * closes it.
   */
  readonly client?: RedisClient | undefined;
  readonly sentinel?: SentinelOptions | undefined;
  readonly replication?: ReplicationOptions | undefined;
  readonly cluster?: ClusterOptions | undefined;
  /** Several independent servers; each key lives on one of them. The order does not matter. */
  readonly shards?: readonly (string | ShardOptions)[] | undefined;
  /**
   * Which package opens the connections, if several are installed. Default: ioredis, iovalkey, redis, @redis/client, in
   * this order.
   */
  readonly clientPackage?: PackageName | undefined;
  /** For servers whose url has none. */
  readonly username?: string | undefined;
  readonly password?: string | undefined;
  /** For servers whose url has none; a cluster has only 0. Default: 0. */
  readonly database?: number | undefined;
  /** Certificates; giving them switches TLS on. */
  readonly tls?: TlsOptions | undefined;
  /** What the names of all keys start with. Default: `spillgate:`. */
  readonly prefix?: string | undefined;
  /**
   * A call without an answer for this long counts as failed; five in a row open the breaker. Default: the `deadlineMs`
   * of the limiter, but not less than 50.
   */
  readonly timeoutMs?: number | undefined;
  /** How long opening a connection may take. Default: 1000. */
  readonly connectTimeoutMs?: number | undefined;
  /**
   * The first checks of a process wait until the first attempt to connect has ended and a server has answered, both
   * together for at most `connectTimeoutMs`, and only then does their deadline begin. With `false` it begins at once.
   * Default: `true`.
   */
  readonly waitForConnection?: boolean | undefined;
  /**
   * Repeats a denial without asking Redis until its wait is over, for at most a second: a flood of denied requests does
   * not reach the server. Default: true.
   */
  readonly denialCache?: boolean | undefined;
  /** Replaces the server's own time: for tests and simulations. Default: the server's `TIME`. */
  readonly clock?: Clock | undefined;
}

const PLACES = ['url', 'client', 'sentinel', 'replication', 'cluster', 'shards'] as const;
const OPTIONS = [
  ...PLACES,
  'clientPackage',
  'username',
  'password',
  'database',
  'tls',
  'prefix',
  'timeoutMs',
  'connectTimeoutMs',
  'waitForConnection',
  'denialCache',
  'clock',
];
const TLS_OPTIONS = ['ca', 'cert', 'key', 'servername', 'rejectUnauthorized'];
export const DEFAULT_PREFIX = 'spillgate:';
const DEFAULT_TIMEOUT_MS = 50;
const DEFAULT_CONNECT_TIMEOUT_MS = 1000;
const MAX_TIMEOUT_MS = 60_000;
const MAX_DATABASE = 65_535;
const PREFIX_PATTERN = /^[\w.:-]{1,64}$/;
const MAX_ADDRESSES = 256;
const MAX_WEIGHT = 1000;

export interface AcceptedOptions {
  readonly prefix: string;
  readonly timeoutMs: number;
  readonly waitForConnection: boolean;
  readonly denialCache: boolean;
  readonly clock: Clock | undefined;
  readonly defaults: AddressDefaults;
}

/** Checks what does not depend on where the states live, and fills in the defaults. */
export function acceptOptions(options: RedisStoreOptions): AcceptedOptions {
  requireOptionNames('The options of redisStore()', options, OPTIONS);
  requireOnePlace(options);
  const {
    prefix = DEFAULT_PREFIX,
    timeoutMs = DEFAULT_TIMEOUT_MS,
    connectTimeoutMs = DEFAULT_CONNECT_TIMEOUT_MS,
    waitForConnection = true,
    database = 0,
    clientPackage,
    username,
    password,
    tls,
    denialCache = true,
    clock,
  } = options;
  requirePrefix(prefix);
  requireInteger('timeoutMs', timeoutMs, { min: 1, max: MAX_TIMEOUT_MS });
  requireInteger('connectTimeoutMs', connectTimeoutMs, { min: 1, max: MAX_TIMEOUT_MS });
  requireInteger('database', database, { min: 0, max: MAX_DATABASE });
  if (typeof waitForConnection !== 'boolean') {
    invalid(`waitForConnection is ${show(waitForConnection)}; expected true or false.`);
  }
  requireText('username', username);
  requireText('password', password);
  if (clientPackage !== undefined && !PACKAGES.includes(clientPackage)) {
    invalid(`clientPackage is ${show(clientPackage)}; choose one of ${PACKAGES.map(show).join(', ')}.`);
  }
  if (typeof denialCache !== 'boolean')
    invalid(`denialCache is ${show(denialCache)}; expected true or false.`);
  if (tls !== undefined) requireOptionNames('tls', tls, TLS_OPTIONS);
  return {
    prefix,
    timeoutMs,
    waitForConnection,
    denialCache,
    clock,
    defaults: { username, password, database, tls, connectTimeoutMs, clientPackage },
  };
}

/** The addresses of sentinels or of a cluster. */
export function acceptUrls(option: string, urls: unknown): readonly unknown[] {
  if (Array.isArray(urls) && urls.length >= 1 && urls.length <= MAX_ADDRESSES) return urls;
  return invalid(`${option} is ${show(urls)}; expected a list of 1 to ${MAX_ADDRESSES} urls.`);
}

export function acceptMasterName(name: unknown): string {
  if (typeof name === 'string' && /^[\w.-]{1,128}$/.test(name)) return name;
  return invalid(
    `sentinel.name is ${show(name)}; expected the master's name in the sentinels' configuration, such as 'mymaster'.`,
  );
}

export interface AcceptedShard extends Omit<ShardOptions, 'weight'> {
  readonly weight: number;
}

export function acceptShards(shards: unknown): readonly AcceptedShard[] {
  if (!Array.isArray(shards) || shards.length === 0 || shards.length > MAX_ADDRESSES) {
    return invalid(
      `shards is ${show(shards)}; expected a list of 1 to ${MAX_ADDRESSES} urls or { name, url, weight }.`,
    );
  }
  return shards.map((shard: unknown, at) => {
    if (typeof shard === 'string') return { url: shard, weight: 1 };
    requireOptionNames(`shards[${at}]`, shard, ['name', 'url', 'client', 'weight']);
    // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- an object with no other names; each is checked below
    const { name, url, client, weight = 1 } = shard as ShardOptions;
    if (!(Number.isFinite(weight) && weight > 0 && weight <= MAX_WEIGHT)) {
      invalid(`shards[${at}].weight is ${show(weight)}; expected a number above 0, up to ${MAX_WEIGHT}.`);
    }
    if ((url === undefined) === (client === undefined)) {
      invalid(
        `shards[${at}] has ${url === undefined ? 'neither a url nor a client' : 'a url and a client'}; give it one of them.`,
      );
    }
    if (name !== undefined || client !== undefined) requireShardName(at, name);
    return { name, url, client, weight };
  });
}

export function requireDistinctNames(names: readonly string[]): void {
  const twice = names.find((name, at) => names.indexOf(name) !== at);
  if (twice !== undefined) invalid(`Two shards are named ${show(twice)}; each needs a name of its own.`);
}

export function requireDistinctServers(names: readonly string[]): void {
  const twice = names.find((name, at) => names.indexOf(name) !== at);
  if (twice !== undefined) invalid(`replication.urls names ${twice} twice; name each server once.`);
}

function requireShardName(at: number, name: unknown): void {
  if (typeof name === 'string' && /^[\w.:[\]-]{1,128}$/.test(name)) return;
  invalid(
    `shards[${at}].name is ${show(name)}; expected 1 to 128 letters, digits, '_', '-', '.' or ':': keys are placed by it, so keep it for good.`,
  );
}

function requireOnePlace(options: RedisStoreOptions): void {
  const given = PLACES.filter((place) => options[place] !== undefined);
  if (given.length === 1) return;
  invalid(
    `redisStore() got ${given.length === 0 ? 'no address' : given.join(' and ')}; pass exactly one of ${PLACES.join(', ')}.`,
  );
}

function requirePrefix(prefix: unknown): void {
  if (typeof prefix === 'string' && PREFIX_PATTERN.test(prefix)) return;
  invalid(
    `prefix is ${show(prefix)}; expected 1 to 64 letters, digits, '_', '-', '.' or ':', such as 'myapp:'.`,
  );
}

function requireInteger(name: string, value: number, { min, max }: { min: number; max: number }): void {
  if (Number.isInteger(value) && value >= min && value <= max) return;
  const unit = name.endsWith('Ms') ? ' milliseconds' : '';
  invalid(`${name} is ${show(value)}; expected an integer from ${min} to ${max}${unit}.`);
}

/** What may be a secret is named, never shown. */
function requireText(name: string, value: unknown): void {
  if (value === undefined || (typeof value === 'string' && value !== '')) return;
  invalid(`${name} is ${value === '' ? 'empty' : `a ${typeof value}`}; expected a text, or leave it out.`);
}

function invalid(message: string): never {
  throw new LimiterError('INVALID_OPTION', message);
}
