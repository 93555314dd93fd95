import type { Redis } from 'ioredis';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { type RedisServer } from '../servers.ts';
import { startLimited } from './limited-user.ts';
import { openRaw } from './clients.ts';
import { MUTANTS } from './mutants.ts';
import { mutateScript } from './mutated-client.ts';
import { findFault } from './script-checks.ts';

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

test('the checks find no fault in the script itself', { timeout: 15_000 }, async () => {
  // A comment more gives it another name: it goes the way that mutants go.
  expect(await findFault((source) => `${source}-- the same\n`, raw)).toBeUndefined();
});

describe('a check notices that', () => {
  test.each(MUTANTS)('$mistake', { timeout: 15_000 }, async (mutant) => {
    const script = mutateScript(mutant);
    // A script that does not even compile would prove nothing.
    await raw.script('LOAD', script);

    const change = (source: string): string => source.replace(mutant.original, () => mutant.mutated);
    expect(await findFault(change, raw)).toBeDefined();
  });
});
