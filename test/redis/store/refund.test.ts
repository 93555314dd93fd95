import type { Redis } from 'ioredis';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { startRedis, type RedisServer } from '../servers.ts';
import { openRaw } from './clients.ts';
import { mutant } from './mutants.ts';
import { packState } from './packed-state.ts';
import { mutateScript } from './mutated-client.ts';
import { runRefundPrograms } from './refund-programs.ts';
import { REFUND_SCRIPT } from './whole-scripts.ts';

const PROGRAMS = 450;

let server: RedisServer;
let raw: Redis;

beforeAll(async () => {
  server = await startRedis();
  raw = openRaw(server);
});

afterAll(async () => {
  raw.disconnect();
  await server.stop();
});

test('a refund never leaves more than if the reservation had not happened, and no less than its age explains', async () => {
  await expect(runRefundPrograms(raw, REFUND_SCRIPT, PROGRAMS)).resolves.toBeUndefined();
});

const MUTANTS = [
  mutant('the full amount is given back', '(nowUs - reservedAtUs) * drainUnits', 'drainUnits', '0'),
  mutant('the credit is rounded up', 'creditUs = floor(creditUnits / drainUnits)', 'floor', 'ceil'),
  mutant(
    'the fraction is not given back',
    'creditUnits - creditUs * drainUnits)',
    'creditUnits -',
    '0 * creditUnits -',
  ),
  mutant('nothing is borrowed for the fraction', 'creditUs, leftFraction = creditUs + 1', ' + 1', ''),
  mutant('a credit is a debt', 'tatUs - creditUs, leftFraction', '-', '+'),
  mutant('a microsecond is left out', 'if creditUnits <= 0 then', '<= 0', '<= drainUnits'),
  mutant(
    'another window pays',
    'startUs ~= absentAtUs - numbers[2] or count < cost',
    'startUs ~= absentAtUs - numbers[2]',
    'false',
  ),
  mutant('a window gives nothing back', "pack('<dd', startUs, count - cost)", ' - cost', ''),
  mutant('a period gives nothing back', "pack('<dd', startUs, used - cost)", ' - cost', ''),
  mutant(
    'a period that is over gets a refund',
    'endUs ~= absentAtUs or used',
    'endUs ~= absentAtUs',
    'false',
  ),
  mutant('a log gives nothing back', 'logTotalAt(state, at) - cost)', ' - cost', ''),
  mutant('an empty record stays', 'own == cost and place + 1', '+ 1', '+ 0'),
  mutant('a log looks for another stamp', '== absentAtUs - numbers[2] then place', '- numbers[2]', ''),
  mutant(
    'later records keep their totals',
    'for at = own == cost and place + 1 or place, records - 1 do\n    parts[#parts + 1]',
    'records - 1',
    'place',
  ),
  mutant('the current count is kept', "pack('<ddd', index, current - cost, previous)", ' - cost', ''),
  mutant('the previous count is kept', "pack('<ddd', index, current, previous - cost)", ' - cost', ''),
  mutant('a count two windows old is given back', 'index == reservedIndex + 1', '==', '>='),
  mutant('the index is off by one', 'absentAtUs / numbers[2] - 2', '2', '1'),
  mutant('a slot is not given back', 'if isTaken and state:sub', 'isTaken', 'false'),
  mutant('another slot is given back', 'slotEndAt(state, slot) == absentAtUs', '==', '>='),
  mutant('a larger slot is given back', 'slotUnitsAt(state, slot) == cost', '==', '>='),
  mutant('all slots are given back', 'if count == 1 then return nil end', '==', '>='),
  mutant('a refund is not kept', 'keep(KEYS[place], refunded, resetAfterUs)', 'refunded', 'state'),
  mutant('a refund tells the old state', 'limit.decide(refunded, limit, 0, nowUs)', 'refunded', 'state'),
];

describe('a check notices that', () => {
  test.each(MUTANTS)('$mistake', async (planted) => {
    const script = mutateScript(planted, REFUND_SCRIPT);
    await raw.script('LOAD', script);

    await expect(runRefundPrograms(raw, script, PROGRAMS)).rejects.toThrow('program');
  });
});

test('a bucket gives nothing back by a clock that has stepped back: it may have been emptied since', async () => {
  const nowUs = 1_767_268_800_000_000;
  const bucket = packState('tokenBucket', {
    tatUs: nowUs + 500_000,
    fraction: 0,
    tokenUnits: 100_000,
    drainUnits: 1,
    capacityUnits: 1_000_000,
  });
  await raw.set('k', bucket);
  const refund = [String(nowUs + 1), '2', ' 1 10 100000 1 1000000', String(nowUs + 200_001)];

  await raw.call('EVAL', REFUND_SCRIPT, '1', 'k', String(nowUs), ...refund);
  expect(await raw.getBuffer('k')).toEqual(bucket);

  await raw.call('EVAL', REFUND_SCRIPT, '1', 'k', String(nowUs + 1), ...refund);
  expect(await raw.getBuffer('k')).not.toEqual(bucket);
});

test.each([
  ['no cost', ['1', '1', '', ' 1 10 1 1 10', '5']],
  ['a negative cost', ['1', '1', '-1', ' 1 10 1 1 10', '5']],
  ['no time of the reservation', ['1', 'x', '1', ' 1 10 1 1 10', '5']],
  ['a moment that is none', ['1', '1', '1', ' 1 10 1 1 10', 'nan']],
  ['an algorithm that does not exist', ['1', '1', '1', ' 30 10 1 1 10', '5']],
  ['a limit that is cut off', ['1', '1', '1', ' 1 10 1 1 10']],
  ['a limit with something behind it', ['1', '1', '1', ' 1 10 1 1 10 ', '5']],
  ['a number that is none', ['1', '1', '1', ' 1 10 nan 1 10', '5']],
  ['a number above 2^53', ['1', '1', '1', ' 1 10 1 1 9007199254740992', '5']],
])('%s is refused', async (_what, args) => {
  await expect(raw.call('EVAL', REFUND_SCRIPT, '1', 'k', ...args)).rejects.toThrow('SPILLGATE');
});
