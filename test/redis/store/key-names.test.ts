import type { Redis } from 'ioredis';
import { createLimiter, fixedWindow, slidingWindowLog, tokenBucket } from 'spillgate';
import { redisStore } from 'spillgate/redis';
import { afterAll, afterEach, beforeAll, expect, test } from 'vitest';
import { type RedisServer } from '../servers.ts';
import { startLimited } from './limited-user.ts';
import { openRaw } from './clients.ts';

const HOSTILE_KEYS: readonly string[] = [
  '__proto__',
  'a:b',
  'a/b',
  '{x}',
  '{x}1',
  '}{',
  '{}',
  '*',
  '?',
  '[a-z]',
  '\\',
  '"',
  "'",
  '~',
  ' ',
  '\u0000',
  '\r\nFLUSHALL\r\n',
  '\u001b[2J',
  '\ud800',
  '\udc00',
  '\ufffd',
  '\u00e9',
  'e\u0301',
  '2001:db8::1',
  'bearer-secret-token',
  '2{AAAAAAAAAAAAAAAAAAAAAA}spoofed/1',
  'spillgate:2{AAAAAAAAAAAAAAAAAAAAAA}hostile/1',
  `${'x'.repeat(200)}1`,
  `${'x'.repeat(200)}2`,
  'y'.repeat(2 ** 20),
];
/** Prefix, format version, a hash tag of 22 characters, and the policy's own part. */
const NAME = /^spillgate:2\{[A-Za-z0-9_-]{22}\}[A-Za-z0-9_.-]{1,64}\/\d(?:\/\d+){0,2}$/;
const LONGEST_NAME = 200;

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

async function storedNames(): Promise<readonly string[]> {
  // Byte for byte: what is not plain ASCII would hide behind a replacement character otherwise.
  return (await raw.keysBuffer('*')).map((name) => name.toString('latin1'));
}

test('names in Redis show nothing of a key: no byte, no hash tag, no length', async () => {
  const limiter = createLimiter({
    store: redisStore({ client: raw, timeoutMs: 10_000 }),
    deadlineMs: 10_000,
  });
  const policy = tokenBucket({ name: 'hostile', average: 1, burst: 1, period: '1h' });

  const decisions = await Promise.all(HOSTILE_KEYS.map((key) => limiter.check(policy.for(key))));

  const names = await storedNames();
  expect(decisions.filter(({ allowed, degraded }) => !allowed || degraded)).toEqual([]);
  expect(new Set(names).size).toBe(HOSTILE_KEYS.length);
  expect(names.filter((name) => !NAME.test(name))).toEqual([]);
  expect(new Set(names.map((name) => name.length)).size).toBe(1);
});

test('names are bounded, whatever the policy is called and counts', async () => {
  const limiter = createLimiter({
    store: redisStore({ client: raw, timeoutMs: 10_000 }),
    deadlineMs: 10_000,
  });
  const name = 'n'.repeat(64);
  const offset = '3649d';

  await limiter.check([
    fixedWindow({ name, quota: 1, window: '3650d', offset }).for('y'.repeat(2 ** 20)),
    slidingWindowLog({ name, quota: 1, window: '3650d' }).for('k'),
  ]);

  const names = await storedNames();
  expect(names).toHaveLength(2);
  expect(names.filter((stored) => !NAME.test(stored) || stored.length > LONGEST_NAME)).toEqual([]);
});

test('limits of one key share a hash tag, limits of different keys do not', async () => {
  const limiter = createLimiter({
    store: redisStore({ client: raw, timeoutMs: 10_000 }),
    deadlineMs: 10_000,
  });
  const first = tokenBucket({ name: 'first', average: 1, period: '1h' });
  const second = tokenBucket({ name: 'second', average: 1, period: '1h' });

  await limiter.check([first.for('ann'), second.for('ann'), first.for('{ann}'), second.for('bob')]);

  const tags = (await storedNames()).map((name) => /\{(.+)\}/.exec(name)?.[1]);
  expect(tags).toHaveLength(4);
  expect(new Set(tags).size).toBe(3);
});
