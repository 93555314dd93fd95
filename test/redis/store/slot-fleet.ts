// Processes that take slots of one key, some of which die without a word, and a referee who watches all of them.
import { once } from 'node:events';
import { spawn, type ChildProcess } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { keyName } from '#limiter/stores/redis/protocol.js';
import type { Redis } from 'ioredis';
import { concurrency, type createLimiter } from 'spillgate';
import type { redisStore } from 'spillgate/redis';
import type { RedisServer } from '../servers.ts';
import { openRaw } from './clients.ts';
import { doublesIn } from './packed-state.ts';

const ROOT = fileURLToPath(new URL('../../..', import.meta.url));
const SLOT_NUMBERS = 5;
/** Who says to hold a slot, and how often slots were taken. */
const HELD = 'referee:held';
const TAKEN = 'referee:taken';

export interface SlotFleetOptions {
  readonly processes: number;
  readonly limit: number;
  readonly holdMs: number;
}

export interface SlotSample {
  readonly taken: number;
  /** Units of slots that have not ended, by the clock of Redis. */
  readonly live: number;
  /** Slots that living processes say they hold. */
  readonly claimed: number;
  /** How long the slot that ends last lasts, by the clock of Redis. */
  readonly longestMs: number;
}

export class SlotFleet {
  private readonly options: SlotFleetOptions;
  private readonly server: RedisServer;
  private readonly raw: Redis;
  private readonly key: string;
  private readonly children: ChildProcess[] = [];

  constructor(server: RedisServer, options: SlotFleetOptions) {
    const { limit, holdMs } = options;
    this.options = options;
    this.server = server;
    this.raw = openRaw(server);
    this.key = keyName('spillgate:', concurrency({ name: 'fleet', limit, hold: holdMs }).for('ann'));
    for (let at = 0; at < options.processes; at += 1) this.children.push(this.start());
  }

  async sample(): Promise<SlotSample> {
    const replies = await this.raw.multi().time().getBuffer(this.key).smembers(HELD).get(TAKEN).exec();
    const [time, state, held, taken] = (replies ?? []).map(([, reply]) => reply);
    const [seconds = 0, us = 0] = Array.isArray(time) ? time.map(Number) : [];
    const nowUs = seconds * 1_000_000 + us;
    const numbers = Buffer.isBuffer(state) ? doublesIn(state) : [0];
    let live = 0;
    let longestUs = 0;
    for (let at = 1; at < numbers.length; at += SLOT_NUMBERS) {
      const endUs = numbers[at] ?? 0;
      if (endUs > nowUs) live += numbers[at + 4] ?? 0;
      longestUs = Math.max(longestUs, endUs - nowUs);
    }
    const pids = new Set(this.children.map(({ pid }) => String(pid)));
    const claimed = (Array.isArray(held) ? held : []).filter((each) =>
      pids.has(String(each).split(':')[0] ?? ''),
    );
    return { taken: Number(taken ?? 0), live, claimed: claimed.length, longestMs: longestUs / 1000 };
  }

  /** Kills a process with -9, and starts another one in its place. */
  async crash(at: number): Promise<void> {
    const [child] = this.children.splice(at, 1, this.start());
    await killed(child);
  }

  async crashAll(): Promise<void> {
    await Promise.all(this.children.splice(0).map(killed));
  }

  async stop(): Promise<void> {
    await this.crashAll();
    this.raw.disconnect();
  }

  private start(): ChildProcess {
    const program = [
      "import { Redis } from 'ioredis';",
      "import { concurrency, createLimiter } from 'spillgate';",
      "import { redisStore } from 'spillgate/redis';",
      'const libraries = { Redis, concurrency, createLimiter, redisStore };',
      `(${holdSlots.toString()})(libraries, ${JSON.stringify({ ...this.options, port: this.server.port, HELD, TAKEN })});`,
    ].join('\n');
    return spawn(process.execPath, ['--input-type=module', '--eval', program], {
      cwd: ROOT,
      stdio: ['ignore', 'inherit', 'inherit', 'ipc'],
    });
  }
}

async function killed(child: ChildProcess | undefined): Promise<void> {
  if (child === undefined || child.exitCode !== null || child.signalCode !== null) return;
  child.kill('SIGKILL');
  await once(child, 'exit');
}

interface Libraries {
  readonly Redis: typeof Redis;
  readonly concurrency: typeof concurrency;
  readonly createLimiter: typeof createLimiter;
  readonly redisStore: typeof redisStore;
}

interface HolderJob extends SlotFleetOptions {
  readonly port: number;
  readonly HELD: string;
  readonly TAKEN: string;
}

/** Runs in a process of its own, from its source: it may use nothing of this file. */
async function holdSlots(libraries: Libraries, job: HolderJob): Promise<void> {
  const { Redis: Client, concurrency: define, createLimiter, redisStore } = libraries;
  process.on('disconnect', () => process.exit());
  const client = new Client(job.port, '127.0.0.1');
  const referee = new Client(job.port, '127.0.0.1');
  const limiter = createLimiter({
    store: redisStore({ client, timeoutMs: 10_000 }),
    failurePolicy: 'failClosed',
    deadlineMs: 10_000,
  });
  const limit = define({ name: 'fleet', limit: job.limit, hold: job.holdMs }).for('ann');
  const pass = async (ms: number): Promise<void> => {
    await new Promise((resolve) => setTimeout(resolve, ms));
  };
  for (let at = 0; ; at += 1) {
    const slot = await limiter.acquire(limit);
    if (!slot.allowed) {
      await pass(Math.random() * 10);
      continue;
    }
    const claim = `${process.pid}:${at}`;
    await referee.multi().sadd(job.HELD, claim).incr(job.TAKEN).exec();
    // Some work takes longer than a slot lasts that is not renewed.
    await pass(Math.random() < 0.01 ? job.holdMs * 1.3 : Math.random() * 10);
    await referee.srem(job.HELD, claim);
    await slot.release();
  }
}
