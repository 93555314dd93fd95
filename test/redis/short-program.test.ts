// Programs that are over before an outage lasts.
import { execFile } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { expect, test } from 'vitest';

const ROOT = fileURLToPath(new URL('../..', import.meta.url));

/** A program that checks one limit on a Redis that is not there, and what it printed. */
async function program(...lines: readonly string[]): Promise<string> {
  const text = [
    "import { createLimiter, tokenBucket } from 'spillgate';",
    "import { redisStore } from 'spillgate/redis';",
    "const limiter = createLimiter({ store: redisStore({ url: 'redis://127.0.0.1:1' }), deadlineMs: 5000 });",
    ...lines,
    "const { source } = await limiter.check(tokenBucket({ name: 'a', average: 5, period: '1m' }).for('ann'));",
    'console.log(source);',
    'await limiter.close();',
  ].join('\n');
  const args = ['--input-type=module', '--eval', text];
  const { stdout, stderr } = await promisify(execFile)(process.execPath, args, { cwd: ROOT });
  expect(stdout).toBe('fallback\n');
  return stderr;
}

test('a program that ends in an outage that nobody listens for is told of it once', async () => {
  const stderr = await program();

  expect(stderr.match(/SPILLGATE_STORE_UNAVAILABLE/g)).toHaveLength(1);
  expect(stderr).toContain('127.0.0.1:1');
});

test('whoever listens is not told', async () => {
  expect(await program("limiter.on('storeError', () => undefined);")).toBe('');
});
