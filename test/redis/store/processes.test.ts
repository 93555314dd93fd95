import type { AnyState } from '#limiter/algorithms/algorithm.js';
import type { Redis } from 'ioredis';
import { tokenBucket } from 'spillgate';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { type RedisServer } from '../servers.ts';
import { startLimited } from './limited-user.ts';
import { openRaw } from './clients.ts';
import { takeSnapshot } from './snapshot.ts';
import { WorkerProcess, type Job, type JobResult, type Recording } from './worker-process.ts';

const PROCESSES = 4;
const CHECKS = 100_000;
const IN_FLIGHT = 64;
const ROUNDS = 200;
const NOON_US = 1_767_268_800_000_000;

let server: RedisServer;
let raw: Redis;
let workers: readonly WorkerProcess[];

beforeAll(async () => {
  server = await startLimited();
  raw = openRaw(server);
  workers = Array.from({ length: PROCESSES }, () => new WorkerProcess(server));
  await runEverywhere({ key: 'warm-up', capacity: 1, checks: 1, inFlight: 1 });
});

afterAll(async () => {
  for (const worker of workers) worker.stop();
  raw.disconnect();
  await server.stop();
});

describe('four processes that share one key', () => {
  const checks = CHECKS / PROCESSES;

  test('admit exactly the burst while the clock stands still', async () => {
    const result = await runEverywhere({
      key: 'frozen',
      capacity: 1234,
      checks,
      inFlight: IN_FLIGHT,
      frozenAtUs: NOON_US,
    });

    expect(result).toEqual({ admitted: 1234, denied: CHECKS - 1234, degraded: 0 });
  });

  test("get by the server's clock what a replay in the order of the scripts gives, answer by answer", async () => {
    const capacity = 6000;
    const before = await takeSnapshot(raw, []);
    const recordings = await recordEverywhere({ key: 'live', capacity, checks, inFlight: IN_FLIGHT });
    const after = await takeSnapshot(raw, []);

    const { admitted, denied, degraded } = sumOf(recordings);
    const calls = recordings.flatMap(({ replies }) => replies).toSorted((a, b) => timeOf(a) - timeOf(b));
    expect(new Set(calls.map(timeOf)).size).toBe(calls.length);
    expect(calls).toEqual(replayOf(capacity, calls));
    expect({ admitted: countAdmitted(calls), degraded }).toEqual({ admitted, degraded: 0 });
    expect(admitted + denied).toBe(CHECKS);
    // The policy's period is a minute.
    const refilled = ((after.timeUs - before.timeUs) * capacity) / 60_000_000;
    expect(admitted).toBeGreaterThanOrEqual(capacity);
    expect(admitted).toBeLessThanOrEqual(capacity + refilled);
  });
});

describe('100 concurrent checks against a capacity of 10', () => {
  test('pass exactly 10 in each of 200 rounds in one process', async () => {
    const [worker] = workers;
    const admitted = new Set<number | undefined>();

    for (let round = 0; round < ROUNDS; round += 1) {
      const job = { key: `one-${round}`, capacity: 10, checks: 100, inFlight: 100, frozenAtUs: NOON_US };
      admitted.add((await worker?.run(job))?.admitted);
    }

    expect([...admitted]).toEqual([10]);
  });

  test('pass exactly 10 in each of 200 rounds when they come from four processes', async () => {
    const results = [];

    for (let round = 0; round < ROUNDS; round += 1) {
      const job = { key: `four-${round}`, capacity: 10, checks: 25, inFlight: 25, frozenAtUs: NOON_US };
      results.push(await runEverywhere(job));
    }

    expect(new Set(results.map((result) => JSON.stringify(result)))).toEqual(
      new Set([JSON.stringify({ admitted: 10, denied: 90, degraded: 0 })]),
    );
  });
});

/** The same job in every process at the same time; the sum of what they counted. */
async function runEverywhere(job: Job): Promise<JobResult> {
  return sumOf(await recordEverywhere(job));
}

async function recordEverywhere(job: Job): Promise<readonly Recording[]> {
  return Promise.all(workers.map(async (worker) => worker.run(job)));
}

function sumOf(results: readonly JobResult[]): JobResult {
  const sum = (name: keyof JobResult) => results.reduce((total, result) => total + result[name], 0);
  return { admitted: sum('admitted'), denied: sum('denied'), degraded: sum('degraded') };
}

function timeOf([atUs = 0]: readonly number[]): number {
  return atUs;
}

function countAdmitted(calls: readonly (readonly number[])[]): number {
  return calls.reduce((sum, [, admitted = 0]) => sum + admitted, 0);
}

/** After the time and the number of admissions: per decision the number of numbers that follow, and these. */
function countDecisions(call: readonly number[]): number {
  let decisions = 0;
  for (let at = 2; at < call.length; at += 1 + (call[at] ?? 0)) decisions += 1;
  return decisions;
}

/** What the pure function says to as many checks of cost 1, at the same times, as the script tells it. */
function replayOf(capacity: number, calls: readonly (readonly number[])[]): readonly (readonly number[])[] {
  const { algorithm, numbers } = tokenBucket({
    name: 'shared',
    average: capacity,
    burst: capacity,
    period: '1m',
  }).plan;
  let state: AnyState | undefined;
  return calls.map((call) => {
    const atUs = timeOf(call);
    const told: number[] = [];
    let admitted = 0;
    for (let decision = countDecisions(call); decision > 0; decision -= 1) {
      const [tatUs = 0, fraction = 0] = state === undefined ? [] : algorithm.redis.toDoubles(state);
      told.push(...(tatUs < atUs ? [0] : [2, tatUs, fraction]));
      const outcome = algorithm.decide(state, numbers, 1, atUs);
      state = outcome.spent ?? state;
      if (outcome.allowed) admitted += 1;
    }
    return [atUs, admitted, ...told];
  });
}
