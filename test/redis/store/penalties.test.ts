import {
  concurrency,
  createLimiter,
  fixedWindow,
  memoryStore,
  type Limiter,
  type StoreVerdict,
} from 'spillgate';
import { redisStore, type CallClient } from 'spillgate/redis';
import { runPenaltyProgram, seededRandom, virtualClock } from 'spillgate/testing';
import type { Redis } from 'ioredis';
import { afterAll, beforeAll, beforeEach, describe, expect, onTestFinished, test } from 'vitest';
import { runs } from '../../runs.ts';
import type { RedisServer } from '../servers.ts';
import { openRaw } from './clients.ts';
import { limitedUrl, startLimited } from './limited-user.ts';
import { clientWithScripts, mutateScript, type Mutant } from './mutated-client.ts';
import { PENALTY_SCRIPT } from './whole-scripts.ts';

const TIMEOUT_MS = 10_000;
const login = fixedWindow({
  name: 'login',
  quota: 1,
  window: '1d',
  block: { after: 3, within: '1h', for: '15m' },
});

let server: RedisServer;
let raw: Redis;

beforeAll(async () => {
  server = await startLimited();
  raw = openRaw(server);
});

beforeEach(async () => {
  await raw.flushall();
});

afterAll(async () => {
  raw.disconnect();
  await server.stop();
});

function openLimiter(options: Partial<Parameters<typeof redisStore>[0]> = {}): Limiter {
  const store = redisStore({ url: limitedUrl(server), timeoutMs: TIMEOUT_MS, ...options });
  const limiter = createLimiter({ store, deadlineMs: TIMEOUT_MS, failurePolicy: 'failClosed' });
  onTestFinished(() => limiter.close());
  return limiter;
}

test.each([1, 2])(
  'blocks decide random requests like the lists of all denials and blocks (seed %i)',
  { timeout: 120_000 },
  async (seed) => {
    const result = await runPenaltyProgram({
      seed,
      operations: runs(25_000),
      createStore: (clock) => redisStore({ client: raw, clock, timeoutMs: TIMEOUT_MS }),
    });

    expect(result.penalties).toBeGreaterThan(20);
    expect(result.blocked).toBeGreaterThan(50);
  },
);

test('all processes count denials together, and know the block', async () => {
  const limiters = [openLimiter(), openLimiter(), openLimiter()];
  const [one = openLimiter(), two = one, three = one] = limiters;
  const ann = login.for('ann');
  await one.check(ann);

  const denied = [await one.check(ann), await two.check(ann), await three.check(ann)];

  expect(denied.map(({ penalty }) => penalty?.began)).toEqual([undefined, undefined, true]);
  for (const limiter of limiters)
    expect((await limiter.check(ann)).penalty?.endsInMs).toBeGreaterThan(890_000);
  expect((await two.peek(ann)).penalty).toMatchObject({ reason: 'denied 3 times within 1h', began: false });
  await two.forget(ann);
  expect(await raw.dbsize()).toBe(0);
  expect((await two.check(ann)).allowed).toBe(true);
});

test('denials that count are asked for, and those of a blocked key are repeated without Redis', async () => {
  const limiter = openLimiter();
  const ann = login.for('ann');
  const sources = [];
  for (let request = 0; request < 6; request += 1) sources.push((await limiter.check(ann)).source);

  expect(sources).toEqual(['store', 'store', 'store', 'store', 'denialCache', 'denialCache']);
});

test('of 200 concurrent denials exactly one begins the block', async () => {
  const limiter = openLimiter();
  await limiter.check(login.for('ann'));

  const decisions = await Promise.all(Array.from({ length: 200 }, () => limiter.check(login.for('ann'))));

  expect(decisions.filter(({ penalty }) => penalty?.began === true)).toHaveLength(1);
  expect(decisions.filter(({ penalty }) => penalty === undefined)).toHaveLength(2);
});

