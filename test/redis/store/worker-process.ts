import { type ChildProcess, spawn } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import type { Redis } from 'ioredis';
import type { createLimiter, tokenBucket } from 'spillgate';
import type { redisStore } from 'spillgate/redis';
import type { RedisServer } from '../servers.ts';

/** A burst of checks of one key that a process has to send. */
export interface Job {
  readonly key: string;
  readonly capacity: number;
  readonly checks: number;
  /** How many of them may be on their way at the same time. */
  readonly inFlight: number;
  /** The clock of the store stands still at this moment; left out, the server's own clock decides. */
  readonly frozenAtUs?: number;
}

export interface JobResult {
  readonly admitted: number;
  readonly denied: number;
  /** Decisions that the store did not make: a test that counts admissions must have none. */
  readonly degraded: number;
}

/** What a process saw on the wire. */
export interface Recording extends JobResult {
  /** The script's replies, each with the time of its decisions last. */
  readonly replies: readonly (readonly number[])[];
}

const ROOT = fileURLToPath(new URL('../../..', import.meta.url));

/** Another Node process with a connection and a limiter of its own. It ends with this one. */
export class WorkerProcess {
  readonly #child: ChildProcess;
  readonly #ended: Promise<never>;

  constructor(server: RedisServer) {
    const program = [
      "import { Redis } from 'ioredis';",
      "import { createLimiter, tokenBucket } from 'spillgate';",
      "import { redisStore } from 'spillgate/redis';",
      `const libraries = { Redis, createLimiter, tokenBucket, redisStore };`,
      `(${serveJobs.toString()})(libraries, ${server.port});`,
    ].join('\n');
    this.#child = spawn(process.execPath, ['--input-type=module', '--eval', program], {
      cwd: ROOT,
      stdio: ['ignore', 'inherit', 'inherit', 'ipc'],
    });
    this.#ended = new Promise((_, reject) => {
      this.#child.once('exit', (code, signal) => {
        reject(new Error(`A worker process ended by itself (${signal ?? code})`));
      });
    });
    // Only a job that is under way cares.
    this.#ended.catch(() => undefined);
  }

  async run(job: Job): Promise<Recording> {
    const answer = new Promise<Recording>((resolve) => {
      this.#child.once('message', (result) => {
        if (isJobResult(result)) resolve(result);
      });
    });
    this.#child.send(job);
    return Promise.race([answer, this.#ended]);
  }

  stop(): void {
    this.#child.kill();
  }
}

function isJobResult(message: unknown): message is Recording {
  return typeof message === 'object' && message !== null && 'admitted' in message;
}

interface Libraries {
  readonly Redis: typeof Redis;
  readonly createLimiter: typeof createLimiter;
  readonly tokenBucket: typeof tokenBucket;
  readonly redisStore: typeof redisStore;
}

/** Runs in the other process, to which only its source text goes: it may use its arguments and nothing else. */
function serveJobs({ Redis, createLimiter, tokenBucket, redisStore }: Libraries, port: number): void {
  const redis = new Redis(port, '127.0.0.1');
  let replies: number[][] = [];
  const client = {
    call: async (command: string, ...args: string[]): Promise<unknown> => {
      const reply = await redis.call(command, ...args);
      // What a script without questions answers is no decision.
      if (Array.isArray(reply) && reply.length > 2) replies.push(reply.map(Number));
      return reply;
    },
  };
  process.on('disconnect', () => {
    process.exit();
  });
  process.on('message', (message) => {
    if (isJob(message)) void run(message).then((result) => process.send?.(result));
  });

  function isJob(message: unknown): message is Job {
    return typeof message === 'object' && message !== null && 'key' in message && 'capacity' in message;
  }

  async function run({ key, capacity, checks, inFlight, frozenAtUs }: Job): Promise<Recording> {
    replies = [];
    const clock = frozenAtUs === undefined ? undefined : () => frozenAtUs;
    const store = redisStore({ client, clock, timeoutMs: 10_000 });
    const limiter = createLimiter({ store, failurePolicy: 'failClosed', deadlineMs: 10_000 });
    const limit = tokenBucket({ name: 'shared', average: capacity, burst: capacity, period: '1m' }).for(key);
    const result = { admitted: 0, denied: 0, degraded: 0 };
    let left = checks;
    const lane = async (): Promise<void> => {
      while (left > 0) {
        left -= 1;
        const { allowed, degraded } = await limiter.check(limit);
        result[degraded ? 'degraded' : allowed ? 'admitted' : 'denied'] += 1;
      }
    };
    await Promise.all(Array.from({ length: inFlight }, lane));
    await limiter.close();
    return { ...result, replies };
  }
}
