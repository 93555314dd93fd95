import type { Redis } from 'ioredis';
import * as library from 'spillgate';
import { createLimiter, tokenBucket, type Store } from 'spillgate';
import { redisStore, type CallClient } from 'spillgate/redis';
import { seededRandom, virtualClock } from 'spillgate/testing';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { runReservations, type ProgramResult } from '../../../packages/limiter/test/reservations/program.ts';
import { reservationSubjects } from '../../../packages/limiter/test/reservations/subjects.ts';
import { runs } from '../../runs.ts';
import { startRedis, type RedisServer } from '../servers.ts';
import { openRaw } from './clients.ts';
import { mutant } from './mutants.ts';
import { clientWithScripts, mutateScript, type Mutant } from './mutated-client.ts';
import { DECIDE_SCRIPT, SETTLE_SCRIPT } from './whole-scripts.ts';

const STEPS = 400;
const AT_ONCE = 8;

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

/** Every third answer to a settlement is lost: it ran, and nobody heard of it. */
function losingAnswers(store: Store, seed: number): Store {
  const random = seededRandom(seed);
  const settle: Store['settle'] = async (...settlement) => {
    const settled = await store.settle?.(...settlement);
    if (settled === undefined || random.below(3) === 0) throw new Error('the answer was lost');
    return settled;
  };
  return new Proxy(store, {
    get: (target, name): unknown => (name === 'settle' ? settle : Reflect.get(target, name)),
  });
}

async function runOnRedis(client: CallClient, seed: number, steps = STEPS): Promise<ProgramResult> {
  const clock = virtualClock();
  const prefix = `reservations:${seed}:`;
  const store = redisStore({ client, clock, prefix, denialCache: false, timeoutMs: 10_000 });
  const limiter = createLimiter({ store: losingAnswers(store, seed), deadlineMs: 10_000 });
  const subjects = reservationSubjects(library);
  return runReservations({ limiter, clock, subjects, seed, steps });
}

test(
  '50,000 random decisions on Redis, with answers lost, are those of the exact ledgers',
  { timeout: 300_000 },
  async () => {
    await raw.flushall();
    const wanted = runs(50_000);
    const seen = { decisions: 0, settlements: 0, debts: 0, uncharged: 0, expired: 0 };
    for (let seed = 1; seen.decisions < wanted; seed += AT_ONCE) {
      const seeds = Array.from({ length: AT_ONCE }, (_, at) => seed + at);
      for (const result of await Promise.all(seeds.map((each) => runOnRedis(raw, each)))) {
        seen.decisions += result.decisions;
        seen.settlements += result.settlements;
        seen.debts += result.debts;
        seen.uncharged += result.uncharged;
        seen.expired += result.expired;
      }
    }

    expect(Math.min(seen.debts, seen.uncharged, seen.expired)).toBeGreaterThan(20);
  },
);

const MUTANTS: readonly Mutant[] = [
  mutant(
    'a settlement is applied again',
    "local known = pcall('GET', KEYS[1])",
    "pcall('GET', KEYS[1])",
    'false',
  ),
  mutant('nothing is remembered', "call('SET', KEYS[1]", 'KEYS[1]', "KEYS[1] .. 'x'"),
  mutant(
    'a debt has no bound',
    'if decideAlone(state, limit, cost) then return cost end',
    'decideAlone(state, limit, cost)',
    'true',
  ),
  mutant('a debt is all or nothing', 'local low, high = 0, cost', '0, cost', '0, 1'),
  mutant('the search ends early', 'while high - low > 1 do', '> 1', '> 2'),
  mutant(
    'the search takes what does not fit',
    'then low = middle else high = middle end',
    'low = middle',
    'low = middle + 1',
  ),
  mutant('another cost is charged', 'decideAlone(state, limit, charged)\n', 'charged)', 'change.charge)'),
  mutant('nothing expires', 'if nowUs > limit.expiresAtUs then', 'nowUs > limit.expiresAtUs', 'false'),
  mutant('what expires now has expired', 'nowUs > limit.expiresAtUs', '>', '>='),
  mutant('an expiry is not told', 'then return EXPIRED, false end', 'EXPIRED', '0'),
  mutant('only the latest part is given back', 'for at = 1, #change do', '#change', '1'),
  mutant('the oldest is given back first', 'local part = change[at]', '[at]', '[#change + 1 - at]'),
  mutant('each part starts over', 'refundOf(limit.decide)(left,', '(left,', '(state,'),
  mutant(
    'a queue gives back what others stand behind',
    'if tatUs ~= endUs or fraction ~= endFraction then return state end\n  if nextUs',
    'tatUs ~= endUs or fraction ~= endFraction',
    'false',
  ),
  mutant(
    'what was given back is not kept',
    'keep(KEYS[place + 1], kept[place], lives[place])',
    'kept[place],',
    "call('GET', KEYS[place + 1]),",
  ),
  mutant(
    "a limit's own cost is not charged",
    'limit, limit.cost or cost, nowUs)',
    'limit.cost or cost',
    'cost',
  ),
  mutant('a debt is not told', 'return charged, spent or false', 'charged,', '0,'),
];

