import type { Redis } from 'ioredis';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { type RedisServer } from '../servers.ts';
import { startLimited } from './limited-user.ts';
import { CASES, expectedReplay, replay } from './case-replay.ts';
import { openRaw } from './clients.ts';

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

describe('the Lua twins', () => {
  test.each(CASES)('$algorithm: $case.name', async (moment) => {
    const replayed = await replay(moment, raw, raw);

    expect(replayed).toEqual(expectedReplay(moment));
  });
});
