import { spawn, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';

const ROOT = fileURLToPath(new URL('../../../..', import.meta.url));

/** What the process says about a check. */
export interface LibraryDecision {
  readonly allowed: boolean;
  readonly limit: number;
  readonly source: string;
}

/** Another process, which has the library and no gateway, and joins the fleet of a Redis. */
export class LibraryProcess {
  private readonly child: ChildProcess;

  private constructor(child: ChildProcess) {
    this.child = child;
  }

  /** Resolves when it has joined. `redis`: the options of `redisStore()`. */
  static async start(redis: { readonly url: string; readonly prefix: string }): Promise<LibraryProcess> {
    const program = `
import { createLimiter, fixedWindow } from 'spillgate';
import { joinFleet } from 'spillgate/fleet';
import { redisStore } from 'spillgate/redis';
const redis = ${JSON.stringify(redis)};
const calls = fixedWindow({ name: 'calls', quota: 1000, window: '1h' });
const limiter = createLimiter({ store: redisStore(redis), deadlineMs: 5000 });
const fleet = await joinFleet({ redis, policies: [calls], limiter });
process.on('message', async (key) => {
  if (key === '') {
    // It ends by itself then: nothing is left that would keep it alive.
    await Promise.all([fleet.close(), limiter.close()]);
    process.disconnect();
    return;
  }
  const { allowed, limit, source } = await limiter.check(calls.for(key));
  process.send({ allowed, limit, source });
});
process.send('joined');
`;
    const child = spawn(process.execPath, ['--input-type=module', '--eval', program], {
      cwd: ROOT,
      stdio: ['ignore', 'inherit', 'inherit', 'ipc'],
    });
    await once(child, 'message');
    return new LibraryProcess(child);
  }

  /** Asks it for one check at a time. */
  async check(key: string): Promise<LibraryDecision> {
    const answer = once(this.child, 'message');
    this.child.send(key);
    const [decision]: LibraryDecision[] = await answer;
    if (decision === undefined) throw new Error('the process said nothing');
    return decision;
  }

  /** Resolves to its exit code. */
  async close(): Promise<number | null> {
    const gone = once(this.child, 'exit');
    this.child.send('');
    const [code] = await gone;
    return typeof code === 'number' ? code : null;
  }

  kill(): void {
    this.child.kill('SIGKILL');
  }
}
