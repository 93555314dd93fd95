import {
  createLimiter,
  tokenBucket,
  type LeaseStatistics,
  type Limiter,
  type Policy,
  type StoreStatistics,
} from 'spillgate';
import { redisStore } from 'spillgate/redis';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { Outcome } from '../../../packages/limiter/src/algorithms/algorithm.ts';
import {
  decideBucket,
  type BucketState,
  type CompiledBucket,
} from '../../../packages/limiter/src/algorithms/bucket/bucket.ts';
import { seededRandom } from '../../../packages/limiter/src/testing/random.ts';
import { startRedis, type RedisServer } from '../servers.ts';

const PATIENT_MS = 20_000;
const START_US = 1_000_000_000_000;
const api = tokenBucket({ name: 'api', average: 1000, burst: 1000, period: '1s', leases: true });

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

/** So many requests, one per millisecond; returns who decided each. */
async function ask(limiter: Limiter, count: number, policy: Policy = api): Promise<readonly string[]> {
  const sources: string[] = [];
  for (let request = 0; request < count; request += 1) {
    nowUs += 1000;
    const { allowed, source } = await limiter.check(policy.for('hot'));
    sources.push(allowed ? source : `${source}, denied`);
  }
  return sources;
}

function share(sources: readonly string[], source: string): number {
  return sources.filter((each) => each === source).length / sources.length;
}

test('a busy key is decided in the process, with a call to Redis for every twenty decisions', async () => {
  const limiter = connect();
  await ask(limiter, 500);
  const before = await scriptCalls();

  const sources = await ask(limiter, 2000);

  expect(share(sources, 'lease')).toBeGreaterThan(0.95);
  expect((await scriptCalls()) - before).toBeLessThan(2000 / 20);
});

test('a quiet key is decided by Redis', async () => {
  const limiter = connect();
  const sources: string[] = [];
  for (let request = 0; request < 100; request += 1) {
    nowUs += 100_000;
    sources.push((await limiter.check(api.for('quiet'))).source);
  }

  expect(share(sources, 'store')).toBe(1);
});

test('without leases Redis decides everything', async () => {
  const exact = tokenBucket({ name: 'exact', average: 1000, burst: 1000, period: '1s' });

  const sources = await ask(connect(), 500, exact);

  expect(share(sources, 'store')).toBe(1);
});

test.each([1, 2, 3])(
  'one exact bucket would have admitted all that four processes admit (seed %i)',
  async (seed) => {
    const random = seededRandom(seed);
    const processes = Array.from({ length: 4 }, connect);
    const admissions: { readonly atUs: number; readonly cost: number }[] = [];
    let leased = 0;
    for (let request = 0; request < 6000; request += 1) {
      // Light traffic, and every now and then a flood.
      nowUs += request % 2000 < 1200 ? random.below(3000) : random.below(50);
      const cost = 1 + random.below(3);
      const { allowed, source } = await random.pick(processes).check(api.for('hot'), { cost });
      if (allowed) admissions.push({ atUs: nowUs, cost });
      if (source === 'lease') leased += 1;
    }

    expect(leased).toBeGreaterThan(1000);
    expect(refusedByOneBucket(admissions)).toBe(0);
  },
);

test('what is left of a lease goes back when the limiter is closed', async () => {
  const limiter = connect();
  await ask(limiter, 500);
  const other = connect();
  const held = await other.peek(api.for('hot'));

  await limiter.close();

  expect((await other.peek(api.for('hot'))).remaining).toBeGreaterThan(held.remaining);
});

test('forget drops the lease of this process', async () => {
  const limiter = connect();
  await ask(limiter, 500);

  await limiter.forget(api.for('hot'));
  const { source, remaining } = await limiter.check(api.for('hot'));

  expect(source).toBe('store');
  expect(remaining).toBe(999);
});

test('a lease does not outlive the numbers it was taken under', async () => {
  const limiter = connect();
  const mine = tokenBucket({ name: 'mine', average: 1000, burst: 1000, period: '1s', leases: true });
  await ask(limiter, 500, mine);

  mine.override('hot', { average: 1, burst: 1 });
  const decisions = await ask(limiter, 100, mine);

  expect(decisions.filter((source) => source === 'lease')).toEqual([]);
});

