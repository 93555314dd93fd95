import { createLimiter, slidingWindowLog, tokenBucket, type Limiter } from 'spillgate';
import { redisStore, type RedisStoreOptions } from 'spillgate/redis';
import { virtualClock, type VirtualClock } from 'spillgate/testing';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { startCluster, startShards, type Cluster } from '../servers.ts';

const PATIENT_MS = 10_000;
const ten = tokenBucket({ name: 'ten', average: 10, burst: 10, period: '1h' });
const five = slidingWindowLog({ name: 'five', quota: 5, window: '1h' });

interface Servers {
  readonly place: RedisStoreOptions;
  readonly stop: () => Promise<void>;
}

const PLACES = [
  {
    name: 'slots of a cluster',
    start: async (): Promise<Servers> => {
      const cluster: Cluster = await startCluster(3);
      return { place: { cluster: { urls: [cluster.masters[0].url] } }, stop: () => cluster.stop() };
    },
  },
  {
    name: 'shards',
    start: async (): Promise<Servers> => {
      const shards = await startShards(3);
      return { place: { shards: shards.servers.map(({ url }) => url) }, stop: () => shards.stop() };
    },
  },
];

describe.each(PLACES)('limits in different $name', ({ start }) => {
  let servers: Servers;
  let limiter: Limiter;
  let clock: VirtualClock;
  let runs = 0;

  beforeAll(async () => {
    servers = await start();
  });

  afterAll(async () => {
    await servers.stop();
  });

  beforeEach(async () => {
    clock = virtualClock();
    runs += 1;
    const store = redisStore({
      ...servers.place,
      prefix: `spillgate:${runs}:`,
      clock,
      timeoutMs: PATIENT_MS,
      connectTimeoutMs: PATIENT_MS,
    });
    await store.ready();
    limiter = createLimiter({ store, failurePolicy: 'failClosed', deadlineMs: PATIENT_MS });
  });

  afterEach(async () => {
    await limiter.close();
  });

  const remainingOf = async (limit: Parameters<Limiter['peek']>[0]): Promise<number> =>
    (await limiter.peek(limit)).remaining;

  test('are charged all or none, and the verdicts come in the order they were asked', async () => {
    const limits = [ten.for('ann'), five.for('acme'), ten.for('eu'), five.for('plan')];

    const decisions = [];
    for (let call = 0; call < 7; call += 1) decisions.push(await limiter.check(limits));

    expect(decisions.map(({ allowed }) => allowed)).toEqual([true, true, true, true, true, false, false]);
    expect(decisions.at(-1)?.verdicts.map(({ policy, key, remaining }) => [policy, key, remaining])).toEqual([
      ['ten', 'ann', 5],
      ['five', 'acme', 0],
      ['ten', 'eu', 5],
      ['five', 'plan', 0],
    ]);
    expect(decisions.at(-1)?.retryAfterMs).toBe(3_600_000);
  });

  test('a crowd never gets more than the tightest of them, and nothing that was denied stays charged', async () => {
    for (let round = 0; round < 20; round += 1) {
      const wide = Array.from({ length: 4 }, (_, at) => ten.for(`user-${round}-${at}`));
      const tight = five.for(`tenant-${round}`);
      const crowd = Array.from({ length: 200 }, (_, at) => wide[at % wide.length] ?? tight);

      const decisions = await Promise.all(crowd.map((limit) => limiter.check([limit, tight])));

      const admitted = decisions.filter(({ allowed }) => allowed).length;
      expect(decisions.filter(({ degraded }) => degraded)).toEqual([]);
      expect(admitted).toBeLessThanOrEqual(5);
      expect(await remainingOf(tight)).toBe(5 - admitted);
      const spent = await Promise.all(wide.map(async (limit) => 10 - (await remainingOf(limit))));
      expect(spent.reduce((sum, tokens) => sum + tokens, 0)).toBe(admitted);
    }
  });

  test('a reservation that has to be given back is given back at its age', async () => {
    // The clock moves between the look and the refund: what the bucket would have refilled by then stays spent.
    const ageMs = 360_000;
    const limits = [ten.for('aged'), five.for('aged-tenant')];
    await limiter.check(five.for('aged-tenant'), { cost: 4 });
    await limiter.check(ten.for('aged'), { cost: 9 });

    const decisions = await Promise.all(
      Array.from({ length: 20 }, async (_, at) => {
        if (at === 10) clock.advance(ageMs);
        return limiter.check(limits);
      }),
    );

    const admitted = decisions.filter(({ allowed }) => allowed).length;
    expect(admitted).toBeLessThanOrEqual(1);
    expect(await remainingOf(five.for('aged-tenant'))).toBe(1 - admitted);
    // One token was left and one more came back in six minutes.
    expect(await remainingOf(ten.for('aged'))).toBeLessThanOrEqual(2 - admitted);
  });

  test('are forgotten together', async () => {
    const limits = [ten.for('x'), five.for('y'), ten.for('z')];
    await limiter.check(limits, { cost: 5 });

    await limiter.forget(limits);

    expect((await limiter.peek(limits)).verdicts.map(({ remaining }) => remaining)).toEqual([10, 5, 10]);
  });
});
