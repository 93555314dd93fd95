import { Redis } from 'ioredis';
import { createClient } from 'redis';
import { createLimiter, tokenBucket, type Limiter } from 'spillgate';
import { redisStore, type RedisStoreOptions } from 'spillgate/redis';
import { afterEach, beforeAll, describe, expect, test, vi } from 'vitest';
import { PATIENCE_MS } from '../../patience.ts';
import { startCluster, startRedis, startReplicated } from '../servers.ts';
import { Proxy } from './proxy.ts';

/**
 * A connection takes several answers, a decision takes one, which leaves a busy machine some time before the deadline.
 */
const FAR_MS = 200;
const DEADLINE_MS = 350;
const CHECKS = 20;
const BURST = 3;

const api = tokenBucket({ name: 'api', average: 1, burst: BURST, period: '1h' });

beforeAll(async () => {
  await Promise.all([import('ioredis'), import('redis')]);
});

const cleanups: (() => unknown)[] = [];

afterEach(async () => {
  for (const cleanup of cleanups.splice(0).toReversed()) await cleanup();
});

function open(options: RedisStoreOptions): Limiter {
  // Whatever the failure policy answers is one admission too many.
  const limiter = createLimiter({
    store: redisStore({ connectTimeoutMs: PATIENCE_MS, ...options }),
    failurePolicy: 'passThrough',
    deadlineMs: DEADLINE_MS,
  });
  cleanups.push(() => limiter.close());
  return limiter;
}

async function far(port: number): Promise<Proxy> {
  const proxy = await Proxy.start({ port, delayMs: FAR_MS });
  cleanups.push(() => proxy.stop());
  return proxy;
}

async function startFar(): Promise<Proxy> {
  const server = await startRedis();
  cleanups.push(() => server.stop());
  return far(server.port);
}

/** Holds up the process before what it does in a later turn, as a machine does that runs something else. */
function standStill(ms: number): void {
  const { setImmediate } = globalThis;
  const spy = vi.spyOn(globalThis, 'setImmediate').mockImplementation((act: () => void) =>
    setImmediate(() => {
      const endMs = performance.now() + ms;
      while (performance.now() < endMs);
      act();
    }),
  );
  cleanups.push(() => spy.mockRestore());
}

const PLACES: Readonly<Record<string, () => Promise<RedisStoreOptions>>> = {
  'a server far away, with ioredis': async () => ({ url: (await startFar()).url }),
  'a server far away, with redis': async () => ({ url: (await startFar()).url, clientPackage: 'redis' }),
  'a client of ioredis that is still connecting': async () => {
    const client = new Redis((await startFar()).url);
    cleanups.push(() => client.disconnect());
    return { client };
  },
  'a client of redis that is still connecting': async () => {
    const client = createClient({ url: (await startFar()).url });
    cleanups.push(() => client.destroy());
    client.connect().catch(() => undefined);
    return { client };
  },
  'shards far away': async () => ({ shards: [(await startFar()).url, (await startFar()).url] }),
  'a master among its replicas far away': async () => {
    const group = await startReplicated();
    cleanups.push(() => group.stop());
    const servers = await Promise.all(group.servers.map(({ port }) => far(port)));
    return { replication: { urls: servers.map(({ url }) => url).toReversed() } };
  },
  'a master behind sentinels far away': async () => {
    const group = await startReplicated();
    cleanups.push(() => group.stop());
    const sentinels = await Promise.all(group.sentinels.map(({ port }) => far(port)));
    return { sentinel: { urls: sentinels.map(({ url }) => url), name: group.masterName } };
  },
  'a cluster whose seed is far away': async () => {
    const cluster = await startCluster(3);
    cleanups.push(() => cluster.stop());
    return { cluster: { urls: [(await far(cluster.nodes[0]?.port ?? 0)).url] } };
  },
};

describe('the first checks of a process', () => {
  test.each(Object.entries(PLACES))('are decided by %s, not by the failure policy', async (_name, place) => {
    const limiter = open(await place());

    const decisions = await Promise.all(Array.from({ length: CHECKS }, () => limiter.check(api.for('k'))));

    expect(decisions.filter(({ degraded }) => degraded)).toEqual([]);
    expect(decisions.filter(({ allowed }) => allowed)).toHaveLength(BURST);
  });

  test('may be looks and ends of a state as well', async () => {
    const { url } = await startFar();

    expect((await open({ url }).peek(api.for('k'))).degraded).toBe(false);
    await expect(open({ url }).forget(api.for('k'))).resolves.toBeUndefined();
  });

  test('and all others of a server further away than usual need a longer deadline, and nothing else', async () => {
    const proxy = await startFar();
    const limiter = createLimiter({
      store: redisStore({ url: proxy.url }),
      failurePolicy: 'failClosed',
      deadlineMs: 5000,
    });
    cleanups.push(() => limiter.close());
    expect((await limiter.check(api.for('k'))).degraded).toBe(false);

    // More than the 50 ms that a call may take by default.
    proxy.delay(100);

    expect((await limiter.check(api.for('k'))).degraded).toBe(false);
  });

  test('have time in a process that stands still before it asks', async () => {
    const server = await startRedis();
    cleanups.push(() => server.stop());
    const limiter = open({ url: server.url });
    standStill(DEADLINE_MS);

    const first = await limiter.check(api.for('k'));
    // What is asked right after an answer leaves in the same turn.
    await new Promise((resolve) => setImmediate(resolve));
    const second = await limiter.check(api.for('k'));

    expect(first.degraded).toBe(false);
    expect(second).toMatchObject({ degraded: true, cause: { code: 'DEADLINE_EXCEEDED' } });
  });

  test('wait no longer than opening a connection may take', async () => {
    const { url } = await startFar();
    const limiter = open({ url, connectTimeoutMs: FAR_MS / 4, timeoutMs: FAR_MS / 4 });

    expect(await limiter.check(api.for('k'))).toMatchObject({ degraded: true });
  });

  test('do not wait where that is not wanted', async () => {
    const { url } = await startFar();
    const limiter = open({ url, waitForConnection: false, timeoutMs: 10 * DEADLINE_MS });

    expect(await limiter.check(api.for('k'))).toMatchObject({
      degraded: true,
      cause: { code: 'DEADLINE_EXCEEDED' },
    });
  });

  test('are answered at once where nothing listens', async () => {
    const limiter = open({ url: 'redis://127.0.0.1:1', connectTimeoutMs: 20_000 });

    expect(await limiter.check(api.for('k'))).toMatchObject({
      degraded: true,
      cause: { message: expect.stringContaining('ECONNREFUSED') },
    });
  });

  test('end with their caller, who is not charged', async () => {
    const { url } = await startFar();
    const limiter = open({ url });
    const leaving = new AbortController();

    const check = limiter.check(api.for('k'), { signal: leaving.signal });
    leaving.abort(new Error('gone'));

    await expect(check).rejects.toThrow('gone');
    expect(await limiter.peek(api.for('k'))).toMatchObject({ degraded: false, remaining: BURST });
  });
});
