// `seed/` holds the snippets of EdgeQuota's documentation, byte by byte.
import { readFileSync } from 'node:fs';
import { expect, test } from 'vitest';
import { loadConfig, type LoadedConfig } from '../../src/config/load-config.ts';

test('the snippet of a service over HTTP loads unchanged and without a warning', () => {
  const loaded = loadSeed('external-http');

  expect(loaded.problems).toEqual([]);
  expect(loaded.ok && loaded.config.rate_limit).toMatchObject({
    average: 100,
    burst: 50,
    period: 1000,
    external: {
      enabled: true,
      timeout: 5000,
      cache_ttl: 60_000,
      max_concurrent_requests: 50,
      http: { url: 'http://limits-service:8080/limits' },
      header_filter: { allow_list: ['X-Tenant-Id', 'X-Plan'] },
    },
  });
});

test('the snippet of a service over gRPC loads unchanged and without a warning', () => {
  const loaded = loadSeed('external-grpc');

  expect(loaded.problems).toEqual([]);
  expect(loaded.ok && loaded.config.rate_limit.external.grpc).toMatchObject({
    address: 'limits-service:50052',
    tls: { enabled: true, ca_file: '/etc/edgequota/tls/limits-ca.pem' },
  });
});

test('the snippet of two Redis topologies loads unchanged and without a warning', () => {
  const loaded = loadSeed('cache-redis');

  expect(loaded.problems).toEqual([]);
  expect(loaded.ok && loaded.config.redis).toMatchObject({
    endpoints: ['rl-0:6379', 'rl-1:6379', 'rl-2:6379'],
    mode: 'cluster',
  });
  expect(loaded.ok && loaded.config.cache_redis).toMatchObject({ mode: 'replication', pool_size: 20 });
});

test('the defaults are those of the documentation', () => {
  const loaded = loadConfig({});

  expect(loaded.ok && loaded.config.rate_limit).toMatchObject({
    failure_code: 429,
    key_strategy: { type: 'clientIP' },
    external: { enabled: false, timeout: 5000, cache_ttl: 60_000, max_concurrent_requests: 50 },
  });
  // Stricter than documented: without a filter the service sees no header at all.
  expect(loaded.ok && loaded.config.rate_limit.external.header_filter).toEqual({ allow_list: [] });
});

function loadSeed(name: string): LoadedConfig {
  const path = `${name}.yaml`;
  const text = readFileSync(new URL(`seed/${path}`, import.meta.url), 'utf8');
  return loadConfig({ file: { path, text } });
}
