import { createLimiter, tokenBucket, type Store } from 'spillgate';
import { expect, test } from 'vitest';
import { logLimiter } from '../../src/runtime/configured-limiter.ts';

test('advice about a slow store names the setting of the gateway', async () => {
  const lines: object[] = [];
  const ignore = () => undefined;
  const never = async () => new Promise<never>(ignore);
  const slow: Store = {
    check: never,
    peek: never,
    forget: never,
    health: never,
    close: async () => undefined,
  };
  const limiter = createLimiter({ store: slow, failurePolicy: 'passThrough', deadlineMs: 5 });
  logLimiter(limiter, { debug: ignore, info: ignore, warn: (fields) => lines.push(fields), error: ignore });

  await limiter.check(tokenBucket({ name: 'api', average: 1, period: '1s', burst: 1 }).for('ann'));
  await limiter.close();

  expect(lines).toEqual([
    {
      node: 'store',
      code: 'DEADLINE_EXCEEDED',
      detail: 'The store did not answer within 5 ms: find out why it is slow, or raise rate_limit.deadline.',
      unsaid: 0,
    },
  ]);
});
