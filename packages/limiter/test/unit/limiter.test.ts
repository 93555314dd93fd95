import * as fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import {
  createLimiter,
  fixedWindow,
  leakyBucket,
  slidingWindowLog,
  tokenBucket,
  type Decision,
  type Limiter,
} from '../../src/index.ts';
import { virtualClock, type VirtualClock } from '../../src/testing/index.ts';
import { TENS } from './policies.ts';
import { remoteStore } from './remote-store.ts';

const perUser = fixedWindow({ name: 'user', quota: 10, window: '1m' });
const perTenant = fixedWindow({ name: 'tenant', quota: 1, window: '1h' });

function newLimiter(): { limiter: Limiter; clock: VirtualClock } {
  const clock = virtualClock();
  return { limiter: createLimiter({ clock }), clock };
}

describe('several limits', () => {
  test('all limits are charged or none', async () => {
    const { limiter } = newLimiter();
    const limits = [perUser.for('ann'), perTenant.for('acme')]; // quotas 10 and 1
    await limiter.check(limits);

    const second = await limiter.check(limits);

    expect(second.allowed).toBe(false);
    expect((await limiter.peek(perUser.for('ann'))).remaining).toBe(9); // not 8: the denied request spent nothing
  });

  test('all or none holds whichever limit denies', async () => {
    const { limiter } = newLimiter();
    await limiter.check(perTenant.for('acme'));

    const denied = await limiter.check([perTenant.for('acme'), perUser.for('ann')]);
    const deniedToo = await limiter.check([perUser.for('ann'), perTenant.for('acme'), perUser.for('bob')]);

    expect([denied.allowed, deniedToo.allowed]).toEqual([false, false]);
    expect((await limiter.peek([perUser.for('ann'), perUser.for('bob')])).remaining).toBe(10);
  });

  test('all or none holds for random batches of every algorithm', async () => {
    const limits = fc.uniqueArray(fc.tuple(fc.constantFrom(...TENS), fc.constantFrom('a', 'b')), {
      minLength: 1,
      maxLength: 6,
      selector: ([policy, key]) => `${policy.name} ${key}`,
    });
    const batch = fc.record({ limits, cost: fc.integer({ min: 0, max: 11 }) });
    await fc.assert(
      fc.asyncProperty(fc.array(batch, { maxLength: 12 }), async (batches) => {
        const { limiter } = newLimiter();
        const spent = new Map<string, number>();
        for (const { limits: pairs, cost } of batches) {
          const names = pairs.map(([policy, key]) => `${policy.name} ${key}`);
          const fits = names.every((name) => (spent.get(name) ?? 0) + cost <= 10) || cost === 0;

          const decision = await limiter.check(
            pairs.map(([policy, key]) => policy.for(key)),
            { cost },
          );

          if (fits) for (const name of names) spent.set(name, (spent.get(name) ?? 0) + cost);
          expect(decision.allowed).toBe(fits);
          expect(decision.verdicts.map((verdict) => verdict.remaining)).toEqual(
            names.map((name) => 10 - (spent.get(name) ?? 0)),
          );
        }
      }),
    );
    expect.hasAssertions();
  });

  test('the limit that denied speaks', async () => {
    const { limiter } = newLimiter();
    const limits = [perUser.for('ann'), perTenant.for('acme')];
    await limiter.check(limits);

    const denied = await limiter.check(limits);

    expect(denied).toMatchObject({ policy: 'tenant', key: 'acme', limit: 1, remaining: 0 });
    expect(denied.verdicts).toMatchObject([
      { policy: 'user', key: 'ann', allowed: true, limit: 10, remaining: 9, retryAfterMs: 0 },
      { policy: 'tenant', key: 'acme', allowed: false, limit: 1, remaining: 0 },
    ]);
  });

  test('of several that denied, the one with the longest wait speaks, wherever it stands', async () => {
    const { limiter } = newLimiter();
    const short = slidingWindowLog({ name: 'short', quota: 1, window: '1s' });
    const long = slidingWindowLog({ name: 'long', quota: 1, window: '1d' });
    await limiter.check([short.for('ann'), long.for('ann')]);

    const oneWay = await limiter.check([short.for('ann'), long.for('ann')]);
    const otherWay = await limiter.check([long.for('ann'), short.for('ann')]);

    expect([oneWay.policy, otherWay.policy]).toEqual(['long', 'long']);
    expect([oneWay.retryAfterMs, otherWay.retryAfterMs]).toEqual([86_400_000, 86_400_000]);
    expect(oneWay.verdicts.map((verdict) => verdict.retryAfterMs)).toEqual([1000, 86_400_000]);
  });

  test('a client that waits the longest wait is admitted by all of them', async () => {
    const { limiter, clock } = newLimiter();
    const limits = TENS.map((policy) => policy.for('ann'));
    await limiter.check(limits, { cost: 10 });
    const denied = await limiter.check(limits, { cost: 7 });

    clock.set(clock() + Math.round(denied.retryAfterMs * 1000) - 1);
    const early = await limiter.check(limits, { cost: 7 });
    clock.set(clock() + 1);
    const inTime = await limiter.check(limits, { cost: 7 });

    expect([denied.allowed, early.allowed, inTime.allowed]).toEqual([false, false, true]);
    expect(early.retryAfterMs).toBe(0.001);
  });

  test('never, when any limit can never admit the cost', async () => {
    const { limiter } = newLimiter();

    const decision = await limiter.check([perUser.for('ann'), perTenant.for('acme')], { cost: 2 });

    expect(decision).toMatchObject({ allowed: false, policy: 'tenant', retryAfterMs: Infinity });
  });

  test('when all admit, the one with the least left speaks, the first of equals', async () => {
    const { limiter } = newLimiter();
    await limiter.check(perUser.for('bob'), { cost: 7 });

    const decision = await limiter.check([perUser.for('ann'), perUser.for('bob'), perUser.for('cyd')]);
    const equals = await limiter.peek([perUser.for('cyd'), perUser.for('ann')]);

    expect(decision).toMatchObject({ allowed: true, key: 'bob', remaining: 2, retryAfterMs: 0 });
    expect(equals.key).toBe('cyd');
  });

  test('an admitted request waits for the slowest of its queues', async () => {
    const { limiter } = newLimiter();
    const quick = leakyBucket({ name: 'quick', average: 10, period: '1s', maxDelay: '1m' });
    const slow = leakyBucket({ name: 'slow', average: 1, period: '1s', maxDelay: '1m' });
    const limits = [slow.for('ann'), quick.for('ann')];
    await limiter.check(limits);

    const second = await limiter.check(limits);

    expect(second.verdicts.map((verdict) => verdict.delayMs)).toEqual([1000, 100]);
    expect(second.delayMs).toBe(1000);
  });

  test('an array that is changed while the store decides changes nothing', async () => {
    const clock = virtualClock();
    const store = remoteStore(clock);
    const limiter = createLimiter({ clock, store });
    const limits = [perUser.for('ann'), perUser.for('bob')];

    const pending = limiter.check(limits);
    limits.push(perUser.for('cyd'));
    const decision = await pending;

    expect(decision).toMatchObject({ source: 'store', degraded: false });
    expect(decision.verdicts.map((verdict) => verdict.key)).toEqual(['ann', 'bob']);
    expect((await limiter.peek(perUser.for('cyd'))).remaining).toBe(10);
  });

  test('verdicts come in the order of the limits', async () => {
    const { limiter } = newLimiter();
    const limits = TENS.map((policy, at) => policy.for(`key ${at}`));

    const decision = await limiter.check(limits);

    expect(decision.verdicts.map(({ policy, key }) => `${policy} ${key}`)).toEqual(
      TENS.map(({ name }, at) => `${name} key ${at}`),
    );
  });
});

