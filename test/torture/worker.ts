import { type ChildProcess, spawn } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { ALONE, BUDGET, LEASED, LEASED_CYCLE, LEFT, RIGHT, SHARED, SHARED_CYCLE } from './policies.ts';
import { bugs, dueTraffic, noteDecisions, serveTorture, traffic, type ToWorker } from './worker-program.ts';

const ROOT = fileURLToPath(new URL('../..', import.meta.url));

const PROGRAM = [
  "import fs from 'node:fs';",
  "import { createLimiter, slidingWindowLog, tokenBucket } from 'spillgate';",
  "import { redisStore } from 'spillgate/redis';",
  "import { LeaseHolder } from '#limiter/stores/local/lease-holder.js';",
  "import { RedisNode } from '#limiter/stores/redis/redis-node.js';",
  "import { ScriptBatches } from '#limiter/stores/redis/script-batches.js';",
  "import { WatchedMaster } from '#limiter/stores/redis/watched-master.js';",
  bugs.toString(),
  noteDecisions.toString(),
  dueTraffic.toString(),
  traffic.toString(),
  serveTorture.toString(),
  `const numbers = ${JSON.stringify({ SHARED, SHARED_CYCLE, ALONE, LEASED, LEASED_CYCLE, LEFT, RIGHT, BUDGET })};`,
  'const parts = { fs, createLimiter, tokenBucket, slidingWindowLog, redisStore, LeaseHolder, RedisNode, ScriptBatches, WatchedMaster, numbers };',
  'serveTorture(parts, { bugs, noteDecisions, dueTraffic, traffic });',
].join('\n');

/** A process of its own that uses the library. */
export class TortureWorker {
  private readonly child: ChildProcess;
  private readonly waiting: ((failure?: Error) => void)[] = [];
  private ended = false;

  constructor() {
    // Servers that are killed and come back are sometimes two masters; every process would say so.
    this.child = spawn(process.execPath, ['--no-warnings', '--input-type=module', '--eval', PROGRAM], {
      cwd: ROOT,
      stdio: ['ignore', 'inherit', 'inherit', 'ipc'],
    });
    this.child.on('message', () => this.waiting.shift()?.());
    this.child.once('exit', () => {
      this.ended = true;
      for (const end of this.waiting.splice(0)) end(new Error('the worker has ended'));
    });
  }

  /** Resolves when it has done it; rejects when it was killed before. */
  async tell(message: ToWorker): Promise<void> {
    await new Promise<void>((resolve, reject) => {
      if (this.ended) return reject(new Error('the worker has ended'));
      this.waiting.push((failure) => (failure === undefined ? resolve() : reject(failure)));
      // One that is being killed takes no messages; its end then answers.
      return void this.child.send(message, () => undefined);
    });
  }

  signal(signal: 'SIGSTOP' | 'SIGCONT'): void {
    this.child.kill(signal);
  }

  /** Ends it without warning, also while it is stopped. */
  async kill(): Promise<void> {
    if (this.ended) return;
    const ended = new Promise((resolve) => this.child.once('exit', resolve));
    this.child.kill('SIGKILL');
    await ended;
  }
}
