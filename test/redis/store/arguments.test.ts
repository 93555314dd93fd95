import type { Redis } from 'ioredis';
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest';
import { startRedis, type RedisServer } from '../servers.ts';
import { openRaw } from './clients.ts';
import { DECIDE_SCRIPT } from './whole-scripts.ts';

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
  expect(await evaluate(['k'], NOON_US, ASKED)).toEqual([Number(NOON_US), 1, 0]);
  expect(await raw.dbsize()).toBe(1);
});

describe.each(BAD_NUMBERS)("'%s'", (bad) => {
  test.each(ACCEPTED.map(({ what }, at) => [what, at] as const))(
    'is refused as %s before anything is written',
    async (_what, at) => {
      const spoilt = question(VALUES.with(at, bad));

      const call = evaluate(['good', 'bad'], NOON_US, ASKED, spoilt, '01');

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
  ['no limit', ['k'], [NOON_US, ASKED, 'check 1', '0']],
  ['more than 32 limits', MANY_KEYS, [NOON_US, `check 1${LIMIT.repeat(33)}`]],
  ['an algorithm that does not exist', ['k'], [NOON_US, 'check 1 30 1 1 1 1']],
  ['fewer keys than limits', [], [NOON_US, ASKED]],
  ['more keys than limits', ['k', 'l', 'm'], [NOON_US, `${ASKED}${LIMIT}`]],
  ['a decision for which there is no key', ['k'], [NOON_US, ASKED, 'peek 1 3 1 1 0 0', '01']],
  ['a key for which there is no decision', ['k', 'l'], [NOON_US, ASKED, 'peek 1 3 1 1 0 0', '0']],
  ['a letter for which there is no text', ['k'], [NOON_US, ASKED, 'peek 1 3 1 1 0 0', '2']],
  ['a limit that is cut off', ['k'], [NOON_US, question(VALUES.slice(0, -1))]],
  ['a second limit that is cut off', ['k', 'l'], [NOON_US, `${ASKED} 1 10`]],
  ['something before a decision', ['k'], [NOON_US, ` ${ASKED}`]],
  ['something after a decision', ['k'], [NOON_US, `${ASKED} `]],
  ['a decision without its cost', ['k'], [NOON_US, ASKED, 'check', '0']],
  ['an empty decision', ['k'], [NOON_US, ASKED, '', '0']],
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

  expect(answer).toEqual([Number(NOON_US), 1, ...keys.map(() => 0)]);
  expect(await raw.dbsize()).toBe(32);
});

test('the largest accepted numbers are answered', async () => {
  const largest = 'peek 9007199254740991 3 9007199254740991 9007199254740991 0 0';

  const answer = await evaluate(['k'], String(2 ** 52), largest);

  expect(answer).toEqual([2 ** 52, 1, 0]);
});

test('decisions that ask the same of one key follow each other', async () => {
  const answer = await evaluate(['k', 'k'], NOON_US, ASKED);

  // The second one sees what the first has left: a debt of one token, under the same numbers.
  expect(answer).toEqual([Number(NOON_US), 2, 0, 2, Number(NOON_US) + 1_000_000, 0]);
});

test('a decision keeps nothing of the one before that asked the same', async () => {
  // One after the other: admitted, denied by the second limit, and a fault.
  const both = `check 6${LIMIT}${LIMIT}`;
  await raw.rpush('list', 'x');

  const answer = await evaluate(['a', 'b', 'c', 'b', 'd', 'list'], NOON_US, both);

  const admitted = [0, 0];
  const denied = [0, 2, Number(NOON_US) + 6_000_000, 0];
  const fault = [-1];
  expect(answer).toEqual([Number(NOON_US), 1, ...admitted, ...denied, ...fault]);
  expect((await raw.keys('*')).toSorted()).toEqual(['a', 'b', 'list']);
});

test('a letter per decision says which text it asks', async () => {
  const costly = question(VALUES.with(0, '9'));

  const answer = await evaluate(['k', 'k', 'l', 'l'], NOON_US, ASKED, costly, '0110');

  const owed = (tokens: number): readonly number[] => [2, Number(NOON_US) + tokens * 1_000_000, 0];
  expect(answer).toEqual([Number(NOON_US), 4, 0, ...owed(1), 0, ...owed(9)]);
});

test('an answer ends with its last decision, also where that is a fault of which much was told', async () => {
  await raw.set('k', Buffer.from(new Float64Array([Number(NOON_US), 0, 0.5, 1, 1]).buffer));

  expect(await evaluate(['k'], NOON_US, ASKED)).toEqual([Number(NOON_US), 0, -1]);
});
