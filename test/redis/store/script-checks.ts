import { keyName } from '#limiter/stores/redis/protocol.js';
import type { Redis } from 'ioredis';
import { isDeepStrictEqual } from 'node:util';
import { concurrency, slidingWindowLog, tokenBucket } from 'spillgate';
import { redisStore, type CallClient } from 'spillgate/redis';
import { runRandomProgram, runSlotProgram } from 'spillgate/testing';
import { CASES, expectedReplay, replay } from './case-replay.ts';
import { runDifferential } from './differential.ts';
import { clientWithScripts } from './mutated-client.ts';
import { DECIDE_SCRIPT } from './whole-scripts.ts';

interface Subject {
  /** The script that knows every algorithm. */
  readonly script: string;
  /** Sends the script under test in place of the store's own. */
  readonly client: CallClient;
  readonly raw: Redis;
}

interface ScriptCheck {
  readonly name: string;
  /** Throws when the script is wrong. */
  readonly run: (subject: Subject) => Promise<void>;
}

const TIMEOUT_MS = 10_000;
/** A time of which the server's clock says that it is not over. */
const FUTURE_US = 2 ** 51;

/** What the other files of this folder test, in short: quickest first. */
const CHECKS: readonly ScriptCheck[] = [
  { name: 'the cases', run: checkCases },
  { name: 'the guards', run: checkGuards },
  { name: 'foreign values', run: checkForeignValues },
  { name: 'the lives of states', run: checkLives },
  {
    name: 'the differential run by an injected clock',
    run: async ({ client, raw }) => {
      await runDifferential({
        client,
        raw,
        prefix: 'spillgate:i:',
        seed: 3,
        operations: 1500,
        time: 'injected',
      });
    },
  },
  {
    name: "the differential run by the server's clock",
    run: async ({ client, raw }) => {
      await runDifferential({
        client,
        raw,
        prefix: 'spillgate:s:',
        seed: 3,
        operations: 300,
        time: 'server',
      });
    },
  },
  {
    name: 'the random program',
    run: async ({ client }) => {
      await runRandomProgram({
        seed: 1,
        operations: 2000,
        createStore: (clock) => redisStore({ client, clock, timeoutMs: TIMEOUT_MS }),
      });
    },
  },
  {
    name: 'the random program of slots',
    run: async ({ client }) => {
      await runSlotProgram({
        seed: 1,
        operations: 1000,
        createStore: (clock) => redisStore({ client, clock, timeoutMs: TIMEOUT_MS }),
      });
    },
  },
];

/** The name of the first check that finds the changed scripts wrong; undefined when none does. */
export async function findFault(change: (source: string) => string, raw: Redis): Promise<string | undefined> {
  // A script that the server knows would not be sent, and so not be changed.
  await raw.script('FLUSH');
  const subject = { script: change(DECIDE_SCRIPT), client: clientWithScripts(raw, change), raw };
  for (const { name, run } of CHECKS) {
    await raw.flushall();
    try {
      await run(subject);
    } catch {
      return name;
    }
  }
  return undefined;
}

async function checkCases({ client, raw }: Subject): Promise<void> {
  for (const moment of CASES) {
    const replayed = await replay(moment, client, raw);
    if (!isDeepStrictEqual(replayed, expectedReplay(moment))) throw new Error(moment.case.name);
  }
}

/** Arguments that no store would send: none may be taken for a decision. */
async function checkGuards({ script, raw }: Subject): Promise<void> {
  const time = '1767268800000000';
  const limit = ' 3 10 1000 0 0';
  const badDecisions = [
    { text: 'check 1 3 10 0 0 0', limits: 1 },
    { text: 'check 1 3 0 1 0 0', limits: 1 },
    { text: 'check 1 1 10 1000 0 0', limits: 1 },
    { text: 'check 1', limits: 0 },
    { text: `chekc 1${limit}`, limits: 1 },
    { text: `check 1${limit.repeat(33)}`, limits: 33 },
    { text: `check 1${limit}x`, limits: 1 },
    { text: `check 1x${limit}`, limits: 1 },
    { text: ` check 1${limit}`, limits: 1 },
    { text: `check 1${limit} 3`, limits: 2 },
    { text: `check 1${limit}${limit}`, limits: 3 },
    { text: `check 1${limit}`, limits: 0 },
    { text: 'check 1 3 10 1000 9007199254740992 0', limits: 1 },
    ...['nan', '0x10', '1.5', '-1', '', '9007199254740992'].map((bad) => ({
      text: `check ${bad}${limit}`,
      limits: 1,
    })),
  ];
  const badTimes = ['nan', '0x10', '1e3', '-1', '4503599627370497'];
  // Which of two texts, where the number of keys or the letter is wrong.
  const badOrders = [
    { order: '01', limits: 1 },
    { order: '01', limits: 3 },
    { order: '2', limits: 1 },
  ];
  const texts = [`check 1${limit}`, `peek 1${limit}`];
  const badCalls = [
    ...badDecisions.map(({ text, limits }) => ({ nowUs: time, asked: [text], limits })),
    ...badTimes.map((nowUs) => ({ nowUs, asked: [`check 1${limit}`], limits: 1 })),
    ...badOrders.map(({ order, limits }) => ({ nowUs: time, asked: [...texts, order], limits })),
  ];
  for (const { nowUs, asked, limits } of badCalls) {
    // As many keys as limits, so that nothing but the argument in question is wrong.
    const keys = Array.from({ length: limits }, (_, at) => `k${at}`);
    const error = await raw.call('EVAL', script, String(keys.length), ...keys, nowUs, ...asked).then(
      () => undefined,
      (reason: unknown) => reason,
    );
    if (!(error instanceof Error && error.message.startsWith('SPILLGATE')) || (await raw.dbsize()) > 0)
      throw new Error(`accepted: ${nowUs} ${asked.join(', ').slice(0, 60)}`);
  }
}

