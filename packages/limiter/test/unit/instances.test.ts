import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import * as fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { compileBucket, divideBucket } from '../../src/algorithms/bucket/bucket-rate.ts';
import { InstanceShare } from '../../src/instance-share.ts';
import { LimiterError } from '../../src/errors.ts';
import {
  createLimiter,
  fixedWindow,
  leakyBucket,
  memoryStore,
  slidingWindowCounter,
  slidingWindowLog,
  tokenBucket,
  type Limiter,
  type Policy,
} from '../../src/index.ts';
import { virtualClock, type VirtualClock } from '../../src/testing/index.ts';
import { TENS } from './policies.ts';
import { remoteStore, type RemoteStore } from './remote-store.ts';
import { runs } from '../../../../test/runs.ts';

interface Bench {
  readonly limiter: Limiter;
  readonly store: RemoteStore;
  readonly clock: VirtualClock;
}

function outageOf(instances: number | undefined): Bench {
  const clock = virtualClock();
  const store = remoteStore(clock);
  store.behaviour = 'rejects';
  return { clock, store, limiter: createLimiter({ clock, store, instances }) };
}

async function admitted(limiter: Limiter, policy: Policy): Promise<number> {
  let total = 0;
  while ((await limiter.check(policy.for('ann'))).allowed) total += 1;
  return total;
}

describe('what one of several instances admits at once while the fallback decides', () => {
  test.each(TENS)('$name: the whole policy, if it is the only one', async (policy) => {
    expect(await admitted(outageOf(undefined).limiter, policy)).toBe(10);
    expect(await admitted(outageOf(1).limiter, policy)).toBe(10);
  });

  test.each(TENS.filter(({ algorithm }) => algorithm !== 'leakyBucket'))(
    '$name: its share, rounded down, and at least one',
    async (policy) => {
      expect(await admitted(outageOf(3).limiter, policy)).toBe(3);
      expect(await admitted(outageOf(10).limiter, policy)).toBe(1);
      expect(await admitted(outageOf(10_000).limiter, policy)).toBe(1);
    },
  );

  test('a queue: as much as leaves it within the same delay', async () => {
    const queue = leakyBucket({ name: 'queue', average: 1, period: '1s', maxDelay: '9s' });
    const { limiter } = outageOf(3);

    const delays = [];
    for (let check = 0; check < 5; check += 1) delays.push((await limiter.check(queue.for('ann'))).delayMs);

    expect(delays).toEqual([0, 3000, 6000, 9000, 0]);
    expect(await admitted(outageOf(10).limiter, queue)).toBe(1);
  });
});

describe('what comes back while the fallback decides', () => {
  test('a token bucket refills at exactly its share of the rate', async () => {
    const thirds = tokenBucket({ name: 'thirds', average: 3, burst: 4, period: '1s' });
    const { limiter, clock } = outageOf(2);
    await limiter.check(thirds.for('ann'), { cost: 2 });

    const denied = await limiter.check(thirds.for('ann'));
    clock.advance(666.666);
    const early = await limiter.check(thirds.for('ann'));
    clock.advance(0.001);
    const first = await limiter.check(thirds.for('ann'));
    clock.advance(666.667);
    const second = await limiter.check(thirds.for('ann'));

    expect(denied.retryAfterMs).toBe(666.667);
    expect([early, first, second].map(({ allowed }) => allowed)).toEqual([false, true, true]);
  });

  test.each([
    fixedWindow({ name: 'fixed', quota: 10, window: '1m' }),
    slidingWindowLog({ name: 'log', quota: 10, window: '1m' }),
    slidingWindowLog({ name: 'coarse-log', quota: 5000, window: '1m' }),
  ])('$name: the window is as long as ever', async (policy) => {
    const { limiter, clock } = outageOf(5);
    const share = policy.limit / 5;
    await limiter.check(policy.for('ann'), { cost: share });

    clock.advance('59s');
    const within = await limiter.check(policy.for('ann'));
    clock.advance('1s');
    const after = await limiter.check(policy.for('ann'), { cost: share });

    expect([within.allowed, within.retryAfterMs, after.allowed]).toEqual([false, 1000, true]);
  });

  test('a counter fades its share of the previous window', async () => {
    const counter = slidingWindowCounter({ name: 'counter', quota: 100, window: '1m' });
    const { limiter, clock } = outageOf(10);
    await limiter.check(counter.for('ann'), { cost: 8 });

    clock.advance('1m15s');

    expect((await limiter.peek(counter.for('ann'))).remaining).toBe(4);
  });
});

