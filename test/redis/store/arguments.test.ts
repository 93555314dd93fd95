import { DECIDE_SCRIPT } from '#limiter/stores/redis/script.generated.js';
import type { Redis } from 'ioredis';
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest';
import { startRedis, type RedisServer } from '../servers.ts';
import { openRaw } from './clients.ts';

/** One decision about one limit that the script accepts, and what each of its arguments means. */
const ACCEPTED = [
  { what: 'the cost', value: '1' },
  { what: 'the algorithm', value: '1' },
  { what: 'the limit', value: '10' },
  { what: 'the units of a token', value: '1000000' },
  { what: 'the units that drain', value: '1' },
  { what: 'the capacity', value: '10000000' },
] as const;
const VALUES: readonly string[] = ACCEPTED.map(({ value }) => value);
const ASKED = question(VALUES);
const LIMIT = ` ${VALUES.slice(1).join(' ')}`;
const MANY_KEYS: readonly string[] = Array.from({ length: 33 }, (_, at) => `k${at}`);
const NOON_US = '1767268800000000';

// Lua's own tonumber() takes all of these but the last two.
const BAD_NUMBERS = ['nan', 'inf', '-inf', '0x10', '1e3', '1.5', '-1', ' 1', '9007199254740992', '', 'x'];

let server: RedisServer;
let raw: Redis;

beforeAll(async () => {
  server = await startRedis();
  raw = openRaw(server);
});

afterEach(async () => {
  await raw.flushall();
});

afterAll(async () => {
  raw.disconnect();
  await server.stop();
});

function question(values: readonly string[]): string {
  return ['check', ...values].join(' ');
}

async function evaluate(keys: readonly string[], ...args: readonly string[]): Promise<unknown> {
  return raw.call('EVAL', DECIDE_SCRIPT, String(keys.length), ...keys, ...args);
}

test('the decision that the other tests spoil is accepted', async () => {
  expect(await evaluate(['k'], NOON_US, ASKED)).toEqual([1, 9, 0, 1_000_000, 0, Number(NOON_US)]);
  expect(await raw.dbsize()).toBe(1);
});

describe.each(BAD_NUMBERS)("'%s'", (bad) => {
  test.each(ACCEPTED.map(({ what }, at) => [what, at] as const))(
    'is refused as %s before anything is written',
    async (_what, at) => {
      const spoilt = question(VALUES.with(at, bad));

      const call = evaluate(['good', 'bad'], NOON_US, ASKED, spoilt);

      await expect(call).rejects.toThrow('SPILLGATE');
      expect(await raw.dbsize()).toBe(0);
    },
  );
});

test.each(BAD_NUMBERS.filter((bad) => bad !== ''))("'%s' is refused as the time", async (bad) => {
  await expect(evaluate(['k'], bad, ASKED)).rejects.toThrow('SPILLGATE');
  expect(await raw.dbsize()).toBe(0);
});

test.each([
  ['a time after the year 2112', ['k'], [String(2 ** 52 + 1), ASKED]],
  ['no time', [], []],
  ['no limit', ['k'], [NOON_US, ASKED, 'check 1']],
  ['more than 32 limits', MANY_KEYS, [NOON_US, `check 1${LIMIT.repeat(33)}`]],
  ['an algorithm that does not exist', ['k'], [NOON_US, 'check 1 6 1 1 1 1']],
  ['fewer keys than limits', [], [NOON_US, ASKED]],
  ['more keys than limits', ['k', 'l'], [NOON_US, ASKED]],
  ['a limit that is cut off', ['k'], [NOON_US, question(VALUES.slice(0, -1))]],
  ['a second limit that is cut off', ['k', 'l'], [NOON_US, `${ASKED} 1 10`]],
  ['something before a decision', ['k'], [NOON_US, ` ${ASKED}`]],
  ['something after a decision', ['k'], [NOON_US, `${ASKED} `]],
  ['a decision without its cost', ['k'], [NOON_US, ASKED, 'check']],
  ['an empty decision', ['k'], [NOON_US, ASKED, '']],
  ['a limit of nothing', ['k'], [NOON_US, 'check 1 3 0 1 0 0']],
  ['a window of no length', ['k'], [NOON_US, 'check 1 3 1 0 0 0']],
  ['a bucket that never drains', ['k'], [NOON_US, 'check 1 1 1 1 0 1']],
] as const)('%s is refused before anything is written', async (_what, keys, args) => {
  await expect(evaluate(keys, ...args)).rejects.toThrow('SPILLGATE');
  expect(await raw.dbsize()).toBe(0);
});

test('32 limits are accepted', async () => {
  const keys = MANY_KEYS.slice(0, 32);

  const answer = await evaluate(keys, NOON_US, `check 1${LIMIT.repeat(32)}`);

  expect(answer).toEqual([...keys.flatMap(() => [1, 9, 0, 1_000_000, 0]), Number(NOON_US)]);
});

test('the largest accepted numbers are answered', async () => {
  const largest = 'peek 9007199254740991 3 9007199254740991 9007199254740991 0 0';

  const answer = await evaluate(['k'], String(2 ** 52), largest);

  expect(answer).toEqual([1, Number.MAX_SAFE_INTEGER, 0, 0, 0, 2 ** 52]);
});

test('decisions that ask the same of one key follow each other', async () => {
  const answer = await evaluate(['k', 'k'], NOON_US, ASKED, ASKED);

  expect(answer).toEqual([1, 9, 0, 1_000_000, 0, 1, 8, 0, 2_000_000, 0, Number(NOON_US)]);
});

test('a decision keeps nothing of the one before that asked the same', async () => {
  // One after the other: admitted, denied by the second limit, and a fault.
  const both = `check 6${LIMIT}${LIMIT}`;
  await raw.rpush('list', 'x');

  const answer = await evaluate(['a', 'b', 'c', 'b', 'd', 'list'], NOON_US, both, both, both);

  const admitted = [1, 4, 0, 6_000_000, 0, 1, 4, 0, 6_000_000, 0];
  const denied = [1, 10, 0, 0, 0, 0, 4, 2_000_000, 6_000_000, 0];
  const fault = [-1, 0, 0, 0, 0, -1, 0, 0, 0, 0];
  expect(answer).toEqual([...admitted, ...denied, ...fault, Number(NOON_US)]);
  expect((await raw.keys('*')).toSorted()).toEqual(['a', 'b', 'list']);
});