describe('the programs notice that', () => {
  test.each(MUTANTS)('$mistake', { timeout: 60_000 }, async (planted) => {
    const script = [SETTLE_SCRIPT, DECIDE_SCRIPT].find((source) => source.includes(planted.original)) ?? '';
    await raw.script('LOAD', mutateScript(planted, script));
    await raw.script('FLUSH');
    const client = clientWithScripts(raw, (source) =>
      source.replace(planted.original, () => planted.mutated),
    );
    const programs = async (): Promise<void> => {
      for (let seed = 1; seed <= 40; seed += 1) {
        await raw.flushall();
        await runOnRedis(client, seed, 150);
      }
    };

    await expect(programs()).rejects.toThrow(/program \d+, step|lost/);
  });
});

test('with leases, only what nothing was charged behind is given back', async () => {
  await raw.flushall();
  const clock = virtualClock();
  const limiter = createLimiter({ store: redisStore({ client: raw, clock }), deadlineMs: 10_000 });
  const api = tokenBucket({ name: 'api', average: 100, burst: 100, period: '1s', leases: true });
  const first = await limiter.reserve(api.for('a'), { cost: 30 });
  const second = await limiter.reserve(api.for('a'), { cost: 30 });

  await first.settle(10);
  expect((await limiter.peek(api.for('a'))).remaining).toBe(40);
  await second.settle(10);
  expect((await limiter.peek(api.for('a'))).remaining).toBe(60);
});

test.each([
  ['no time to remember', ['1', '', ' 1 10 1 1 10', '5', 'charge 1']],
  ['no change', ['1', '1', ' 1 10 1 1 10', '5', '']],
  ['an unknown change', ['1', '1', ' 1 10 1 1 10', '5', 'mint 5']],
  ['a charge of nothing', ['1', '1', ' 1 10 1 1 10', '5', 'charge ']],
  ['a part that is cut off', ['1', '1', ' 1 10 1 1 10', '5', 'refund 1 2']],
  ['a part that is no number', ['1', '1', ' 1 10 1 1 10', '5', 'refund 1 2 nan']],
  ['a cost above 2^53', ['1', '1', ' 1 10 1 1 10', '5', 'charge 9007199254740992']],
  ['an algorithm that does not exist', ['1', '1', ' 30 10 1 1 10', '5', 'charge 1']],
  ['a limit too many', ['1', '1', ' 1 10 1 1 10', '5', 'charge 1', ' 1 10 1 1 10']],
])('%s is refused', async (_what, args) => {
  await raw.del('k', 'm');
  await expect(raw.call('EVAL', SETTLE_SCRIPT, '2', 'm', 'k', ...args)).rejects.toThrow('SPILLGATE');
  expect(await raw.exists('m', 'k')).toBe(0);
});

test('a value of somebody else is neither charged nor replaced, and nothing is remembered', async () => {
  await raw.set('k', 'foreign');

  const done = await raw.call(
    'EVAL',
    SETTLE_SCRIPT,
    '2',
    'm',
    'k',
    '1',
    '1000',
    ' 1 10 1 1 10',
    '5',
    'charge 1',
  );

  expect(done).toEqual([-2]);
  expect(await raw.get('k')).toBe('foreign');
  expect(await raw.exists('m')).toBe(0);
});
