// Mistakes in the options of joinFleet(): said before anything is opened. What it does is tested on Redis, in
// test/redis/store/joined-fleet.test.ts.
import { expect, test } from 'vitest';
import { joinFleet } from '../../src/fleet/join-fleet.ts';
import { fixedWindow } from '../../src/policy.ts';

const api = fixedWindow({ name: 'api', quota: 10, window: '1h' });
const redis = { url: 'redis://127.0.0.1:1' };

test.each([
  [{ redis, policies: [] }, /policies has 0 policies; expected a list of 1 to 200/],
  [{ redis }, /policies has undefined; expected a list/],
  [{ redis, policies: Array.from({ length: 201 }, () => api) }, /policies has 201 policies/],
  [{ redis, policies: [api, api.with({ quota: 5 })] }, /policies has "api" twice/],
  [{ redis, policies: [api], name: '' }, /name is ""; expected a text of 1 to 64/],
  [{ redis, policies: [api], name: 'x'.repeat(65) }, /expected a text of 1 to 64 characters/],
  [{ redis, policies: [api], limiter: {} }, /limiter is .*; expected a limiter of createLimiter/],
  [{ redis, policies: [api], configured: 5 }, /configured is 5; expected a function/],
  [{ redis, policies: [api], onWarning: 'log' }, /onWarning is "log"; expected a function/],
  [{ redis, policies: [api], policy: api }, /do not include "policy"/],
  [{ redis: {}, policies: [api] }, /url, client, sentinel/],
])('%#: a mistake is refused', async (options, message) => {
  await expect(joinFleet(options as unknown as Parameters<typeof joinFleet>[0])).rejects.toMatchObject({
    code: 'INVALID_OPTION',
    message: expect.stringMatching(message),
  });
});