test('a policy without block writes nothing when it denies, and one with it a key that expires', async () => {
  const limiter = openLimiter();
  const plain = fixedWindow({ name: 'plain', quota: 1, window: '1d' });
  await limiter.check([plain.for('ann'), login.for('ann')]);
  expect(await raw.dbsize()).toBe(2);

  await limiter.check(plain.for('ann'));
  expect(await raw.dbsize()).toBe(2);
  await limiter.check(login.for('ann'));

  const [key = ''] = (await raw.keys('*')).filter((name) => name.endsWith('login:block'));
  expect(await raw.pttl(key)).toBeGreaterThan(3_590_000);
  expect(await raw.pttl(key)).toBeLessThanOrEqual(3_600_000);
  for (let request = 0; request < 2; request += 1) await limiter.check(login.for('ann'));
  expect(await raw.pttl(key)).toBeLessThanOrEqual(900_000);
});

test('limits on different shards: the denial counts where its limit lives, and nothing stays spent', async () => {
  const other = await startLimited();
  onTestFinished(() => other.stop());
  const limiter = createLimiter({
    store: redisStore({
      shards: [
        { name: 'a', url: limitedUrl(server) },
        { name: 'b', url: limitedUrl(other) },
      ],
      timeoutMs: TIMEOUT_MS,
      denialCache: false,
    }),
    deadlineMs: TIMEOUT_MS,
    failurePolicy: 'failClosed',
  });
  onTestFinished(() => limiter.close());
  const tenant = fixedWindow({ name: 'tenant', quota: 1000, window: '1d' });

  // Of so many keys some live beside their tenant and some do not.
  for (const key of Array.from({ length: 8 }, (_, at) => `user ${at}`)) {
    const limits = [login.for(key), tenant.for('acme')];
    await limiter.check(limits);
    const denied = [await limiter.check(limits), await limiter.check(limits), await limiter.check(limits)];
    expect(denied.map(({ penalty }) => penalty?.began)).toEqual([undefined, undefined, true]);
    expect((await limiter.peek(login.for(key))).penalty?.began).toBe(false);
  }
  expect((await limiter.peek(tenant.for('acme'))).remaining).toBe(992);
});

test('a block that holds something else is a fault, and not a decision', async () => {
  const limiter = openLimiter();
  await limiter.check(login.for('ann'));
  await limiter.check(login.for('ann'));
  const [key = ''] = (await raw.keys('*')).filter((name) => name.endsWith('login:block'));
  for (const foreign of ['x'.repeat(7), '', 'x'.repeat(16)]) {
    await raw.set(key, foreign);
    expect((await limiter.check(login.for('ann'))).cause).toMatchObject({ code: 'STATE_INVALID' });
  }
});

test('virtual time: a block ends to the microsecond', async () => {
  const clock = virtualClock();
  const limiter = openLimiter({ clock });
  const short = fixedWindow({
    name: 'short',
    quota: 1,
    window: '1s',
    block: { after: 1, within: '1s', for: '10s' },
  });
  await limiter.check(short.for('ann'));
  const { retryAfterMs } = await limiter.check(short.for('ann'));

  clock.set(clock() + retryAfterMs * 1000 - 1);
  expect((await limiter.check(short.for('ann'))).allowed).toBe(false);
  clock.set(clock() + 1);
  expect((await limiter.check(short.for('ann'))).allowed).toBe(true);
});

test('a slot that has ended is not held: its id is blocked like any other', async () => {
  const clock = virtualClock();
  const limiter = openLimiter({ clock });
  const block = { after: 3, within: '1m', for: '15m' } as const;
  const inFlight = concurrency({ name: 'in-flight', limit: 1, hold: '5m', block });
  await limiter.acquire(inFlight.for('ann'), { id: 'one' });
  for (let attempt = 0; attempt < 3; attempt += 1) await limiter.acquire(inFlight.for('ann'));

  const renewed = await limiter.acquire(inFlight.for('ann'), { id: 'one' });
  clock.advance('6m');
  const ended = await limiter.acquire(inFlight.for('ann'), { id: 'one' });

  expect(renewed.allowed).toBe(true);
  expect(ended.decision).toMatchObject({ allowed: false, penalty: { endsInMs: 540_000, began: false } });
});