describe('a cost that fits the policy but not the share of it', () => {
  test.each(TENS)('$name: denied, with a wait that is no lie about the policy', async (policy) => {
    const { limiter, store } = outageOf(10);

    const denied = await limiter.check(policy.for('ann'), { cost: 10 });
    const looked = await limiter.peek(policy.for('ann'), { cost: 10 });
    store.behaviour = 'answers';
    const decided = await limiter.check(policy.for('ann'), { cost: 10 });

    expect(denied).toMatchObject({ allowed: false, retryAfterMs: 1000, limit: 10, source: 'fallback' });
    expect(looked).toMatchObject({ allowed: false, retryAfterMs: 1000 });
    expect(decided).toMatchObject({ allowed: true, source: 'store' });
  });

  test.each(TENS)('$name: one that is above the policy itself can never fit', async (policy) => {
    const { limiter } = outageOf(10);

    expect((await limiter.check(policy.for('ann'), { cost: 11 })).retryAfterMs).toBe(Infinity);
  });

  test('speaks for a check of several limits too', async () => {
    const { limiter } = outageOf(10);
    const large = tokenBucket({ name: 'large', average: 1000, period: '1m' });

    const denied = await limiter.check([large.for('ann'), ...TENS.map((policy) => policy.for('ann'))], {
      cost: 10,
    });

    expect(denied).toMatchObject({ allowed: false, retryAfterMs: 1000 });
    expect((await limiter.peek(large.for('ann'))).remaining).toBe(100);
  });
});

test('the store itself never sees divided numbers', async () => {
  const { limiter, store } = outageOf(10);
  store.behaviour = 'answers';

  const decision = await limiter.check(
    TENS.map((policy) => policy.for('ann')),
    { cost: 7 },
  );

  expect(decision).toMatchObject({ allowed: true, remaining: 3, source: 'store' });
});

test('an override is divided by itself, and takes over what the key has spent', async () => {
  const { limiter } = outageOf(2);
  const api = tokenBucket({ name: 'api', average: 10, burst: 10, period: '1h' });
  await limiter.check(api.for('ann'), { cost: 3 });

  api.override('ann', { burst: 40 });

  expect((await limiter.peek(api.for('ann'))).remaining).toBe(17);
  expect((await limiter.peek(api.for('bob'))).remaining).toBe(5);
});

test('forget makes a divided limit as if never used', async () => {
  const { limiter } = outageOf(2);
  for (const policy of TENS) await limiter.check(policy.for('ann'), { cost: 2 });

  await limiter.forget(TENS.map((policy) => policy.for('ann')));

  const looks = await Promise.all(TENS.map((policy) => limiter.peek(policy.for('ann'))));
  expect(looks.map(({ resetAfterMs }) => resetAfterMs)).toEqual([0, 0, 0, 0, 0]);
});

describe('dividing', () => {
  const api = tokenBucket({ name: 'api', average: 10, burst: 10, period: '1m' });

  test('is done once per policy and once per override, not per check', () => {
    const divider = new InstanceShare(2);
    api.override('vip', { burst: 100 });

    const [ann, bob, vip] = divider.divide([api.for('ann'), api.for('bob'), api.for('vip')]);
    const [annAgain, vipAgain] = divider.divide([api.for('ann'), api.for('vip')]);

    expect(bob?.plan).toBe(ann?.plan);
    expect(annAgain?.plan).toBe(ann?.plan);
    expect(vipAgain?.plan).toBe(vip?.plan);
    expect([ann?.limit, vip?.limit]).toEqual([5, 50]);
  });

  test('lays tables out for the share that most keys have, also if an override comes first', () => {
    const divider = new InstanceShare(2);
    api.override('vip', { average: 100 });

    const [vip, ann] = divider.divide([api.for('vip'), api.for('ann')]);

    expect(vip?.usualPlan).toBe(ann?.plan);
    expect(vip?.plan).not.toBe(ann?.plan);
  });

  test('makes no state take more memory than a whole one', () => {
    api.override('vip', { average: 100 });
    const whole = leastBytesOf(1);

    const share = leastBytesOf(2);

    // A state that does not fit into its row is an object of about 100 bytes beside it.
    expect(share).toBeLessThan(whole + 20);
  });

  /** Of several tries: what the process itself allocates meanwhile only ever adds to one. */
  function leastBytesOf(instances: number): number {
    return Math.min(...Array.from({ length: 4 }, () => bytesOf(new InstanceShare(instances))));
  }

  /** What a key of a full memory store takes, apart from its row. */
  function bytesOf(divider: InstanceShare): number {
    const keys = 20_000;
    const store = memoryStore();
    store.checkSync(divider.divide([api.for('vip')]), 1);
    const before = heapUsed();
    for (let key = 0; key < keys; key += 1) store.checkSync(divider.divide([api.for(`key ${key}`)]), 1);
    const bytes = (heapUsed() - before) / keys;
    store.forgetSync([api.for('vip')]);
    return bytes;
  }

  function heapUsed(): number {
    setFlagsFromString('--expose-gc');
    const collectGarbage = runInNewContext('gc') as () => void;
    collectGarbage();
    return process.memoryUsage().heapUsed;
  }

  test('by one is the limits themselves', () => {
    const limits = [api.for('ann')];

    expect(new InstanceShare(1).divide(limits)).toBe(limits);
  });

  test('gives keys of one share the same overflow state, and of another rate another', () => {
    const plan = new InstanceShare(2).divide([api.for('ann')])[0]?.plan;

    expect(plan?.stateId).toBe(api.plan.stateId);
    expect(plan?.rateId).not.toBe(api.plan.rateId);
  });
});