describe.each(TENS)('$algorithm', (policy) => {
  test('100 concurrent checks against a capacity of 10 pass exactly 10, 50 times in a row', async () => {
    const { limiter } = newLimiter();
    const counts: number[] = [];

    for (let round = 0; round < 50; round += 1) {
      const checks = Array.from({ length: 100 }, () => limiter.check(policy.for(`round ${round}`)));
      counts.push(countAllowed(await Promise.all(checks)));
    }

    expect(counts).toEqual(Array.from({ length: 50 }, () => 10));
  });

  test('100 concurrent checks through a store that has to be waited for pass exactly 10 too', async () => {
    const clock = virtualClock();
    const limiter = createLimiter({ clock, store: remoteStore(clock) });

    const checks = Array.from({ length: 100 }, () => limiter.check(policy.for('crowd')));

    expect(countAllowed(await Promise.all(checks))).toBe(10);
  });

  test('peek answers as check would and spends nothing', async () => {
    const { limiter } = newLimiter();
    await limiter.check(policy.for('ann'), { cost: 4 });

    const looks = [
      await limiter.peek(policy.for('ann'), { cost: 6 }),
      await limiter.peek(policy.for('ann'), { cost: 7 }),
    ];
    const spends = [
      await limiter.check(policy.for('ann'), { cost: 7 }),
      await limiter.check(policy.for('ann'), { cost: 6 }),
    ];

    expect(looks.map((look) => look.allowed)).toEqual([true, false]);
    expect(looks[1]?.retryAfterMs).toBe(spends[0]?.retryAfterMs);
    expect(spends.map((spend) => spend.allowed)).toEqual([false, true]);
  });

  test('a cost of 0 is always allowed and never writes', async () => {
    const { limiter } = newLimiter();

    const unused = await limiter.check(policy.for('ann'), { cost: 0 });
    const keys = (await limiter.health()).nodes[0]?.detail;
    await limiter.check(policy.for('bob'), { cost: 10 });
    const drained = await limiter.check(policy.for('bob'), { cost: 0 });

    expect(unused).toMatchObject({ allowed: true, remaining: 10, resetAfterMs: 0, retryAfterMs: 0 });
    expect(keys).toMatch(/^0 of /);
    expect(drained).toMatchObject({ allowed: true, remaining: 0, retryAfterMs: 0 });
  });

  test('a cost above the limit is never admitted, and leaves the limit as it was', async () => {
    const { limiter } = newLimiter();

    const oversized = await limiter.check(policy.for('ann'), { cost: 11 });

    expect(oversized).toMatchObject({ allowed: false, retryAfterMs: Infinity, remaining: 10, limit: 10 });
    expect((await limiter.check(policy.for('ann'), { cost: 10 })).allowed).toBe(true);
  });

  test('a denial writes nothing: polling neither prolongs nor shortens the wait', async () => {
    const { limiter, clock } = newLimiter();
    await limiter.check(policy.for('ann'), { cost: 10 });
    const first = await limiter.check(policy.for('ann'), { cost: 10 });
    const dueUs = clock() + Math.round(first.retryAfterMs * 1000);
    const polled: number[] = [];

    for (const share of [0.1, 0.5, 0.9, 0.999]) {
      clock.set(dueUs - Math.floor(first.retryAfterMs * 1000 * (1 - share)));
      const again = await limiter.check(policy.for('ann'), { cost: 10 });
      polled.push(clock() + Math.round(again.retryAfterMs * 1000));
    }

    expect(polled).toEqual([dueUs, dueUs, dueUs, dueUs]);
  });

  test('after resetAfterMs the limit is as if never used', async () => {
    const { limiter, clock } = newLimiter();
    const { resetAfterMs } = await limiter.check(policy.for('ann'), { cost: 3 });

    clock.set(clock() + Math.round(resetAfterMs * 1000) - 1);
    const before = await limiter.peek(policy.for('ann'));
    clock.set(clock() + 1);
    const after = await limiter.peek(policy.for('ann'));

    expect(before.resetAfterMs).toBe(0.001);
    expect(after).toMatchObject({ remaining: 10, resetAfterMs: 0 });
  });

  test('checkSync decides as check does', async () => {
    const [one, other] = [newLimiter().limiter, newLimiter().limiter];

    const now = [1, 10, 0].map((cost) => one.checkSync(policy.for('ann'), { cost }));
    const later = [];
    for (const cost of [1, 10, 0]) later.push(await other.check(policy.for('ann'), { cost }));

    expect(now).toEqual(later);
  });
});