/** One-token mistakes in what decides about blocks. */
const MUTANTS: readonly Mutant[] = [
  mutant('a block ends a microsecond early', 'if leftUs <= 0 then return 0 end', '<= 0', '<= 1'),
  mutant('a block is never cut', 'if leftUs - limit.forUs > max(limit.forUs', '>', '< -'),
  mutant('a tolerated step cuts a block', 'limit.forUs > max(limit.forUs, TOLERATED_STEP_US)', '>', '>='),
  mutant('a denial counts a microsecond longer', '<= nowUs - limit.withinUs', '<=', '<'),
  mutant('denials count for ever', '<= nowUs - limit.withinUs do', 'nowUs - limit.withinUs', '0'),
  mutant('a block begins a denial late', 'if live + 1 >= limit.after', '>=', '>'),
  mutant('a block begins a denial early', 'if live + 1 >= limit.after', ' + 1', ' + 2'),
  mutant(
    'a block lasts as long as denials count',
    "pack('<d', nowUs + limit.forUs), limit",
    'forUs',
    'withinUs',
  ),
  mutant(
    'a block is kept as long as a denial',
    'limit.forUs), limit.forUs, true',
    'forUs, true',
    'withinUs, true',
  ),
  mutant('old denials are kept', 'kept = state:sub(first * 8 + 9)', 'first', '0'),
  mutant('denials of the future are never forgiven', 'if newestUs - nowUs > max(limit.withinUs', '>', '< -'),
  mutant(
    'a step back puts denials out of order',
    'stampUs = max(newestUs, nowUs)',
    'max(newestUs, nowUs)',
    'nowUs',
  ),
  mutant('a block denies nothing', 'allowed = false\n        if unpack', 'false', 'allowed'),
  mutant('a slot that is held is not renewed', 'if known and not held', ' and not held', ''),
  mutant(
    'a denial during a block counts',
    'elseif not fits and not decision.peek',
    'elseif',
    'end\n      if',
  ),
  mutant('a peek counts', 'not fits and not decision.peek', ' and not decision.peek', ' and true'),
  mutant('an admission counts', 'elseif not fits and not decision', 'not fits', 'true'),
  mutant('the denial that begins a block does not say so', 'leftUs, began = limit.forUs, 1', '1', '0'),
  mutant(
    'a block is not kept',
    'if limit.after and limit.penalty and cost > 0',
    'limit.penalty and',
    'nil and',
  ),
  mutant('all limits share one block', 'limit.penaltyAt = decision.keys', 'decision.keys', '#decision + 1'),
];

function mutant(mistake: string, original: string, token: string, wrong: string): Mutant {
  return { mistake, original, mutated: original.replace(token, () => wrong) };
}

describe('a check notices that', () => {
  test.each(MUTANTS)('$mistake', { timeout: 60_000 }, async (planted) => {
    // A script that does not even compile would prove nothing.
    await raw.script('LOAD', mutateScript(planted, PENALTY_SCRIPT));
    await raw.script('FLUSH');
    const change = (source: string): string => source.replace(planted.original, () => planted.mutated);

    await expect(checkBlocks(clientWithScripts(raw, change))).rejects.toThrow(/\w/);
  });

  test('nothing is wrong with the script itself', { timeout: 60_000 }, async () => {
    await raw.script('FLUSH');

    await expect(checkBlocks(clientWithScripts(raw, (source) => `${source}-- the same\n`))).resolves.toBe(
      undefined,
    );
  });
});