test('a cost above a twentieth of the burst is decided by Redis, however busy the key', async () => {
  const limiter = connect();
  await ask(limiter, 500);

  expect((await limiter.check(api.for('hot'), { cost: 51 })).source).toBe('store');
});

test('several limits are decided in the process when all of them are leased, and all or none is spent', async () => {
  const limiter = connect();
  const tenant = tokenBucket({ name: 'tenant', average: 1000, burst: 1000, period: '1s', leases: true });
  const sources: string[] = [];
  for (let request = 0; request < 1000; request += 1) {
    nowUs += 1000;
    sources.push((await limiter.check([api.for('hot'), tenant.for('hot')])).source);
  }

  expect(share(sources.slice(500), 'lease')).toBeGreaterThan(0.8);
});

describe('what leases do is counted:', () => {
  test('calls are those that Redis has seen, many decisions for each', async () => {
    const limiter = connect();
    await ask(limiter, 1);
    const [seenBefore, countedBefore] = [await scriptCalls(), statistics(limiter).calls];

    await ask(limiter, 1000);

    const calls = statistics(limiter).calls - countedBefore;
    expect(calls).toBe((await scriptCalls()) - seenBefore);
    expect(calls).toBeLessThan(100);
  });

  test('what is granted was spent, is held, or has expired', async () => {
    const limiter = connect();
    let spent = 0;
    limiter.on('decision', ({ decision }) => {
      if (decision.source === 'lease') spent += 1;
    });
    await ask(limiter, 1000);
    const before = await untilLeased(limiter);

    nowUs += 10_000_000;
    const after = statistics(limiter).leases;

    expect(before.outstanding).toBeGreaterThan(0);
    expect(before.granted).toBe(spent + before.outstanding + before.expired);
    expect(after).toMatchObject({ granted: before.granted, outstanding: 0 });
    expect(after.expired).toBe(before.expired + before.outstanding);
  });

  test('what goes back on closing is returned', async () => {
    const limiter = connect();
    const { outstanding } = await untilLeased(limiter);

    await limiter.close();

    expect(statistics(limiter).leases).toMatchObject({ outstanding: 0, returned: outstanding });
  });

  test('the bound of the clock error grows with the time since Redis was heard', async () => {
    const limiter = connect();
    const { clockBoundUs, clockErrorUs } = await untilLeased(limiter);

    nowUs += 5000;

    // 200 millionths on either side, rounded up.
    expect(statistics(limiter).leases.clockBoundUs).toBeGreaterThan(clockBoundUs);
    expect(statistics(limiter).leases.clockBoundUs).toBeLessThanOrEqual(clockBoundUs + 4);
    expect(clockErrorUs).toBe(0);
  });

  /** Until a lease has just come. */
  async function untilLeased(limiter: Limiter): Promise<LeaseStatistics> {
    for (let request = 0; request < 2000; request += 1) {
      await ask(limiter, 1);
      // A round trip: whatever is on its way arrives before it.
      await limiter.peek(api.for('other'));
      const { leases } = statistics(limiter);
      if (leases.outstanding > 20) return leases;
    }
    throw new RangeError('no lease came');
  }
});

function statistics(limiter: Limiter): StoreStatistics {
  const counted = limiter.statistics();
  if (counted === undefined) throw new RangeError('a limiter on Redis counts its calls');
  return counted;
}

function refusedByOneBucket(admissions: readonly { readonly atUs: number; readonly cost: number }[]): number {
  const numbers = api.plan.numbers as CompiledBucket;
  let state: BucketState | undefined;
  let refused = 0;
  for (const { atUs, cost } of admissions) {
    const { allowed, spent } = decideBucket(state, numbers, cost, atUs, new Outcome());
    if (allowed) state = spent;
    else refused += 1;
  }
  return refused;
}

async function scriptCalls(): Promise<number> {
  const stats = String(await server.command('INFO', 'commandstats'));
  return Number(/cmdstat_evalsha:calls=(\d+)/.exec(stats)?.[1] ?? 0);
}
