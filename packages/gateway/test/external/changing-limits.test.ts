import { Redis } from 'ioredis';
import * as fc from 'fast-check';
import { createLimiter, type Limiter, type Policy } from 'spillgate';
import { redisStore } from 'spillgate/redis';
import { virtualClock, type VirtualClock } from 'spillgate/testing';
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest';
import { type RedisServer, startRedis } from '../../../../test/redis/servers.ts';
import type { ObservedLimitsSource } from '../../src/external/limits-source.ts';
import { says, type ScriptedService, scriptedService } from './scripted-service.ts';
import { question, testSource } from './sources.ts';

const HTTP = { url: 'http://127.0.0.1:1/' };

let redis: RedisServer;
let client: Redis;

beforeAll(async () => {
  redis = await startRedis();
  client = new Redis({ host: redis.host, port: redis.port });
  // Many stores share it here, each with listeners of its own.
  client.setMaxListeners(0);
});
afterAll(async () => {
  client.disconnect();
  await redis.stop();
});

const limiters: Limiter[] = [];
afterEach(async () => {
  await Promise.all(limiters.splice(0).map(async (limiter) => limiter.close()));
});

interface World {
  readonly clock: VirtualClock;
  readonly limiter: Limiter;
  readonly service: ScriptedService;
  /** A gateway that has just started: it asks the service first. */
  readonly gateway: () => ObservedLimitsSource;
}

const STORES = {
  memory: (clock: VirtualClock) => createLimiter({ clock }),
  redis: (clock: VirtualClock) =>
    createLimiter({ clock, deadlineMs: 5000, store: redisStore({ client, clock, timeoutMs: 5000 }) }),
};

function worldOf(kind: keyof typeof STORES): World {
  const clock = virtualClock();
  const limiter = STORES[kind](clock);
  limiters.push(limiter);
  const service = scriptedService(async () => says({}));
  const gateway = () =>
    testSource({ external: { http: HTTP, cache_ttl: '10s' } }, { service, now: () => clock() / 1000 }).source;
  return { clock, limiter, service, gateway };
}

function bucket(average: number, burst: number) {
  return async () => says({ average, burst, period: '1s' });
}

async function policiesOf(source: ObservedLimitsSource, key: string): Promise<readonly Policy[]> {
  return (await source.limitsFor(question(key))).policies ?? [];
}

/** How many pass now, when more than can pass ask. */
async function admitted(
  limiter: Limiter,
  source: ObservedLimitsSource,
  key: string,
  tries: number,
): Promise<number> {
  let count = 0;
  for (let at = 0; at < tries; at += 1) {
    const policies = await policiesOf(source, key);
    const decision = await limiter.check(policies.map((policy) => policy.for(`t:${key}`)));
    if (decision.allowed) count += 1;
  }
  return count;
}

let unique = 0;
function freshKey(): string {
  unique += 1;
  return `tenant${unique}`;
}

describe.each(['memory', 'redis'] as const)('on %s', (kind) => {
  test('a raise frees the difference, and not a whole burst', async () => {
    const { clock, limiter, service, gateway } = worldOf(kind);
    const key = freshKey();
    service.answer = bucket(1, 10);
    const source = gateway();
    expect(await admitted(limiter, source, key, 20)).toBe(10);

    service.answer = bucket(1, 25);
    clock.advance('10s');
    // Ten seconds gave ten back: 25 fit, and not one more.
    const limits = (await policiesOf(source, key)).map((policy) => policy.for(`t:${key}`));
    expect((await limiter.check(limits, { cost: 25 })).allowed).toBe(true);
    expect(await admitted(limiter, source, key, 50)).toBe(0);
  });

  test('a raise while everything is spent frees exactly the difference', async () => {
    const { limiter, service, gateway } = worldOf(kind);
    const key = freshKey();
    service.answer = bucket(1, 10);
    expect(await admitted(limiter, gateway(), key, 20)).toBe(10);

    service.answer = bucket(1, 25);

    expect(await admitted(limiter, gateway(), key, 50)).toBe(15);
  });

  test('a lowering acts at once', async () => {
    const { clock, limiter, service, gateway } = worldOf(kind);
    const key = freshKey();
    service.answer = bucket(100, 100);
    expect(await admitted(limiter, gateway(), key, 30)).toBe(30);

    service.answer = bucket(1, 10);
    const lowered = gateway();
    expect(await admitted(limiter, lowered, key, 30)).toBe(0);
    clock.advance('1s');
    expect(await admitted(limiter, lowered, key, 30)).toBeLessThanOrEqual(10);
  });

  test('two gateways that disagree admit together what the larger of the two would alone', async () => {
    const { clock, limiter, service, gateway } = worldOf(kind);
    const key = freshKey();
    const [small, large] = [gateway(), gateway()];
    service.answer = bucket(5, 10);
    await small.limitsFor(question(key));
    service.answer = bucket(10, 30);
    await large.limitsFor(question(key));

    let total = 0;
    for (let tenth = 0; tenth < 50; tenth += 1) {
      total += await admitted(limiter, small, key, 5);
      total += await admitted(limiter, large, key, 5);
      clock.advance('100ms');
    }

    expect(total).toBeLessThanOrEqual(30 + 10 * 5);
    expect(total).toBeGreaterThan(60);
  });

  test('a quota that changes counts what was spent before', async () => {
    const { limiter, service, gateway } = worldOf(kind);
    const key = freshKey();
    const log = (quota: number) => async () => says({ algorithm: 'slidingWindowLog', quota, window: '1m' });
    service.answer = log(5);
    expect(await admitted(limiter, gateway(), key, 10)).toBe(5);
    service.answer = log(8);
    expect(await admitted(limiter, gateway(), key, 10)).toBe(3);
    service.answer = log(4);
    expect(await admitted(limiter, gateway(), key, 10)).toBe(0);
  });

  test('the static policy and the external one share what was spent', async () => {
    const { limiter, service, gateway } = worldOf(kind);
    const key = freshKey();
    service.answer = bucket(1, 10);
    const source = gateway();
    expect(await admitted(limiter, source, key, 6)).toBe(6);
    const [external] = await policiesOf(source, key);

    // What the configuration calls `default` is the same promise with other numbers.
    expect(external?.name).toBe('default');
    expect(external?.algorithm).toBe('tokenBucket');
  });

  test('whatever the service says in whatever order, never more than the largest of it', async () => {
    const change = fc.record({
      average: fc.integer({ min: 1, max: 20 }),
      burst: fc.integer({ min: 1, max: 30 }),
      waitMs: fc.integer({ min: 0, max: 700 }),
      tries: fc.integer({ min: 0, max: 12 }),
    });
    await fc.assert(
      fc.asyncProperty(fc.array(change, { minLength: 1, maxLength: 12 }), async (changes) => {
        const { clock, limiter, service, gateway } = worldOf(kind);
        const key = freshKey();
        let total = 0;
        let elapsedMs = 0;
        for (const { average, burst, waitMs, tries } of changes) {
          service.answer = bucket(average, burst);
          clock.advance(waitMs);
          elapsedMs += waitMs;
          total += await admitted(limiter, gateway(), key, tries);
        }
        const average = Math.max(...changes.map((each) => each.average));
        const burst = Math.max(...changes.map((each) => each.burst));
        await limiters.pop()?.close();
        expect(total).toBeLessThanOrEqual(burst + Math.floor((average * elapsedMs) / 1000));
      }),
      { numRuns: kind === 'memory' ? 60 : 15 },
    );
  });
});
