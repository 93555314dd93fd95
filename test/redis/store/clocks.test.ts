import { keyName } from '#limiter/stores/redis/protocol.js';
import type { Redis } from 'ioredis';
import {
  fixedWindow,
  leakyBucket,
  slidingWindowCounter,
  slidingWindowLog,
  tokenBucket,
  type Policy,
  type Store,
} from 'spillgate';
import { redisStore } from 'spillgate/redis';
import { virtualClock } from 'spillgate/testing';
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest';
import { type RedisServer } from '../servers.ts';
import { startLimited } from './limited-user.ts';
import { openRaw } from './clients.ts';
import { takeSnapshot } from './snapshot.ts';

const TIMEOUT_MS = 10_000;
const TURNS = 2000;
const SKEW_US = 100_000;
const TURN_US = 3000;

/** Ten at once, and ten per second in the long run. */
const TENS: readonly Policy[] = [
  tokenBucket({ name: 'bucket', average: 10, burst: 10, period: '1s' }),
  leakyBucket({ name: 'queue', average: 10, period: '1s', maxDelay: 900 }),
  fixedWindow({ name: 'fixed', quota: 10, window: '1s' }),
  slidingWindowLog({ name: 'log', quota: 10, window: '1s' }),
  slidingWindowCounter({ name: 'counter', quota: 10, window: '1s' }),
];

let server: RedisServer;
let raw: Redis;

beforeAll(async () => {
  server = await startLimited();
  raw = openRaw(server);
});

afterEach(async () => {
  await raw.flushall();
});

afterAll(async () => {
  raw.disconnect();
  await server.stop();
});

function storeAt(clock?: () => number): Store {
  return redisStore({ client: raw, timeoutMs: TIMEOUT_MS, ...(clock === undefined ? {} : { clock }) });
}

async function isAllowed(store: Store, policy: Policy): Promise<boolean> {
  const [verdict] = await store.check([policy.for('k')], 1);
  return verdict?.allowed === true;
}

describe.each(TENS)('$name', (policy) => {
  test('two processes whose clocks are 100 ms apart admit what one would', async () => {
    const clock = virtualClock();
    const startUs = clock();
    const ahead = storeAt(() => clock() + SKEW_US);
    const behind = storeAt(clock);
    let admitted = 0;

    for (let turn = 0; turn < TURNS; turn += 1) {
      if (await isAllowed(turn % 2 === 0 ? ahead : behind, policy)) admitted += 1;
      clock.set(clock() + TURN_US);
    }

    const elapsedUs = clock() - startUs;
    expect(admitted).toBeLessThanOrEqual(10 + (10 * elapsedUs) / 1_000_000);
    expect(admitted).toBeGreaterThan(5 * (elapsedUs / 1_000_000));
  });

  test('a process 3 s behind neither gets more nor takes from the others', async () => {
    const clock = virtualClock();
    const inTime = storeAt(clock);
    const late = storeAt(() => clock() - 3_000_000);
    for (let request = 0; request < 10; request += 1) await isAllowed(inTime, policy);
    const [before] = await inTime.peek([policy.for('k')], 1);

    for (let request = 0; request < 200; request += 1) expect(await isAllowed(late, policy)).toBe(false);

    expect(before?.allowed).toBe(false);
    expect(await inTime.peek([policy.for('k')], 1)).toEqual([before]);
    clock.set(clock() + (before?.retryAfterUs ?? 0));
    expect(await isAllowed(inTime, policy)).toBe(true);
  });

  test("polling while denied changes neither the state nor its expiry, by the server's clock", async () => {
    // Slow enough that nothing comes back while the test runs.
    const slow =
      policy.algorithm === 'leakyBucket'
        ? { average: 1, period: '1h', maxDelay: '1h' }
        : policy.algorithm === 'tokenBucket'
          ? { average: 10, burst: 10, period: '1h' }
          : { quota: 10, window: '1h' };
    const hourly = policy.with(slow);
    const store = storeAt();
    const key = keyName('spillgate:', hourly.for('k'));
    while (await isAllowed(store, hourly));
    const before = await takeSnapshot(raw, [key]);

    for (let request = 0; request < 300; request += 1) expect(await isAllowed(store, hourly)).toBe(false);

    expect((await takeSnapshot(raw, [key])).values).toEqual(before.values);
  });
});
