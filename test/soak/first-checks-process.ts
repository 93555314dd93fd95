// A process that has just started and asks a healthy Redis at once for more than the policy admits.
import { execFile } from 'node:child_process';
import { promisify } from 'node:util';
import type { createLimiter, tokenBucket } from 'spillgate';
import type { redisStore, RedisStoreOptions } from 'spillgate/redis';

export interface FirstChecks {
  readonly options: RedisStoreOptions;
  readonly failurePolicy: 'passThrough' | 'inMemoryFallback';
  /** How many processes start together, and share the policy while Redis cannot decide. */
  readonly instances: number;
  readonly burst: number;
  readonly checks: number;
  readonly deadlineMs: number;
}

export interface FirstAnswers {
  readonly admitted: number;
  /** Why the failure policy answered, where it did. */
  readonly failures: readonly string[];
}

interface Libraries {
  readonly createLimiter: typeof createLimiter;
  readonly tokenBucket: typeof tokenBucket;
  readonly redisStore: typeof redisStore;
}

const run = promisify(execFile);

/** What becomes of the first checks of a process. */
export async function firstAnswers(start: FirstChecks): Promise<FirstAnswers> {
  const source = `
const { createLimiter, tokenBucket } = await import('spillgate');
const { redisStore } = await import('spillgate/redis');
(${ask.toString()})({ createLimiter, tokenBucket, redisStore }, ${JSON.stringify(start)});
`;
  const { stdout } = await run(process.execPath, ['--no-warnings', '--input-type=module', '--eval', source]);
  // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- what `ask` writes
  return JSON.parse(stdout) as FirstAnswers;
}

/** Runs in the other process, to which only its source text goes: it may use its arguments and nothing else. */
async function ask({ createLimiter, tokenBucket, redisStore }: Libraries, start: FirstChecks): Promise<void> {
  const { options, failurePolicy, instances, burst, checks, deadlineMs } = start;
  const store = redisStore(options);
  const limiter = createLimiter({ store, failurePolicy, instances, deadlineMs });
  const api = tokenBucket({ name: 'api', average: 1, burst, period: '1h' });
  const decisions = await Promise.all(
    Array.from({ length: checks }, () => limiter.check(api.for('everybody'))),
  );
  const failures = decisions.flatMap(({ cause }) => (cause instanceof Error ? [cause.message] : []));
  const admitted = decisions.filter(({ allowed }) => allowed).length;
  process.stdout.write(JSON.stringify({ admitted, failures: [...new Set(failures)] }));
  await limiter.close();
}
