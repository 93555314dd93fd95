import { createLimiter, tokenBucket, type Limiter } from 'spillgate';
import { redisStore } from 'spillgate/redis';
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest';
import { eventually, startReplicated, type Replicated } from '../servers.ts';
import { Proxy } from './proxy.ts';

/** More than a decision may take. */
const FAR_MS = 80;

const api = tokenBucket({ name: 'api', average: 1000, burst: 1000, period: '1s' });
let group: Replicated;
const cleanups: (() => Promise<void>)[] = [];

beforeAll(async () => {
  group = await startReplicated();
});

afterAll(() => group.stop());

afterEach(async () => {
  for (const cleanup of cleanups.splice(0).toReversed()) await cleanup();
});

/** Of each sentinel: how far away it is, or that it believes in the wrong master. */
type Sentinel = 'near' | 'far' | 'stale' | 'dead';

async function openAmong(sentinels: readonly Sentinel[]): Promise<Limiter> {
  const [master, replica] = group.servers;
  const urls = await Promise.all(
    sentinels.map(async (kind, at) => {
      const proxy = await Proxy.start({
        port: group.sentinels[at]?.port ?? 0,
        delayMs: kind === 'far' ? FAR_MS : 0,
        rewrite: (chunk) =>
          kind === 'stale'
            ? Buffer.from(
                chunk.toString('latin1').replace(String(master.port), String(replica.port)),
                'latin1',
              )
            : chunk,
      });
      const { url } = proxy;
      if (kind === 'dead') await proxy.stop();
      else cleanups.push(() => proxy.stop());
      return url;
    }),
  );
  const limiter = createLimiter({
    store: redisStore({ sentinel: { urls, name: group.masterName } }),
    failurePolicy: 'failClosed',
  });
  cleanups.push(() => limiter.close());
  return limiter;
}

describe('of three sentinels', () => {
  test.each<readonly [string, readonly Sentinel[]]>([
    ['one that is stale and near, and two that are right and far away', ['stale', 'far', 'far']],
    ['three that are far away', ['far', 'far', 'far']],
    ['one that is dead, and two far away', ['dead', 'far', 'far']],
    ['one that is stale, and two that are near', ['stale', 'near', 'near']],
  ])('%s: the majority names the master', async (_name, sentinels) => {
    const limiter = await openAmong(sentinels);

    await eventually('the master decides', async () => !(await limiter.check(api.for('k'))).degraded);
    expect((await limiter.health()).nodes[0]?.name).toBe(`127.0.0.1:${group.servers[0].port}`);
  });

  test.each<readonly [string, readonly Sentinel[]]>([
    ['one that is stale, one that is right, and one that is dead', ['stale', 'near', 'dead']],
    ['one that is right, and two that are dead', ['near', 'dead', 'dead']],
  ])('%s: there is no majority, and nobody is followed', async (_name, sentinels) => {
    const limiter = await openAmong(sentinels);

    expect(await limiter.check(api.for('k'))).toMatchObject({
      degraded: true,
      cause: { message: expect.stringContaining('No majority of the sentinels') },
    });
    await eventually('the store says so', async () => (await limiter.health()).status === 'down');
  });
});
