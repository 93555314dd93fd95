// A block lives beside the state of its limit, wherever that is.
import { createLimiter, fixedWindow } from 'spillgate';
import { redisStore } from 'spillgate/redis';
import { describe, expect, test } from 'vitest';
import { TOPOLOGIES } from './topologies.ts';

const NAMES = [
  'three shards',
  'sentinels',
  'a master among its replicas',
  'a cluster of three, opened by ioredis',
  'a cluster of six, opened by redis',
];
const TIMEOUT_MS = 10_000;
const login = fixedWindow({
  name: 'login',
  quota: 1,
  window: '1d',
  block: { after: 3, within: '1h', for: '15m' },
});
const tenant = fixedWindow({ name: 'tenant', quota: 1000, window: '1d' });

describe.each(TOPOLOGIES.filter(({ name }) => NAMES.includes(name)))('$name', ({ start }) => {
  test('the third denial begins one block, which forget ends', { timeout: 60_000 }, async () => {
    const { place, stop } = await start();
    const store = redisStore({ ...place, timeoutMs: TIMEOUT_MS, connectTimeoutMs: TIMEOUT_MS });
    const limiter = createLimiter({ store, deadlineMs: TIMEOUT_MS, failurePolicy: 'failClosed' });

    // Of so many keys some live beside their tenant and some do not.
    for (let user = 0; user < 8; user += 1) {
      const limits = [login.for(`user ${user}`), tenant.for('acme')];
      await limiter.check(limits);
      const denied = [await limiter.check(limits), await limiter.check(limits), await limiter.check(limits)];
      expect(denied.map(({ penalty }) => penalty?.began)).toEqual([undefined, undefined, true]);
      expect((await limiter.peek(login.for(`user ${user}`))).penalty?.endsInMs).toBeGreaterThan(890_000);
    }
    expect((await limiter.peek(tenant.for('acme'))).remaining).toBe(992);
    await limiter.forget(login.for('user 0'));
    expect((await limiter.check(login.for('user 0'))).allowed).toBe(true);
    expect((await limiter.check(login.for('user 1'))).penalty?.began).toBe(false);

    await limiter.close();
    await stop();
  });
});
