import { readClock, type Clock } from '../../clock.ts';
import { LimiterError, show } from '../../errors.ts';
import type { Limit } from '../../limit.ts';
import { requireOptionNames } from '../../options.ts';
import type { Store, StoreHealth, StoreVerdict } from '../store.ts';
import { Breaker } from './breaker.ts';
import { toSendCommand, type RedisClient } from './client.ts';
import { connect, type Connection } from './connect.ts';
import { keyName } from './key-name.ts';
import type { Verb } from './protocol.ts';
import { ScriptRunner } from './script-runner.ts';

export interface RedisStoreOptions {
  /** `redis://host:port`, or `rediss://` for TLS. Opened with whichever of ioredis, iovalkey, redis or @redis/client is installed. */
  readonly url?: string | undefined;
  /** Instead of `url`: a connected client of one of these packages. The application opens and closes it. */
  readonly client?: RedisClient | undefined;
  /** What the names of all keys start with. Default: `spillgate:`. */
  readonly prefix?: string | undefined;
  /** A call without an answer for this long counts as failed; five in a row open the breaker. Default: 50. */
  readonly timeoutMs?: number | undefined;
  /** How long opening a connection to a `url` may take. Default: 1000. */
  readonly connectTimeoutMs?: number | undefined;
  /** Replaces the server's own time: for tests and simulations. Default: the server's `TIME`. */
  readonly clock?: Clock | undefined;
}

const DEFAULT_TIMEOUT_MS = 50;
const DEFAULT_CONNECT_TIMEOUT_MS = 1000;
const MAX_TIMEOUT_MS = 60_000;
const PREFIX_PATTERN = /^[\w.:-]{1,64}$/;
const OPTIONS = ['url', 'client', 'prefix', 'timeoutMs', 'connectTimeoutMs', 'clock'];

/**
 * State shared by any number of processes: the same decisions as the embedded store, each in one atomic round trip.
 *
 * @example
 * const limiter = createLimiter({ store: redisStore({ url: 'redis://localhost:6379' }) });
 */
export function redisStore(options: RedisStoreOptions): Store {
  requireOptionNames('The options of redisStore()', options, OPTIONS);
  const { prefix = 'spillgate:', timeoutMs = DEFAULT_TIMEOUT_MS, clock } = options;
  requirePrefix(prefix);
  requireTimeout('timeoutMs', timeoutMs);
  return new RedisStore({ connection: openConnection(options), prefix, timeoutMs, clock });
}

function openConnection({
  url,
  client,
  connectTimeoutMs = DEFAULT_CONNECT_TIMEOUT_MS,
}: RedisStoreOptions): Connection {
  requireTimeout('connectTimeoutMs', connectTimeoutMs);
  if ((url === undefined) === (client === undefined)) {
    throw new LimiterError(
      'INVALID_OPTION',
      `redisStore() got ${url === undefined ? 'neither a url nor a client' : 'a url and a client'}; pass one of them.`,
    );
  }
  if (url !== undefined) return connect(url, connectTimeoutMs);
  // The application's own client stays open.
  return { send: toSendCommand(client), close: async () => undefined };
}

function requirePrefix(prefix: unknown): void {
  if (typeof prefix === 'string' && PREFIX_PATTERN.test(prefix)) return;
  throw new LimiterError(
    'INVALID_OPTION',
    `prefix is ${show(prefix)}; expected 1 to 64 letters, digits, '_', '-', '.' or ':', such as 'myapp:'.`,
  );
}

function requireTimeout(name: string, timeoutMs: number): void {
  if (Number.isInteger(timeoutMs) && timeoutMs >= 1 && timeoutMs <= MAX_TIMEOUT_MS) return;
  throw new LimiterError(
    'INVALID_OPTION',
    `${name} is ${show(timeoutMs)}; expected an integer from 1 to ${MAX_TIMEOUT_MS} milliseconds.`,
  );
}

interface RedisStoreParts {
  readonly connection: Connection;
  readonly prefix: string;
  readonly timeoutMs: number;
  readonly clock: Clock | undefined;
}

class RedisStore implements Store {
  private readonly connection: Connection;
  private readonly prefix: string;
  private readonly breaker: Breaker;
  private readonly runner: ScriptRunner;

  constructor({ connection, prefix, timeoutMs, clock }: RedisStoreParts) {
    const { send } = connection;
    this.connection = connection;
    this.prefix = prefix;
    this.breaker = new Breaker({ name: 'redis', timeoutMs, probe: () => send('PING', []) });
    this.runner = new ScriptRunner({
      send,
      breaker: this.breaker,
      nowUs: clock === undefined ? () => '' : () => String(readClock(clock)),
    });
  }

  check(limits: readonly Limit[], cost: number): Promise<readonly StoreVerdict[]> {
    return this.ask('check', limits, cost);
  }

  peek(limits: readonly Limit[], cost: number): Promise<readonly StoreVerdict[]> {
    return this.ask('peek', limits, cost);
  }

  async forget(limits: readonly Limit[]): Promise<void> {
    await this.connection.send('DEL', this.keysOf(limits));
  }

  async health(): Promise<StoreHealth> {
    const node = this.breaker.health();
    return { status: node.status, nodes: [node] };
  }

  async close(): Promise<void> {
    this.breaker.close();
    await this.connection.close();
  }

  private ask(verb: Verb, limits: readonly Limit[], cost: number): Promise<readonly StoreVerdict[]> {
    return this.runner.ask({ verb, limits, cost, keys: this.keysOf(limits) });
  }

  private keysOf(limits: readonly Limit[]): string[] {
    return limits.map((limit) => keyName(this.prefix, limit));
  }
}