describe('a share of any bucket', () => {
  const MOST_UNITS = BigInt(Number.MAX_SAFE_INTEGER);
  const DECADE_US = 3650 * 86_400_000_000;
  const size = (max: number): fc.Arbitrary<number> =>
    fc.oneof(
      fc.integer({ min: 1, max: 1000 }),
      fc.integer({ min: 1, max }),
      fc.constantFrom(1, 2, 3, max),
      fc.integer({ min: 0, max: 51 }).chain((bits) => fc.integer({ min: 2 ** bits, max: 2 ** (bits + 1) })),
    );
  const bucket = fc.record({
    average: size(2 ** 52),
    periodUs: size(DECADE_US).map((us) => Math.min(us, DECADE_US)),
    tokens: fc.oneof(fc.constant(1), size(2 ** 52)),
    delayUs: fc.oneof(
      fc.constant(0),
      size(DECADE_US).map((us) => Math.min(us, DECADE_US)),
    ),
    instances: fc.oneof(fc.integer({ min: 2, max: 10 }), fc.integer({ min: 2, max: 10_000 })),
  });

  test('is never faster or larger than its part, is exact where that can be counted, and can always be counted', () => {
    let exact = 0;
    let slower = 0;
    fc.assert(
      fc.property(bucket, ({ instances, delayUs, tokens, ...rate }) => {
        // A bucket has a burst or a delay, not both.
        const capacity = tokens === 1 ? { tokens, delayUs } : { tokens, delayUs: 0 };
        const whole = compiled({ ...rate, ...capacity });
        fc.pre(whole !== undefined);

        const share = divideBucket(whole, capacity, instances);

        const [tokenUnits, drainUnits] = [BigInt(share.tokenUnits), BigInt(share.drainUnits)];
        const partOfRate = BigInt(whole.drainUnits) * tokenUnits;
        const rateOfAll = drainUnits * BigInt(instances) * BigInt(whole.tokenUnits);
        const mostTokens = Math.max(1, Math.floor(tokens / instances));
        expect(BigInt(share.capacityUnits) + tokenUnits + drainUnits <= MOST_UNITS).toBe(true);
        expect(share.limit).toBe(Math.floor(share.capacityUnits / share.tokenUnits));
        if (capacity.delayUs === 0) expect([mostTokens, mostTokens - 1]).toContain(share.limit);
        else expect(share.limit).toBeGreaterThanOrEqual(1);
        // One token in more than 133 years may be called one in 133 years.
        const isForEver = share.tokenUnits / share.drainUnits > 4.2e15;
        expect(rateOfAll <= partOfRate || isForEver).toBe(true);
        if (rateOfAll === partOfRate) exact += 1;
        else slower += 1;
      }),
      { numRuns: runs(5000) },
    );
    expect(exact).toBeGreaterThan(slower);
    expect(slower).toBeGreaterThan(0);
  });

  test.each([
    { what: 'everyday numbers', average: 100, periodUs: 1_000_000, tokens: 50, instances: 7 },
    { what: 'a prime rate', average: 999_983, periodUs: 86_400_000_000, tokens: 20_000, instances: 9973 },
    { what: 'the slowest policy', average: 1, periodUs: DECADE_US, tokens: 14, instances: 14 },
  ])('is exact for $what', ({ instances, ...numbers }) => {
    const capacity = { tokens: numbers.tokens, delayUs: 0 };
    const whole = compileBucket({ ...numbers, delayUs: 0 });

    const share = divideBucket(whole, capacity, instances);

    expect(BigInt(share.tokenUnits) * BigInt(numbers.average)).toBe(
      BigInt(share.drainUnits) * BigInt(numbers.periodUs) * BigInt(instances),
    );
    expect(share.limit).toBe(Math.max(1, Math.floor(numbers.tokens / instances)));
  });

  test('has one token less where its tokens could not be counted at the exact rate', () => {
    const tokens = Math.floor(Number.MAX_SAFE_INTEGER / 3) - 2;
    const whole = compileBucket({ average: 2, periodUs: 3, tokens, delayUs: 0 });

    const share = divideBucket(whole, { tokens, delayUs: 0 }, 99);

    expect([share.tokenUnits, share.drainUnits]).toEqual([297, 2]);
    expect(share.limit).toBe(Math.floor(tokens / 99) - 1);
  });

  test('never refills within the life of a clock if its part of the rate is that slow', async () => {
    const slow = tokenBucket({ name: 'slow', average: 1, burst: 1, period: '3650d' });
    const { limiter, clock } = outageOf(10_000);

    const first = await limiter.check(slow.for('ann'));
    clock.set(2 ** 52);
    const inTheYear2112 = await limiter.check(slow.for('ann'));

    expect([first.allowed, inTheYear2112.allowed]).toEqual([true, false]);
  });

  function compiled(
    request: Parameters<typeof compileBucket>[0],
  ): ReturnType<typeof compileBucket> | undefined {
    try {
      return compileBucket(request);
    } catch (error) {
      if (error instanceof LimiterError) return undefined;
      throw error;
    }
  }
});
