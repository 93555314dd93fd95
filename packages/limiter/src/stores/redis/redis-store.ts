import { readClock, type Clock } from '../../clock.ts';
import { LimiterError, show } from '../../errors.ts';
import type { Limit } from '../../limit.ts';
import type { Store, StoreHealth, StoreVerdict } from '../store.ts';
import { Breaker } from './breaker.ts';
import { toSendCommand, type RedisClient, type SendCommand } from './client.ts';
import { keyName } from './key-name.ts';
import type { Verb } from './protocol.ts';
import { ScriptRunner } from './script-runner.ts';

export interface RedisStoreOptions {
  /** A connected client of ioredis, iovalkey, redis or @redis/client. The application opens and closes it. */
  readonly client: RedisClient;
  /** What the names of all keys start with. Default: `spillgate:`. */
  readonly prefix?: string | undefined;
  /** A call without an answer for this long counts as failed; five in a row open the breaker. Default: 50. */
  readonly timeoutMs?: number | undefined;
  /** Replaces the server's own time: for tests and simulations. Default: the server's `TIME`. */
  readonly clock?: Clock | undefined;
}

const DEFAULT_TIMEOUT_MS = 50;
const MAX_TIMEOUT_MS = 60_000;
const PREFIX_PATTERN = /^[\w.:-]{1,64}$/;

/**
 * State shared by any number of processes: the same decisions as the embedded store, each in one atomic round trip.
 *
 * @example
 * import { Redis } from 'ioredis';
 * const limiter = createLimiter({ store: redisStore({ client: new Redis() }) });
 */
export function redisStore(options: RedisStoreOptions): Store {
  return new RedisStore(options);
}

class RedisStore implements Store {
  private readonly prefix: string;
  private readonly send: SendCommand;
  private readonly breaker: Breaker;
  private readonly runner: ScriptRunner;

  constructor({ client, prefix = 'spillgate:', timeoutMs = DEFAULT_TIMEOUT_MS, clock }: RedisStoreOptions) {
    if (typeof prefix !== 'string' || !PREFIX_PATTERN.test(prefix)) {
      throw new LimiterError(
        'INVALID_OPTION',
        `prefix is ${show(prefix)}; expected 1 to 64 letters, digits, '_', '-', '.' or ':', such as 'myapp:'.`,
      );
    }
    if (!Number.isInteger(timeoutMs) || timeoutMs < 1 || timeoutMs > MAX_TIMEOUT_MS) {
      throw new LimiterError(
        'INVALID_OPTION',
        `timeoutMs is ${show(timeoutMs)}; expected an integer from 1 to ${MAX_TIMEOUT_MS} milliseconds.`,
      );
    }
    this.prefix = prefix;
    this.send = toSendCommand(client);
    this.breaker = new Breaker({ name: 'redis', timeoutMs, probe: () => this.send('PING', []) });
    this.runner = new ScriptRunner({
      send: this.send,
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
    await this.send('DEL', this.keysOf(limits));
  }

  async health(): Promise<StoreHealth> {
    const node = this.breaker.health();
    return { status: node.status, nodes: [node] };
  }

  /** The client stays open: it belongs to the application. */
  async close(): Promise<void> {
    this.breaker.close();
  }

  private ask(verb: Verb, limits: readonly Limit[], cost: number): Promise<readonly StoreVerdict[]> {
    return this.runner.ask({ verb, limits, cost, keys: this.keysOf(limits) });
  }

  private keysOf(limits: readonly Limit[]): string[] {
    return limits.map((limit) => keyName(this.prefix, limit));
  }
}
