import type { Redis } from 'ioredis';
import { readFile } from 'node:fs/promises';
import { redisStore } from 'spillgate/redis';
import { describeStore } from 'spillgate/testing';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { type RedisServer } from '../servers.ts';
import { LIMITED_USER_ACL, startLimited } from './limited-user.ts';
import { CLIENT_PACKAGES, openRaw, type OpenClient } from './clients.ts';
import { isForLife, keysWithoutExpiry } from './snapshot.ts';
import { runs } from '../../runs.ts';

/** Random operations against the pure functions, over all client packages; a million of them on demand. */
const OPERATIONS = Number(process.env['SPILLGATE_OPERATIONS'] ?? runs(50_000));
const TIMEOUT_MS = 10_000;
const TEST_TIMEOUT_MS = Math.max(120_000, OPERATIONS);

let server: RedisServer;
let raw: Redis;
let stores = 0;

beforeAll(async () => {
  server = await startLimited();
  raw = openRaw(server);
});

afterAll(async () => {
  raw.disconnect();
  await server.stop();
});

describe.each(CLIENT_PACKAGES)('through $name', ({ open }) => {
  let opened: OpenClient;

  beforeAll(async () => {
    opened = await open(server);
  });

  afterAll(() => {
    opened.close();
  });

  describeStore(
    'Redis',
    (clock) => {
      // A prefix that no store had before: every store starts empty.
      stores += 1;
      return redisStore({
        client: opened.client,
        clock,
        prefix: `spillgate:run${stores}:`,
        timeoutMs: TIMEOUT_MS,
      });
    },
    {
      slots: true,
      operations: OPERATIONS / CLIENT_PACKAGES.length,
      runner: {
        describe,
        test: (title, body) =>
          // oxlint-disable-next-line vitest/valid-title -- the suite names its own tests
          test.concurrent(title, { timeout: TEST_TIMEOUT_MS }, async () => {
            await expect(body()).resolves.toBeUndefined();
          }),
      },
    },
  );

  test('no state but a quota for life is without an expiry', async () => {
    expect(await raw.dbsize()).toBeGreaterThan(0);
    expect((await keysWithoutExpiry(raw)).filter((key) => !isForLife(key))).toEqual([]);
  });
});

test('the documents name the permissions that all of this runs under', async () => {
  const page = await readFile(new URL('../../../docs/redis.md', import.meta.url), 'utf8');

  expect(page).toContain(`\n${LIMITED_USER_ACL}\n`);
});
