import { type ChildProcess, spawn } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import type { createLimiter, tokenBucket } from 'spillgate';
import type { redisStore, RedisStoreOptions } from 'spillgate/redis';
import { WITHOUT_IOREDIS_HOOKS } from './hidden-packages.ts';

export interface Ending {
  readonly code: number | null;
  readonly signal: NodeJS.Signals | null;
  /** Everything it wrote: warnings of the runtime, unhandled rejections, whatever a package prints. */
  readonly output: string;
  /** Whether it ended within the given time after its limiter was closed. */
  readonly inTime: boolean;
}

const ROOT = fileURLToPath(new URL('../../..', import.meta.url));

/** An application that checks all the time until it is told to close its limiter, and then has nothing left to do. */
export class LimiterProcess {
  readonly #child: ChildProcess;
  readonly #ended: Promise<Omit<Ending, 'inTime'>>;
  /** What the store decided so far, and what the failure policy did. */
  readonly decisions: Count = { decided: 0, degraded: 0 };
  #output = '';

  constructor(options: RedisStoreOptions, installed: 'ioredis' | 'node-redis') {
    const program = [
      ...(installed === 'ioredis'
        ? []
        : [`(await import('node:module')).register(${JSON.stringify(WITHOUT_IOREDIS_HOOKS)});`]),
      "const { createLimiter, tokenBucket } = await import('spillgate');",
      "const { redisStore } = await import('spillgate/redis');",
      `const libraries = { createLimiter, tokenBucket, redisStore };`,
      `(${serve.toString()})(libraries, ${JSON.stringify(options)});`,
    ].join('\n');
    this.#child = spawn(process.execPath, ['--input-type=module', '--eval', program], {
      cwd: ROOT,
      stdio: ['ignore', 'pipe', 'pipe', 'ipc'],
    });
    for (const stream of [this.#child.stdout, this.#child.stderr]) {
      stream?.on('data', (chunk) => {
        this.#output += String(chunk);
      });
    }
    this.#child.on('message', (message) => {
      if (isCount(message)) Object.assign(this.decisions, message);
    });
    this.#ended = new Promise((resolve) => {
      this.#child.once('close', (code, signal) => {
        resolve({ code, signal, output: this.#output });
      });
    });
  }

  /** Closes the limiter, and waits for the process to end by itself. */
  async close(withinMs: number): Promise<Ending> {
    const askedAtMs = performance.now();
    this.#child.send('close');
    const ended = await this.#ended;
    return { ...ended, inTime: performance.now() - askedAtMs <= withinMs };
  }

  /** Does not ask. */
  kill(): void {
    this.#child.kill('SIGKILL');
  }
}

interface Count {
  decided: number;
  degraded: number;
}

function isCount(message: unknown): message is Count {
  return typeof message === 'object' && message !== null && 'decided' in message && 'degraded' in message;
}

interface Libraries {
  readonly createLimiter: typeof createLimiter;
  readonly tokenBucket: typeof tokenBucket;
  readonly redisStore: typeof redisStore;
}

/** Runs in the other process, to which only its source text goes: it may use its arguments and nothing else. */
function serve({ createLimiter, tokenBucket, redisStore }: Libraries, options: RedisStoreOptions): void {
  const limiter = createLimiter({ store: redisStore(options), failurePolicy: 'passThrough' });
  // Who listens is not warned of an outage.
  limiter.on('storeError', () => undefined);
  const api = tokenBucket({ name: 'api', average: 1_000_000, burst: 1_000_000, period: '1s' });
  const count = { decided: 0, degraded: 0 };
  const timer = setInterval(() => {
    for (let key = 0; key < 20; key += 1) void check(`key-${key}`);
  }, 5);
  process.on('message', () => {
    clearInterval(timer);
    void limiter.close();
    process.disconnect();
  });

  async function check(key: string): Promise<void> {
    const { degraded } = await limiter.check([api.for(key), api.for(`${key}'s neighbour`)]);
    count[degraded ? 'degraded' : 'decided'] += 1;
    if (process.connected) process.send?.(count);
  }
}