/** Values that no store would leave: none may be taken for a state, nor spoil another decision of the call. */
async function checkForeignValues({ client, raw }: Subject): Promise<void> {
  const store = redisStore({ client, timeoutMs: TIMEOUT_MS });
  const bucket = tokenBucket({ name: 'bucket', average: 1, period: '1h' });
  const log = slidingWindowLog({ name: 'log', quota: 1, window: '1h' });
  const slots = concurrency({ name: 'slots', limit: 1, hold: '1h' });
  const foreign = [
    [bucket.for('text'), async (key: string) => raw.set(key, 'x'.repeat(31))],
    [bucket.for('list'), async (key: string) => raw.rpush(key, 'x')],
    [bucket.for('longer state'), async (key: string) => raw.set(key, Buffer.alloc(48))],
    [bucket.for('half'), async (key: string) => raw.set(key, doubles(FUTURE_US, 0, 0.5, 1, 1))],
    [bucket.for('negative'), async (key: string) => raw.set(key, doubles(FUTURE_US, -1, 1, 1, 1))],
    [bucket.for('huge'), async (key: string) => raw.set(key, doubles(FUTURE_US, 0, 1, 1, 1e300))],
    [log.for('text'), async (key: string) => raw.set(key, 'x'.repeat(31))],
    [log.for('no numbers'), async (key: string) => raw.set(key, doubles(0, 1, NaN))],
    [slots.for('no numbers'), async (key: string) => raw.set(key, doubles(NaN, 1, 1, 1, 1, 1))],
    [log.for('list'), async (key: string) => raw.rpush(key, 'x')],
    [log.for('log without records'), async (key: string) => raw.set(key, Buffer.alloc(8))],
    [log.for('log with half a record'), async (key: string) => raw.set(key, Buffer.alloc(32))],
  ] as const;
  for (const [planted, plant] of foreign) {
    await plant(keyName('spillgate:', planted));
    // The fault comes last of its call, and the neighbour asks for something else.
    const [neighbour, verdicts] = await Promise.all([
      store.check([planted.policy.for(`${planted.key}-neighbour`)], 0),
      store.check([planted], 1).catch(() => undefined),
    ]);
    if (verdicts !== undefined || neighbour[0]?.remaining !== 1)
      throw new Error(`took a ${planted.key} for a state`);
  }
  // Two decisions of one call that ask for different things.
  const [one, none] = [bucket.for('one'), bucket.for('none')];
  await Promise.all([store.check([one], 1), store.check([none], 0)]);
  const [left] = await store.peek([none], 0);
  if (left?.remaining !== 1) throw new Error('a decision asked what another one did');
  await store.close();
}

/** States that a denial has to carry over, and until when they count: to the millisecond. */
async function checkLives({ script, raw }: Subject): Promise<void> {
  const nowUs = 1_767_268_800_000_000;
  const graceMs = 3_600_000;
  const carried = [
    // Owes a third of a microsecond more than three seconds.
    {
      text: 'check 2 1 10 1000000 3 10000000',
      state: doubles(nowUs + 9_000_001, 0, 1_000_000, 1, 10_000_000),
      lifeMs: 3001,
    },
    // Emptied by a clock that stepped back, and under a rate that is too slow for it: 0.6 s until it fits, then 4 s.
    {
      text: 'check 1 1 4 1000000 1 4000000',
      state: doubles(nowUs + 100_000_000, 0, 100_000, 1, 1_000_000),
      lifeMs: 4600,
    },
  ];
  for (const { text, state, lifeMs } of carried) {
    const lived = await lifeOf(raw, { script, nowUs: String(nowUs), text, state });
    if (lived !== lifeMs + graceMs) throw new Error(`${text} leaves a state for ${lived} ms`);
  }
}

interface LivingState {
  readonly script: string;
  readonly nowUs: string;
  readonly text: string;
  readonly state: Buffer;
}

/** How long the state lives that a decision leaves, exactly: repeated until no millisecond passes while it is read. */
async function lifeOf(raw: Redis, { script, nowUs, text, state }: LivingState): Promise<number> {
  for (;;) {
    await raw.set('life', state);
    const replies = await raw
      .multi()
      .time()
      .eval(script, 1, 'life', nowUs, text)
      .pexpiretime('life')
      .time()
      .exec();
    const [before, , expiresAtMs, after] = (replies ?? []).map(([, reply]) => reply);
    if (toMs(before) === toMs(after)) return Number(expiresAtMs) - toMs(before);
  }
}

function toMs(time: unknown): number {
  const [seconds, us] = Array.isArray(time) ? time.map(Number) : [];
  return (seconds ?? 0) * 1000 + Math.floor((us ?? 0) / 1000);
}

function doubles(...values: readonly number[]): Buffer {
  return Buffer.from(new Float64Array(values).buffer);
}
