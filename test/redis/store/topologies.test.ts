import { createLimiter, tokenBucket } from 'spillgate';
import { redisStore } from 'spillgate/redis';
import { describeStore } from 'spillgate/testing';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { openRaw } from './clients.ts';
import { isForLife, keysWithoutExpiry } from './snapshot.ts';
import { TOPOLOGIES, type Setup } from './topologies.ts';

/** Random operations against the pure functions, per topology. */
const OPERATIONS = 2000;
const TIMEOUT_MS = 10_000;

const ten = tokenBucket({ name: 'ten', average: 10, burst: 10, period: '1h' });

let stores = 0;

describe.each(TOPOLOGIES)('on $name', ({ start }) => {
  let setup: Setup;

  beforeAll(async () => {
    setup = await start();
  });

  afterAll(async () => {
    await setup.stop();
  });

  describeStore(
    'Redis',
    async (clock) => {
      stores += 1;
      const store = redisStore({
        ...setup.place,
        clock,
        prefix: `spillgate:run${stores}:`,
        timeoutMs: TIMEOUT_MS,
        connectTimeoutMs: TIMEOUT_MS,
      });
      await store.ready();
      return store;
    },
    {
      slots: true,
      operations: OPERATIONS,
      runner: {
        describe,
        test: (title, body) =>
          // oxlint-disable-next-line vitest/valid-title -- the suite names its own tests
          test(title, async () => {
            await expect(body()).resolves.toBeUndefined();
          }),
      },
    },
  );

  test('every state has an expiry, and every server has states', async () => {
    const store = redisStore({ ...setup.place, timeoutMs: TIMEOUT_MS, connectTimeoutMs: TIMEOUT_MS });
    await store.ready();
    const limiter = createLimiter({ store, failurePolicy: 'failClosed', deadlineMs: TIMEOUT_MS });
    const keys = Array.from({ length: 100 }, (_, at) => `user-${at}`);

    const decisions = await Promise.all(keys.map((key) => limiter.check(ten.for(key))));

    expect(decisions.filter(({ degraded }) => degraded)).toEqual([]);
    // Two of three sentinels are enough to begin; the third may still be connecting.
    await expect.poll(async () => (await limiter.health()).status).toBe('up');
    for (const server of setup.servers.filter(({ url }) => url.startsWith('redis://'))) {
      const raw = openRaw(server);
      if (setup.place.url?.endsWith('/7') === true) await raw.select(7);
      expect(await raw.dbsize()).toBeGreaterThan(0);
      expect((await keysWithoutExpiry(raw)).filter((key) => !isForLife(key))).toEqual([]);
      raw.disconnect();
    }
    await limiter.close();
  });
});
