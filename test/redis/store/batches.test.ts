import type { Question } from '#limiter/stores/redis/protocol.js';
import { ScriptBatches } from '#limiter/stores/redis/script-batches.js';
import { slidingWindowLog, tokenBucket } from 'spillgate';
import { afterEach, expect, test, vi } from 'vitest';

const policy = tokenBucket({ name: 'api', average: 10, burst: 10, period: '1s' });
const QUESTION: Question = { verb: 'check', limits: [policy.for('k')], cost: 1, keys: ['k'] };
const AT_US = 1_000_000;
/** Each leaves in a turn of its own. */
const CALLS_UNDER_WAY = 4;

/** The answer of a server that knows none of the keys of a call, and so admits everything. */
function allAdmitted(args: readonly string[]): readonly number[] {
  const keys = keysIn(args);
  const [, text = '', , order] = args.slice(2 + keys);
  const limitsPerText = (text.split(' ').length - 2) / 5;
  return [AT_US, order?.length ?? keys / limitsPerText, ...Array.from({ length: keys }, () => 0)];
}

function keysIn([, count = '']: readonly string[]): number {
  return Number(count);
}

/** A server that answers when it is told to, and remembers how many decisions each call had. */
function slowServer(): {
  readonly batches: ScriptBatches;
  readonly calls: number[];
  readonly answerAll: () => void;
} {
  const calls: number[] = [];
  const answers: (() => void)[] = [];
  const batches = new ScriptBatches({
    route: ({ args }) => {
      calls.push(keysIn(args));
      return new Promise((resolve) => {
        answers.push(() => resolve(allAdmitted(args)));
      });
    },
    nowUs: () => '',
    localUs: (ms) => Math.floor(ms * 1000),
    onLateCharge: () => undefined,
  });
  return { batches, calls, answerAll: () => answers.splice(0).forEach((answer) => answer()) };
}

test('decisions of one turn share a call, though each was asked for in a callback of its own', async () => {
  const { batches, calls, answerAll } = slowServer();
  const asked: Promise<unknown>[] = [];

  // Between two of these callbacks all microtasks run, as between two requests that arrive together.
  for (let at = 0; at < 6; at += 1) setImmediate(() => asked.push(batches.decide(0, QUESTION)));
  await turns(3);
  answerAll();

  expect(calls).toEqual([6]);
  expect(await Promise.all(asked)).toHaveLength(6);
});

test('every call leaves in a turn of its own: clients that write once per turn write it alone', async () => {
  const { batches, calls, answerAll } = slowServer();
  const answers = Array.from({ length: 40 }, () => batches.decide(0, QUESTION));

  await turns(1);
  const first = [...calls];
  await turns(1);
  answerAll();

  expect(first).toEqual([20]);
  expect(calls).toEqual([20, 20]);
  expect(await Promise.all(answers)).toHaveLength(40);
});

test('what is asked because of a reply leaves in the turn of the reply', async () => {
  const { batches, calls, answerAll } = slowServer();
  const again = Array.from({ length: 6 }, async () => {
    await batches.decide(0, QUESTION);
    return batches.decide(0, QUESTION);
  });
  await turns(1);

  answerAll();
  const before = await new Promise<number>((resolve) => {
    // Before all that was scheduled for the end of the turn after the reply was.
    setImmediate(() => resolve(calls.length));
  });
  answerAll();

  expect(before).toBe(2);
  expect(calls).toEqual([6, 6]);
  expect(await Promise.all(again)).toHaveLength(6);
});

test.each([
  { asked: 1, calls: [1] },
  { asked: 8, calls: [8] },
  { asked: 15, calls: [15] },
  { asked: 16, calls: [8, 8] },
  { asked: 17, calls: [9, 8] },
  { asked: 40, calls: [20, 20] },
  { asked: 128, calls: [64, 64] },
  { asked: 300, calls: [64, 64, 64, 64] },
])('$asked decisions at once make calls of $calls', async ({ asked, calls: expected }) => {
  const { batches, calls, answerAll } = slowServer();

  const answers = Array.from({ length: asked }, () => batches.decide(0, QUESTION));
  await turns(CALLS_UNDER_WAY + 1);
  const first = [...calls];
  answerAll();
  await turns(CALLS_UNDER_WAY + 1);
  answerAll();

  expect(first).toEqual(expected);
  expect(await Promise.all(answers)).toHaveLength(asked);
  expect(calls.reduce((sum, decisions) => sum + decisions, 0)).toBe(asked);
});

