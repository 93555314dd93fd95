import type { Redis } from 'ioredis';
import { createLimiter, tokenBucket } from 'spillgate';
import { redisStore } from 'spillgate/redis';
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest';
import { type RedisServer } from '../servers.ts';
import { startLimited } from './limited-user.ts';
import { CLIENT_PACKAGES, openRaw, type OpenClient } from './clients.ts';
import { runDifferential } from './differential.ts';
import { keysWithoutExpiry } from './snapshot.ts';

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

test('a bucket takes at most 150 bytes of Redis', async () => {
  const limiter = createLimiter({
    store: redisStore({ client: raw, timeoutMs: 10_000 }),
    deadlineMs: 10_000,
  });
  const bucket = tokenBucket({ name: 'api', average: 3, burst: 100, period: '1h' });
  await limiter.check(bucket.for('somebody@example.org'));

  const [key = ''] = await raw.keys('*');

  expect(Number(await raw.call('MEMORY', 'USAGE', key))).toBeLessThanOrEqual(150);
  await limiter.close();
});

describe.each(CLIENT_PACKAGES)('through $name', ({ name, open }) => {
  let opened: OpenClient;

  beforeAll(async () => {
    opened = await open(server);
  });

  afterEach(async () => {
    await raw.flushall();
  });

  afterAll(() => {
    opened.close();
  });

  test('answers, bytes and expiry are those of the pure functions while numbers change', async () => {
    const result = await runDifferential({
      client: opened.client,
      raw,
      prefix: 'spillgate:injected:',
      seed: name.length,
      operations: 3000,
      time: 'injected',
    });

    expect(result.compared).toBe(result.admitted + result.denied);
    expect(Math.min(result.admitted, result.denied)).toBeGreaterThan(500);
    expect(await keysWithoutExpiry(raw)).toEqual([]);
  });

  test("by the server's time every state expires when it equals none, rounded up to a millisecond", async () => {
    const result = await runDifferential({
      client: opened.client,
      raw,
      prefix: 'spillgate:server:',
      seed: name.length,
      operations: 2000,
      time: 'server',
    });

    expect(result.admitted).toBeGreaterThan(500);
    expect(result.compared).toBeGreaterThan(result.admitted * 0.8);
    expect(await keysWithoutExpiry(raw)).toEqual([]);
  });
});
