import { keyName, tagOf } from '#limiter/stores/redis/protocol.js';
import { rendezvous } from '#limiter/stores/redis/rendezvous.js';
import { createLimiter, tokenBucket, type Limit, type Limiter } from 'spillgate';
import { redisStore, type RedisStoreOptions } from 'spillgate/redis';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { eventually, startShards, type Shards } from '../servers.ts';
import { expectAccounted, expectInTime, expectOnlyVictims, expectRecovery } from './expectations.ts';
import { FaultRun } from './fault-run.ts';
import { patiently } from './patience.ts';
import { Proxy } from './proxy.ts';
import { SINGLE_LIMITS, TWO_SIDED_LIMITS } from './traffic.ts';

/** Errors come at once; only a machine that stands still could make a check of another shard wait that long. */
const DEADLINE_MS = 5000;
const PREFIX = 'spillgate:';
const NAMES = ['a', 'b', 'c'];

let shards: Shards;
let options: RedisStoreOptions;

beforeEach(async () => {
  shards = await startShards(NAMES.length, { config: ['appendonly yes', 'appendfsync no'] });
  options = { shards: shards.servers.map(({ url }, at) => ({ name: NAMES[at], url })) };
});

afterEach(async () => {
  await shards.stop();
});

const shardOf = rendezvous(NAMES.map((name) => ({ name, weight: 1 })));

function nameOfShard(limit: Limit): string {
  return shardOf(tagOf(keyName(PREFIX, limit))).name;
}

describe('a shard that dies under load', () => {
  test.each([
    ['one limit', SINGLE_LIMITS],
    ['limits on two shards', TWO_SIDED_LIMITS],
  ])('costs only checks that need it: %s', async (_what, limits) => {
    const [victim] = shards.servers;
    const run = await FaultRun.start(options, 'failClosed', DEADLINE_MS);
    try {
      const report = await run.suffer({
        strike: async () => victim?.kill(),
        heal: async () => victim?.restart(),
        expected: ({ status, nodes }) => status === 'degraded' && nodes[0]?.status === 'down',
        limits,
      });

      expectInTime(report);
      expect(report.statuses.join(' ')).toMatch(/^(up )?degraded$/);
      expect(report.during.nodes.map(({ status }) => status)).toEqual(['down', 'up', 'up']);
      expectOnlyVictims(
        report,
        limits.flat().filter((limit) => nameOfShard(limit) === 'a'),
      );
      expectRecovery(report);
      await expectAccounted(options, run.answers);
    } finally {
      await run.close();
    }
  });
});

describe('a check on two shards', () => {
  const wide = tokenBucket({ name: 'wide', average: 1, burst: 1000, period: '1h' });
  const narrow = tokenBucket({ name: 'narrow', average: 1, burst: 15, period: '1h' });
  const left = limitOn('a', wide);
  const right = limitOn('b', narrow);
  let proxy: Proxy;
  let limiter: Limiter;

  beforeEach(async () => {
    const [a, b, c] = shards.servers;
    proxy = await Proxy.start({ port: b?.port ?? 0 });
    const store = redisStore({
      timeoutMs: DEADLINE_MS,
      shards: [
        { name: 'a', url: a?.url },
        { name: 'b', url: proxy.url },
        { name: 'c', url: c?.url },
      ],
    });
    limiter = createLimiter({ store, failurePolicy: 'failClosed', deadlineMs: DEADLINE_MS });
    await store.ready();
  });

  afterEach(async () => {
    await limiter.close();
    await proxy.stop();
  });

  test('of which one side runs out admits exactly what it had, and gives the rest back on the other side', async () => {
    const decisions = await Promise.all(Array.from({ length: 64 }, () => limiter.check([left, right])));

    expect(decisions.filter(({ degraded }) => degraded)).toEqual([]);
    expect(decisions.filter(({ allowed }) => allowed)).toHaveLength(15);
    await expectSpent({ left: 15, right: 15 });
  });

  test('whose second half never arrives gives the first half back', async () => {
    proxy.judge((chunk) => (chunk.includes('\r\ncheck ') ? 'lost' : 'delivered'));

    const decision = await limiter.check([left, right]);

    expect(decision).toMatchObject({ allowed: false, degraded: true, source: 'failurePolicy' });
    await expectSpent({ left: 0, right: 0 });
  });

  test('whose second half is charged without an answer gives the first half back, and does not try again', async () => {
    proxy.judge((chunk) => (chunk.includes('\r\ncheck ') ? 'unanswered' : 'delivered'));

    const decision = await limiter.check([left, right]);

    expect(decision).toMatchObject({ allowed: false, degraded: true, source: 'failurePolicy' });
    await expectSpent({ left: 0, right: 1 });
  });

  function limitOn(shard: string, policy: typeof wide): Limit {
    const limit = Array.from({ length: 100 }, (_, at) => policy.for(`key-${at}`)).find(
      (candidate) => nameOfShard(candidate) === shard,
    );
    if (limit === undefined) throw new Error(`No key of a hundred lives on shard ${shard}`);
    return limit;
  }

  /** What is given back is aged: for as long as it was held, a little less of it comes back. */
  async function expectSpent(expected: { readonly left: number; readonly right: number }): Promise<void> {
    await patiently(options, async (auditor) => {
      const look = async () => ({
        left: left.plan.limit - (await auditor.peek(left)).remaining,
        right: right.plan.limit - (await auditor.peek(right)).remaining,
      });
      await eventually('it is given back', async () => {
        return JSON.stringify(await look()) === JSON.stringify(expected);
      }).catch(() => undefined);
      expect(await look()).toEqual(expected);
    });
  }
});