describe('forget', () => {
  test('makes the named limits as if never used, and no other', async () => {
    const { limiter } = newLimiter();
    const all = ['ann', 'bob'].flatMap((key) => TENS.map((policy) => policy.for(key)));
    await limiter.check(all, { cost: 10 });

    await limiter.forget(TENS.map((policy) => policy.for('ann')));

    const { verdicts } = await limiter.peek(all);
    expect(verdicts.map((verdict) => verdict.remaining)).toEqual([10, 10, 10, 10, 10, 0, 0, 0, 0, 0]);
  });

  test('of what was never used is no mistake', async () => {
    const { limiter } = newLimiter();

    await expect(limiter.forget(perUser.for('nobody'))).resolves.toBeUndefined();
  });
});

describe('health and close', () => {
  test('health says how many keys are in use', async () => {
    const { limiter } = newLimiter();
    await limiter.check([perUser.for('ann'), perTenant.for('acme')]);

    expect(await limiter.health()).toEqual({
      status: 'up',
      nodes: [{ name: 'memory', status: 'up', detail: '2 of 1000000 keys' }],
    });
  });

  test('health, forget and close reach the store; close reaches it once', async () => {
    const clock = virtualClock();
    const store = remoteStore(clock);
    const limiter = createLimiter({ clock, store });

    await limiter.health();
    await limiter.forget(perUser.for('ann'));
    await Promise.all([limiter.close(), limiter.close()]);
    await limiter.close();

    expect(store.calls).toEqual(['health', 'forget', 'close']);
  });

  test('after close every call is an error, and checkSync throws it', async () => {
    const { limiter } = newLimiter();

    await limiter.close();

    expect(() => limiter.checkSync(perUser.for('ann'))).toThrow(
      expect.objectContaining({ code: 'LIMITER_CLOSED' }),
    );
    await expect(limiter.check(perUser.for('ann'))).rejects.toMatchObject({ code: 'LIMITER_CLOSED' });
  });
});

