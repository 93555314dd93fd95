// Three plans in a file, a service of ten lines, two gateways, and an upgrade while requests come in.
import { mkdtemp, readFile, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Redis } from 'ioredis';
import { createLimiter, type Limiter } from 'spillgate';
import { redisStore } from 'spillgate/redis';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { PATIENCE_MS } from '../../../../test/patience.ts';
import { type RedisServer, startRedis } from '../../../../test/redis/servers.ts';
import type { LimitsSource } from '../../src/external/limits-source.ts';
import { createLimitsService, definePlans } from '../../src/external/limits-service/index.ts';
import { question, testSource } from './sources.ts';

// Answers live long by the clock of the test: what the machine needs meanwhile does not matter.
const TTL_MS = 1_000_000;
/** Between two rounds of requests. */
const PACE_MS = TTL_MS / 50;
const plan = definePlans({
  free: { average: 10, burst: 5, period: '1000s', cacheFor: '1000s' },
  pro: { average: 40, burst: 20, period: '1000s', cacheFor: '1000s' },
  enterprise: { average: 0, cacheFor: '1000s' },
});
type PlanName = Parameters<typeof plan>[0];

let redis: RedisServer;
let client: Redis;
beforeAll(async () => {
  redis = await startRedis();
  client = new Redis({ host: redis.host, port: redis.port });
});
afterAll(async () => {
  client.disconnect();
  await redis.stop();
});

/** Time passes for gateways, and for what they share in Redis, which counts it for itself. */
async function advance(clock: { ms: number }, ms: number): Promise<void> {
  clock.ms += ms;
  for (const name of await client.keys('*limits:*')) {
    await client.pexpire(name, Math.max(1, (await client.pttl(name)) - ms));
  }
}

interface Gateway {
  readonly source: LimitsSource;
  readonly limiter: Limiter;
}

async function passes(
  { source, limiter }: Gateway,
  key: string,
): Promise<{ allowed: boolean; limit: number }> {
  const limits = await source.limitsFor(question(key));
  if (limits.policies?.length === 0) return { allowed: true, limit: Infinity };
  const counted = `t:${limits.tenantKey ?? key}`;
  const decision = await limiter.check((limits.policies ?? []).map((policy) => policy.for(counted)));
  return { allowed: decision.allowed, limit: decision.limit };
}

test.each(['http', 'grpc'] as const)(
  'an upgrade over %s acts within the lifetime of the answer',
  async (protocol) => {
    const file = join(await mkdtemp(join(tmpdir(), 'tenants-')), 'tenants.json');
    const save = async (tenants: Readonly<Record<string, PlanName>>) =>
      writeFile(file, JSON.stringify(tenants));
    await save({ [`a-${protocol}`]: 'free', [`b-${protocol}`]: 'pro', [`c-${protocol}`]: 'enterprise' });
    let questions = 0;
    const service = createLimitsService({
      limits: async ({ key }) => {
        questions += 1;
        const tenants: unknown = JSON.parse(await readFile(file, 'utf8'));
        const name = new Map(Object.entries(tenants as Record<string, PlanName>)).get(key);
        return name && plan(name, { tenantKey: key });
      },
    });
    const { url, grpcAddress, close } = await service.listen({ port: 0, grpcPort: 0 });
    const external = protocol === 'http' ? { http: { url } } : { grpc: { address: grpcAddress } };
    const section = { endpoints: [`${redis.host}:${redis.port}`], read_timeout: '2s' };
    const clock = { ms: 1000 };
    const gateways: readonly Gateway[] = Array.from({ length: 2 }, () => ({
      source: testSource({ external, redis: section }, { now: () => clock.ms }).source,
      limiter: createLimiter({
        deadlineMs: PATIENCE_MS,
        store: redisStore({ client, timeoutMs: PATIENCE_MS, clock: () => clock.ms * 1000 }),
      }),
    }));

    const seen = new Map<string, { atMs: number; limit: number; allowed: boolean }[]>();
    const startedMs = clock.ms;
    const upgradedMs = startedMs + 0.7 * TTL_MS;
    while (clock.ms < upgradedMs + 2 * TTL_MS) {
      if (clock.ms === upgradedMs) {
        await save({ [`a-${protocol}`]: 'pro', [`b-${protocol}`]: 'pro', [`c-${protocol}`]: 'enterprise' });
      }
      for (const [at, key] of ['a', 'b', 'c', 'a', 'a'].map((name) => `${name}-${protocol}`).entries()) {
        const gateway = gateways[at % 2] ?? gateways[0];
        if (gateway === undefined) break;
        const result = await passes(gateway, key);
        seen.set(key, [...(seen.get(key) ?? []), { atMs: clock.ms, ...result }]);
      }
      await advance(clock, PACE_MS);
    }

    const ofA = seen.get(`a-${protocol}`) ?? [];
    const before = ofA.filter(({ atMs }) => atMs < upgradedMs);
    const after = ofA.filter(({ atMs }) => atMs > upgradedMs + TTL_MS);
    expect(new Set(before.map(({ limit }) => limit))).toEqual(new Set([5]));
    expect(new Set(after.map(({ limit }) => limit))).toEqual(new Set([20]));
    expect(new Set((seen.get(`b-${protocol}`) ?? []).map(({ limit }) => limit))).toEqual(new Set([20]));
    expect((seen.get(`c-${protocol}`) ?? []).every(({ allowed }) => allowed)).toBe(true);
    // Never more than the larger of the two plans would have allowed alone.
    const tookMs = clock.ms - startedMs;
    expect(ofA.filter(({ allowed }) => allowed).length).toBeLessThanOrEqual(20 + (40 * tookMs) / TTL_MS);
    // Two gateways, three tenants, some lifetimes: hundreds of requests, a handful of questions.
    expect(questions).toBeLessThanOrEqual(2 * 3 * (Math.ceil(tookMs / (TTL_MS * 0.7)) + 1));
    await Promise.all(gateways.flatMap(({ source, limiter }) => [source.close(), limiter.close()]));
    await close();
  },
);
