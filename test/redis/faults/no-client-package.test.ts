import { createLimiter, tokenBucket } from 'spillgate';
import { redisStore, type RedisStoreOptions } from 'spillgate/redis';
import { beforeAll, expect, test } from 'vitest';
import { hideAllClients } from './hidden-packages.ts';
import { collectWarnings } from './warnings.ts';

const api = tokenBucket({ name: 'api', average: 1, burst: 3, period: '1h' });
const URLS = ['redis://127.0.0.1:1', 'redis://127.0.0.1:2', 'redis://127.0.0.1:3'] as const;

beforeAll(hideAllClients);

test.each<[string, RedisStoreOptions]>([
  ['a server', { url: URLS[0] }],
  ['sentinels', { sentinel: { urls: URLS, name: 'main' } }],
  ['a cluster', { cluster: { urls: URLS } }],
  ['replication', { replication: { urls: URLS } }],
  ['shards', { shards: URLS }],
  ['a server by a package of its choice', { url: URLS[0], clientPackage: 'redis' }],
])('without a client package %s cannot be reached, and waiting does not help', async (_name, options) => {
  const warnings = collectWarnings();
  // Longer than this test may take: whoever waits for it fails.
  const store = redisStore({ ...options, connectTimeoutMs: 60_000 });
  const limiter = createLimiter({ store, failurePolicy: 'failClosed' });

  await expect(store.ready()).rejects.toMatchObject({
    code: 'CLIENT_MISSING',
    message: expect.stringContaining('npm install'),
  });
  expect(await limiter.check(api.for('k'))).toMatchObject({ degraded: true });
  await warnings.until(1);
  expect(warnings.all.map(({ code }) => code)).toEqual(['SPILLGATE_CLIENT_MISSING']);
  await limiter.close();
  warnings.stop();
});