/** Throws when the script is wrong. */
async function checkBlocks(client: CallClient): Promise<void> {
  await runPenaltyProgram({
    seed: 1,
    operations: 3000,
    createStore: (clock) => redisStore({ client, clock, timeoutMs: TIMEOUT_MS, denialCache: false }),
  });
  await checkSteps(client);
  await checkLives(client);
}

/** Clocks that step back, and how long blocks and denials are kept. */
async function checkSteps(client: CallClient): Promise<void> {
  const clock = virtualClock();
  const store = redisStore({ client, clock, timeoutMs: TIMEOUT_MS, denialCache: false });
  const reference = memoryStore({ clock });
  const policy = fixedWindow({
    name: 'steps',
    quota: 1,
    window: '1s',
    block: { after: 3, within: '20s', for: '10s' },
  });
  const slots = concurrency({
    name: 'slots',
    limit: 1,
    hold: '1h',
    block: { after: 1, within: '1s', for: '1h' },
  });
  const random = seededRandom(7);
  const steps = [0, 0, 1, 100_000, 9_999_999, 10_000_000, 20_000_000, -4_000_000, -10_000_000, -10_000_001];
  steps.push(-20_000_000, -20_000_001, -40_000_000, 15_000_000);
  for (let step = 0; step < 1500; step += 1) {
    clock.set(clock() + random.pick(steps));
    const limits = [policy.for(random.pick(['ann', 'bob']))];
    const verb = random.below(5) === 0 ? 'peek' : 'check';
    const cost = random.pick([1, 1, 2, 0]);
    const [actual, expected] = [await store[verb](limits, cost), await reference[verb](limits, cost)];
    if (JSON.stringify(actual.map(seenOf)) !== JSON.stringify(expected.map(seenOf)))
      throw new Error(`step ${step}: ${JSON.stringify({ actual, expected })}`);
  }
  const limiter = createLimiter({ store, deadlineMs: TIMEOUT_MS, failurePolicy: 'failClosed' });
  await limiter.acquire(slots.for('ann'), { id: 'one' });
  const denied = await limiter.acquire(slots.for('ann'), { id: 'two' });
  const renewed = await limiter.acquire(slots.for('ann'), { id: 'one' });
  if (denied.decision.penalty === undefined || !renewed.allowed)
    throw new Error('a held slot was not renewed');
  await limiter.close();
}

/** How long denials and blocks are kept, and how many. */
async function checkLives(client: CallClient): Promise<void> {
  const clock = virtualClock();
  const store = redisStore({ client, clock, timeoutMs: TIMEOUT_MS, denialCache: false });
  const policy = fixedWindow({
    name: 'lives',
    quota: 1,
    window: '1s',
    block: { after: 3, within: '120s', for: '10s' },
  });
  const deny = async (): Promise<string> => {
    await store.check([policy.for('ann')], 2);
    const [key = ''] = await raw.keys('*lives:block');
    return key;
  };
  for (let denial = 0; denial < 5; denial += 1) {
    clock.set(clock() + 120_000_000);
    const key = await deny();
    if ((await raw.strlen(key)) !== 16) throw new Error('a denial that counts no more is kept');
  }
  // One counts still, and one no more.
  clock.set(clock() + 100_000_000);
  await deny();
  clock.set(clock() + 30_000_000);
  if ((await raw.strlen(await deny())) !== 24) throw new Error('more denials are kept than count');
  await store.forget([policy.for('ann')]);
  await deny();
  // An hour longer for a clock of our own. The bounds leave a busy machine a minute.
  clock.set(clock() - 60_000_000);
  if ((await raw.pttl(await deny())) < 3_600_000 + 121_000) throw new Error('a denial is forgotten early');
  if ((await raw.pttl(await deny())) > 3_600_000 + 10_000) throw new Error('a block is kept too long');
  await store.close();
}

function seenOf({ allowed, retryAfterUs, penaltyLeftUs = 0, penaltyBegan = false }: StoreVerdict): object {
  return { allowed, retryAfterUs, penaltyLeftUs, penaltyBegan };
}