test('a decision names its source, and is not degraded while the store decides', async () => {
  const { limiter } = newLimiter();
  const api = tokenBucket({ name: 'api', average: 1, burst: 2, period: '1s' });

  const decision = await limiter.check(api.for('ann'));

  expect({ ...decision, verdicts: decision.verdicts }).toEqual({
    policy: 'api',
    key: 'ann',
    allowed: true,
    limit: 2,
    remaining: 1,
    retryAfterMs: 0,
    resetAfterMs: 1000,
    delayMs: 0,
    verdicts: [expect.objectContaining({ policy: 'api', key: 'ann', remaining: 1 })],
    source: 'store',
    degraded: false,
    cause: undefined,
  });
});

test('a decision about one limit and one about several are written as JSON with their verdicts', async () => {
  const { limiter } = newLimiter();
  const api = tokenBucket({ name: 'api', average: 1, burst: 2, period: '1s' });
  const decisions = [
    await limiter.check(api.for('ann')),
    await limiter.check([api.for('bob'), api.for('eve')]),
  ];

  for (const decision of decisions) {
    const written = JSON.parse(JSON.stringify(decision)) as Decision;

    expect(written).toMatchObject({ policy: 'api', source: 'store' });
    // JSON has no word for a penalty that there is not.
    expect(written.verdicts).toEqual(decision.verdicts);
  }
});

function countAllowed(decisions: readonly Decision[]): number {
  return decisions.filter((decision) => decision.allowed).length;
}
