import { keyName } from '#limiter/stores/redis/key-name.js';
import type { Redis } from 'ioredis';
import { isDeepStrictEqual } from 'node:util';
import { slidingWindowLog, tokenBucket } from 'spillgate';
import { redisStore, type CallClient } from 'spillgate/redis';
import { runRandomProgram } from 'spillgate/testing';
import { CASES, expectedReplay, replay } from './case-replay.ts';
import { runDifferential } from './differential.ts';
import { clientWithScript } from './mutated-client.ts';

interface Subject {
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

/** What the other files of this folder test, in short: quickest first. */
const CHECKS: readonly ScriptCheck[] = [
  { name: 'the cases', run: checkCases },
  { name: 'the guards', run: checkGuards },
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
];

/** The name of the first check that finds the script wrong; undefined when none does. */
export async function findFault(script: string, raw: Redis): Promise<string | undefined> {
  const subject = { script, client: clientWithScript(raw, script), raw };
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

/** Arguments and values that no store would send or leave: none may be taken for a decision. */
async function checkGuards({ script, client, raw }: Subject): Promise<void> {
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
    { text: `check 1${limit}`, limits: 2 },
    { text: `check 1${limit}`, limits: 0 },
    { text: 'check 1 3 10 1000 9007199254740992 0', limits: 1 },
    ...['nan', '0x10', '1.5', '-1', '', '9007199254740992'].map((bad) => ({
      text: `check ${bad}${limit}`,
      limits: 1,
    })),
  ];
  const badTimes = ['nan', '0x10', '1e3', '-1', '4503599627370497'];
  const badCalls = [
    ...badDecisions.map(({ text, limits }) => ({ nowUs: time, text, limits })),
    ...badTimes.map((nowUs) => ({ nowUs, text: `check 1${limit}`, limits: 1 })),
  ];
  for (const { nowUs, text, limits } of badCalls) {
    // As many keys as limits, so that nothing but the argument in question is wrong.
    const keys = Array.from({ length: limits }, (_, at) => `k${at}`);
    const error = await raw.call('EVAL', script, String(keys.length), ...keys, nowUs, text).then(
      () => undefined,
      (reason: unknown) => reason,
    );
    if (!(error instanceof Error && error.message.startsWith('SPILLGATE')) || (await raw.dbsize()) > 0)
      throw new Error(`accepted: ${nowUs} ${text.slice(0, 40)}`);
  }
  const store = redisStore({ client, timeoutMs: TIMEOUT_MS });
  const bucket = tokenBucket({ name: 'bucket', average: 1, period: '1h' });
  const log = slidingWindowLog({ name: 'log', quota: 1, window: '1h' });
  const foreign = [
    [bucket.for('text'), async (key: string) => raw.set(key, 'x'.repeat(31))],
    [bucket.for('list'), async (key: string) => raw.rpush(key, 'x')],
    [bucket.for('longer state'), async (key: string) => raw.set(key, Buffer.alloc(48))],
    [log.for('text'), async (key: string) => raw.set(key, 'x'.repeat(31))],
    [log.for('list'), async (key: string) => raw.rpush(key, 'x')],
    [log.for('log without records'), async (key: string) => raw.set(key, Buffer.alloc(8))],
    [log.for('log with half a record'), async (key: string) => raw.set(key, Buffer.alloc(32))],
  ] as const;
  for (const [planted, plant] of foreign) {
    await plant(keyName('spillgate:', planted));
    const [verdicts, neighbour] = await Promise.all([
      store.check([planted], 1).catch(() => undefined),
      store.check([planted.policy.for(`${planted.key}-neighbour`)], 1),
    ]);
    if (verdicts !== undefined || neighbour[0]?.allowed !== true)
      throw new Error(`took a ${planted.key} for a state`);
  }
  await store.close();
}
