import { createLimiter, tokenBucket, type Limiter } from 'spillgate';
import { redisStore, type RedisStoreOptions } from 'spillgate/redis';
import { afterEach, describe, expect, test } from 'vitest';
import {
  elementsOf,
  eventually,
  startCluster,
  startRedis,
  startReplicated,
  type RedisServer,
} from '../servers.ts';

const HOUR_MS = 3_600_000;
/** As long as a used-up `api` takes to be full. */
const REFILL_MS = 10_000;
/** Longer than any machine holds a test up between two lines, and still far from an hour. */
const SLACK_MS = 60_000;
const BURST = 100;

/** Ten per second: 30 s refill it whole, half a second refills 5. */
const api = tokenBucket({ name: 'api', average: 10, burst: BURST, period: '1s' });
const closing: (() => Promise<unknown>)[] = [];

afterEach(async () => {
  for (const close of closing.splice(0).toReversed()) await close();
});

async function openLimiter(options: RedisStoreOptions): Promise<Limiter> {
  const store = redisStore(options);
  const limiter = createLimiter({ store, failurePolicy: 'failClosed', deadlineMs: SLACK_MS });
  closing.push(() => limiter.close());
  await store.ready();
  return limiter;
}

/** How many of `tries` are admitted, one after the other. */
async function admitted(limiter: Limiter, tries: number): Promise<number> {
  let count = 0;
  for (let asked = 0; asked < tries; asked += 1) if ((await limiter.check(api.for('k'))).allowed) count += 1;
  return count;
}

async function serverMs(server: RedisServer): Promise<number> {
  const [seconds, micros] = elementsOf(await server.command('TIME')).map(Number);
  return (seconds ?? 0) * 1000 + (micros ?? 0) / 1000;
}

describe('a server whose clock differs', () => {
  test.for([
    ['back by an hour', -HOUR_MS],
    ['ahead by 30 seconds', 30_000],
  ] as const)('really is %s', async ([, byMs]) => {
    const server = await startRedis({ ownClock: true });
    closing.push(() => server.stop());
    server.setClock(byMs);
    const differenceMs = (await serverMs(server)) - Date.now();
    expect(Math.abs(differenceMs - byMs)).toBeLessThan(SLACK_MS / 4);
  });

  test('steps back by an hour: a key that was hardly used is not locked out', async () => {
    const server = await startRedis({ ownClock: true });
    closing.push(() => server.stop());
    const limiter = await openLimiter({ url: server.url });
    expect(await admitted(limiter, 1)).toBe(1);

    server.setClock(-HOUR_MS);
    const decision = await limiter.check(api.for('k'), { cost: BURST });

    expect(decision.retryAfterMs).toBeLessThanOrEqual(REFILL_MS);
  });

  test('steps back by an hour: a key that was used up gets nothing for it', async () => {
    const server = await startRedis({ ownClock: true });
    closing.push(() => server.stop());
    const slow = tokenBucket({ name: 'slow', average: 1, burst: 5, period: '1h' });
    const limiter = await openLimiter({ url: server.url });
    expect((await limiter.check(slow.for('k'), { cost: 5 })).allowed).toBe(true);

    server.setClock(-HOUR_MS);

    expect((await limiter.check(slow.for('k'))).allowed).toBe(false);
  });

  test('a failover to a server that is behind by an hour locks nobody out and admits nothing', async () => {
    const group = await startReplicated({ ownClock: true });
    closing.push(() => group.stop());
    const [master, replica] = group.servers;
    replica.setClock(-HOUR_MS);
    const limiter = await openLimiter({
      sentinel: { urls: group.sentinels.map(({ url }) => url), name: group.masterName },
    });
    const before = await admitted(limiter, 1);
    expect(before).toBe(1);
    await eventually('the replica has the key', async () => Number(await replica.command('DBSIZE')) > 0);

    await master.kill();
    await group.promotionAfter(master);
    await eventually('the new master decides', async () => !(await limiter.peek(api.for('k'))).degraded);
    const decision = await limiter.check(api.for('k'), { cost: BURST });

    expect(decision.degraded).toBe(false);
    expect(decision.retryAfterMs).toBeLessThanOrEqual(REFILL_MS);
  });

  test('a failover to a server that is ahead by 30 seconds refills what refills in that time: one burst', async () => {
    const group = await startReplicated({ ownClock: true });
    closing.push(() => group.stop());
    const [master, replica] = group.servers;
    replica.setClock(30_000);
    const day = tokenBucket({ name: 'day', average: 1, burst: 50, period: '15s' });
    const limiter = await openLimiter({
      sentinel: { urls: group.sentinels.map(({ url }) => url), name: group.masterName },
    });
    expect((await limiter.check(day.for('k'), { cost: 50 })).allowed).toBe(true);
    await eventually('the replica has the key', async () => Number(await replica.command('DBSIZE')) > 0);

    await master.kill();
    await group.promotionAfter(master);
    await eventually('the new master decides', async () => !(await limiter.peek(day.for('k'))).degraded);
    const { remaining } = await limiter.peek(day.for('k'));

    // Two in 30 s, and what the machine took for all of this.
    expect(remaining).toBeGreaterThanOrEqual(2);
    expect(remaining).toBeLessThan(2 + SLACK_MS / 15_000);
  });

  test('a slot that moves to a server that is behind by an hour locks nobody out', async () => {
    const cluster = await startCluster(3, { ownClock: true });
    closing.push(() => cluster.stop());
    const limiter = await openLimiter({ cluster: { urls: cluster.masters.map(({ url }) => url) } });
    expect(await admitted(limiter, 1)).toBe(1);
    const [key] = (await Promise.all(cluster.masters.map((node) => node.command('KEYS', '*')))).flatMap(
      (found) => elementsOf(found).map(String),
    );
    const slot = await cluster.slotOf(key ?? '');
    const owner = await cluster.ownerOf(slot);
    const target = cluster.masters.find((node) => node !== owner);
    if (target === undefined) throw new Error('one master only');

    target.setClock(-HOUR_MS);
    await cluster.moveSlot(slot, target);
    await eventually('the slot is served', async () => !(await limiter.peek(api.for('k'))).degraded);
    const decision = await limiter.check(api.for('k'), { cost: BURST });

    expect(decision.retryAfterMs).toBeLessThanOrEqual(REFILL_MS);
  });
});