test('a call has as many states as 64 simple decisions have, and at least one decision', async () => {
  const { batches, calls, answerAll } = slowServer();
  const keysOf = (count: number): string[] => Array.from({ length: count }, (_, at) => `k${at}`);
  const many = (count: number): Question => ({
    ...QUESTION,
    limits: keysOf(count).map((key) => policy.for(key)),
    keys: keysOf(count),
  });

  const answers = [32, 32, 32, 31, 2, 65, 1, 1].map((count) => batches.decide(0, many(count)));
  await turns(CALLS_UNDER_WAY + 1);
  answerAll();
  await turns(CALLS_UNDER_WAY + 1);
  answerAll();

  expect(calls).toEqual([64, 63, 2, 65, 2]);
  expect(await Promise.all(answers)).toHaveLength(8);
});

test('a call has no more than 16 full logs, and short ones as any other state', async () => {
  const { batches, calls, answerAll } = slowServer();
  const logOf = (quota: number): Question => {
    const log = slidingWindowLog({ name: `log-${quota}`, quota, window: '1h' });
    return { ...QUESTION, limits: [log.for('k')] };
  };
  const questions = [
    ...Array.from({ length: 20 }, () => logOf(1000)),
    ...Array.from({ length: 20 }, () => logOf(1_000_000)),
    ...Array.from({ length: 60 }, () => logOf(3)),
  ];

  const answers = questions.map((question) => batches.decide(0, question));
  for (let round = 0; round < 4; round += 1) {
    await turns(CALLS_UNDER_WAY + 1);
    answerAll();
  }

  expect(calls.slice(0, 2)).toEqual([16, 16]);
  expect(Math.max(...calls)).toBeGreaterThan(32);
  expect(await Promise.all(answers)).toHaveLength(questions.length);
});

test('decisions of a server far away do not wait for each other', async () => {
  vi.useFakeTimers();
  const roundTripMs = 30;
  const batches = new ScriptBatches({
    route: async ({ args }) => {
      await new Promise((resolve) => setTimeout(resolve, roundTripMs));
      return allAdmitted(args);
    },
    nowUs: () => '',
    localUs: (ms) => Math.floor(ms * 1000),
    onLateCharge: () => undefined,
  });
  const took: number[] = [];

  // 500 a second.
  for (let at = 0; at < 500; at += 1) {
    const askedAtMs = performance.now();
    void batches.decide(0, QUESTION).then(() => took.push(performance.now() - askedAtMs));
    await vi.advanceTimersByTimeAsync(2);
  }
  await vi.advanceTimersByTimeAsync(10 * roundTripMs);

  expect(took).toHaveLength(500);
  // Until the first answer nobody knows how far away it is.
  expect(Math.max(...took.slice(roundTripMs))).toBeLessThanOrEqual(roundTripMs + 1);
});

test('a clock that fails fails the decisions of its call, and the next ones are decided', async () => {
  let fails = true;
  const batches = new ScriptBatches({
    route: async ({ args }) => allAdmitted(args),
    nowUs: () => '',
    localUs: (ms) => {
      if (fails) throw new Error('the clock cannot be read');
      return Math.floor(ms * 1000);
    },
    onLateCharge: () => undefined,
  });
  for (let call = 0; call <= CALLS_UNDER_WAY; call += 1) {
    await expect(batches.decide(0, QUESTION)).rejects.toThrow('cannot be read');
  }

  fails = false;

  await expect(batches.decide(0, QUESTION)).resolves.toMatchObject({ atUs: AT_US });
});

afterEach(() => {
  vi.useRealTimers();
});

async function turns(count: number): Promise<void> {
  for (let at = 0; at < count; at += 1) await new Promise((resolve) => setImmediate(resolve));
}
