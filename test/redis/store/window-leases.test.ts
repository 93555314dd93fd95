import {
  createLimiter,
  fixedWindow,
  slidingWindowCounter,
  slidingWindowLog,
  type Limiter,
  type Policy,
} from 'spillgate';
import { redisStore } from 'spillgate/redis';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import type { AnyState } from '../../../packages/limiter/src/algorithms/algorithm.ts';
import { seededRandom } from '../../../packages/limiter/src/testing/random.ts';
import { startRedis, type RedisServer } from '../servers.ts';

const PATIENT_MS = 20_000;
const START_US = 1_000_000_000_000;

let server: RedisServer;
let nowUs: number;
let limiters: Limiter[];

beforeEach(async () => {
  server = await startRedis();
  nowUs = START_US;
  limiters = [];
});

afterEach(async () => {
  await Promise.all(limiters.map((limiter) => limiter.close()));
  await server.stop();
});

/** A process of its own, as far as leases go. All of them read one virtual clock. */
function connect(): Limiter {
  const clock = (): number => nowUs;
  const store = redisStore({ url: server.url, clock, timeoutMs: PATIENT_MS, connectTimeoutMs: PATIENT_MS });
  const limiter = createLimiter({ store, deadlineMs: PATIENT_MS });
  limiters.push(limiter);
  return limiter;
}

const MINUTE = { name: 'minute', quota: 100_000, window: '1m', leases: true } as const;
const SHORT = { name: 'short', quota: 4000, window: '4s', leases: true } as const;

describe.each([
  ['fixed window', fixedWindow(MINUTE), fixedWindow(SHORT)],
  ['sliding window counter', slidingWindowCounter(MINUTE), slidingWindowCounter(SHORT)],
  ['sliding window log', slidingWindowLog(MINUTE), slidingWindowLog(SHORT)],
])('a %s with leases', (_name, minute: Policy, short: Policy) => {
  test('is decided in the process while it is busy', async () => {
    const limiter = connect();
    const sources = await ask(limiter, 1000, minute);

    expect(sources.slice(500).filter((source) => source === 'lease').length).toBeGreaterThan(450);
    expect(limiter.statistics()?.calls).toBeLessThan(600);
  });

  test.each([1, 2])('admits nothing extra in four processes (seed %i)', async (seed) => {
    const random = seededRandom(seed);
    const processes = Array.from({ length: 4 }, connect);
    const admissions: { readonly atUs: number; readonly cost: number }[] = [];
    let leased = 0;
    for (let request = 0; request < 6000; request += 1) {
      // Light traffic, and every now and then a flood.
      nowUs += request % 2000 < 1500 ? random.below(2200) : random.below(50);
      const cost = 1 + random.below(2);
      const { allowed, source } = await random.pick(processes).check(short.for('hot'), { cost });
      if (allowed) admissions.push({ atUs: nowUs, cost });
      if (source === 'lease') leased += 1;
    }

    expect(leased).toBeGreaterThan(300);
    expect(refused(short, admissions)).toBe(0);
  });

  test('gets back what a process holds that is no longer asked', async () => {
    const limiter = connect();
    await ask(limiter, 1000, minute);
    const other = connect();
    const spent = minute.limit - 1000;
    expect((await other.peek(minute.for('hot'))).remaining).toBeLessThan(spent);

    nowUs += 600_000;

    await expect
      .poll(async () => (await other.peek(minute.for('hot'))).remaining, { timeout: PATIENT_MS })
      .toBe(spent);
    await expect.poll(() => limiter.statistics()?.leases.outstanding, { timeout: PATIENT_MS }).toBe(0);
  });

  test('gets back what a limiter holds that is closed', async () => {
    const limiter = connect();
    await ask(limiter, 1000, minute);

    await limiter.close();

    expect((await connect().peek(minute.for('hot'))).remaining).toBe(minute.limit - 1000);
  });
});

/** So many requests, one per millisecond; returns who decided each. */
async function ask(limiter: Limiter, count: number, policy: Policy): Promise<readonly string[]> {
  const sources: string[] = [];
  for (let request = 0; request < count; request += 1) {
    nowUs += 1000;
    sources.push((await limiter.check(policy.for('hot'))).source);
  }
  return sources;
}

function refused(
  { plan: { algorithm, numbers } }: Policy,
  admissions: readonly { readonly atUs: number; readonly cost: number }[],
): number {
  let state: AnyState | undefined;
  return admissions.filter(({ atUs, cost }) => {
    const { allowed, spent } = algorithm.decide(state, numbers, cost, atUs);
    if (allowed) state = spent;
    return !allowed;
  }).length;
}
