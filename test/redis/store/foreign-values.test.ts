import { keyName } from '#limiter/stores/redis/protocol.js';
import { createLimiter, slidingWindowLog, tokenBucket } from 'spillgate';
import { redisStore } from 'spillgate/redis';
import { afterAll, beforeAll, expect, test } from 'vitest';
import type { Redis } from 'ioredis';
import { type RedisServer } from '../servers.ts';
import { startLimited } from './limited-user.ts';
import { openRaw } from './clients.ts';
import { packState } from './packed-state.ts';
import { DECIDE_SCRIPT } from './whole-scripts.ts';

let server: RedisServer;
let raw: Redis;
beforeAll(async () => {
  server = await startLimited();
  raw = openRaw(server);
});
afterAll(async () => {
  raw.disconnect();
  await server.stop();
});
const api = tokenBucket({ name: 'api', average: 10, period: '1h' });
const log = slidingWindowLog({ name: 'log', quota: 10, window: '1h' });

test('a foreign value of the right length degrades that decision and no other in its batch', async () => {
  const limiter = createLimiter({ store: redisStore({ client: raw }), failurePolicy: 'failClosed' });
  await limiter.check(api.for('warm-up'));
  await raw.set(keyName('spillgate:', log.for('bad')), 'x'.repeat(40));
  const [first, last] = await Promise.all([
    limiter.check(api.for('ann')),
    limiter.check(api.for('eve')),
    limiter.check(log.for('bad')),
  ]);
  expect([first.degraded, last.degraded]).toEqual([false, false]);
});

test('nor does it open the breaker for everybody', async () => {
  const limiter = createLimiter({ store: redisStore({ client: raw }), failurePolicy: 'failClosed' });
  await raw.set(keyName('spillgate:', log.for('bad')), 'x'.repeat(40));
  for (let call = 0; call < 6; call += 1) await limiter.check(log.for('bad'));
  expect((await limiter.check(api.for('bob'))).degraded).toBe(false);
});

test('a carried state without debt is not written with PX 0', async () => {
  // As by the server's clock, which gives no grace, at the very microsecond at which the old debt ends.
  const script = DECIDE_SCRIPT.replace('FOREIGN_CLOCK_GRACE_MS = 3600000', 'FOREIGN_CLOCK_GRACE_MS = 0');
  const nowUs = 1_767_268_800_000_000;
  await raw.set(
    'k',
    packState('tokenBucket', {
      tatUs: nowUs,
      fraction: 0,
      tokenUnits: 100_000,
      drainUnits: 1,
      capacityUnits: 1_000_000,
    }),
  );
  const call = raw.call('EVAL', script, '1', 'k', String(nowUs), 'check 5 1 4 1000000 1 4000000');
  await expect(call).resolves.toEqual([nowUs, 0, 5, nowUs, 0, 100_000, 1, 1_000_000]);
});

test('an unknown verb is refused', async () => {
  const args = ['1767268800000000', 'chekc 1 1 10 1000000 1 10000000'];
  await expect(raw.call('EVAL', DECIDE_SCRIPT, '1', 'v', ...args)).rejects.toThrow('SPILLGATE');
});
