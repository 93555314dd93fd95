import * as client from 'prom-client';
import { createLimiter, tokenBucket, type Limiter } from 'spillgate';
import { collectMetrics } from 'spillgate/prometheus';
import { redisStore, type RedisStoreOptions } from 'spillgate/redis';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { eventually, startCluster, startRedis, startShards, type RedisServer } from '../servers.ts';

const api = tokenBucket({ name: 'api', average: 1_000_000, burst: 1_000_000, period: '1s' });
const once = tokenBucket({ name: 'once', average: 1, burst: 1, period: '1h' });

let registry: client.Registry;
let limiter: Limiter;

beforeEach(() => {
  registry = new client.Registry();
});

afterEach(async () => {
  await limiter.close();
});

/** Long enough that a busy machine adds no errors of its own. */
const PATIENCE_MS = 5000;

async function collect(servers: Pick<RedisStoreOptions, 'url' | 'shards' | 'cluster'>): Promise<void> {
  const store = redisStore({ ...servers, timeoutMs: PATIENCE_MS });
  limiter = createLimiter({ store, failurePolicy: 'inMemoryFallback', deadlineMs: PATIENCE_MS });
  collectMetrics(limiter, { client, registry });
  await store.ready();
}

/** The sum of the series of a metric that have all these labels; undefined if there is none. */
async function value(
  metric: string,
  labels: Readonly<Record<string, string>> = {},
): Promise<number | undefined> {
  const lines = (await registry.metrics()).split('\n').filter((line) => line.startsWith(`${metric}{`));
  const wanted = Object.entries(labels).map(([label, text]) => `${label}="${text}"`);
  const values = lines
    .filter((line) => wanted.every((label) => line.includes(label)))
    .map((line) => Number(line.slice(line.lastIndexOf(' '))));
  return values.length === 0 ? undefined : values.reduce((sum, each) => sum + each, 0);
}

function nameOf({ host, port }: RedisServer): string {
  return `${host}:${port}`;
}

describe('one server', () => {
  let server: RedisServer;
  let checks: number;

  beforeEach(async () => {
    server = await startRedis();
    checks = 0;
    await collect({ url: server.url });
  });

  afterEach(async () => {
    await server.stop();
  });

  /** Checks until something shows in the metrics. */
  async function checkUntil(what: string, shows: () => Promise<boolean>): Promise<void> {
    await eventually(what, async () => {
      await limiter.check(api.for('ann'));
      checks += 1;
      return shows();
    });
  }

  test('shows what the store decided, how long it took, and that the server is up', async () => {
    for (const key of ['ann', 'ann', 'bob']) await limiter.check(once.for(key));

    expect(
      await value('spillgate_decisions_total', { policy: 'once', outcome: 'allowed', source: 'store' }),
    ).toBe(2);
    expect(
      await value('spillgate_decisions_total', { policy: 'once', outcome: 'denied', source: 'denialCache' }),
    ).toBe(1);
    expect(await value('spillgate_decision_duration_seconds_count', { source: 'store' })).toBe(2);
    // A round trip takes time, and not a second.
    const seconds = (await value('spillgate_decision_duration_seconds_sum')) ?? 0;
    expect(seconds).toBeGreaterThan(0.00003);
    expect(seconds).toBeLessThan(1);
    expect(await value('spillgate_node_up', { node: nameOf(server) })).toBe(1);
    expect(await value('spillgate_script_reloads_total', { node: nameOf(server) })).toBeGreaterThanOrEqual(1);
    expect(await value('spillgate_store_errors_total')).toBe(0);
  });

  test('a crash and the way back show in every metric, and every check is counted exactly once', async () => {
    const node = nameOf(server);
    const fromStore = async () => (await value('spillgate_decisions_total', { source: 'store' })) ?? 0;
    await checkUntil('the store decides', async () => (await fromStore()) === 3);

    await server.kill();
    const downs = async () => value('spillgate_node_transitions_total', { node, to: 'down' });
    await checkUntil('the breaker is open', async () => ((await downs()) ?? 0) > 0);
    expect(await value('spillgate_node_up', { node })).toBe(0);
    const decidedBefore = await fromStore();
    await server.restart();
    await checkUntil('the breaker is closed', async () => (await value('spillgate_node_up', { node })) === 1);
    await checkUntil('the store decides again', async () => (await fromStore()) > decidedBefore);

    expect(await downs()).toBe(1);
    expect(await value('spillgate_node_transitions_total', { node, to: 'up' })).toBe(1);
    // Once at the start and once after the crash, or more often where several calls met a server without the script.
    expect(await value('spillgate_script_reloads_total', { node })).toBeGreaterThanOrEqual(2);
    const fallbacks = await value('spillgate_decisions_total', { source: 'fallback' });
    expect(fallbacks).toBeGreaterThanOrEqual(5);
    expect(await value('spillgate_store_errors_total', { class: 'transient' })).toBe(fallbacks);
    expect(await value('spillgate_store_errors_total')).toBe(fallbacks);
    expect(await value('spillgate_decisions_total')).toBe(checks);
    expect(await value('spillgate_decision_duration_seconds_count')).toBe(checks);
  });

  test('a closed limiter shows no server any more, and its counts stay', async () => {
    await limiter.check(once.for('ann'));

    await limiter.close();

    expect(await value('spillgate_node_up')).toBeUndefined();
    expect(await value('spillgate_decisions_total')).toBe(1);
  });
});

test('of several shards, only the dead one is down', async () => {
  const shards = await startShards(2);
  try {
    const [alive, dead] = shards.servers.map(nameOf);
    await collect({ shards: shards.servers.map(({ url }) => ({ url })) });

    await shards.servers[1]?.kill();
    await eventually('the breaker of the dead shard is open', async () => {
      for (let key = 0; key < 20; key += 1) await limiter.check(api.for(`key-${key}`));
      return (await value('spillgate_node_up', { node: String(dead) })) === 0;
    });

    expect(await value('spillgate_node_up', { node: String(alive) })).toBe(1);
    expect(await value('spillgate_node_transitions_total', { node: String(dead), to: 'down' })).toBe(1);
    expect(await value('spillgate_node_transitions_total', { node: String(alive) })).toBeUndefined();
  } finally {
    await shards.stop();
  }
});

test('in a cluster every master is shown by its address, and each got the script', async () => {
  const cluster = await startCluster(3);
  try {
    await collect({ cluster: { urls: cluster.masters.map(({ url }) => url) } });

    for (let key = 0; key < 60; key += 1) await limiter.check(api.for(`key-${key}`));

    for (const node of cluster.masters.map(nameOf)) {
      expect([node, await value('spillgate_node_up', { node })]).toEqual([node, 1]);
      expect(await value('spillgate_script_reloads_total', { node })).toBeGreaterThanOrEqual(1);
    }
  } finally {
    await cluster.stop();
  }
});
