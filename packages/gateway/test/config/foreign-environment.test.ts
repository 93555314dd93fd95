import { describe, expect, test } from 'vitest';
import type { Config } from '../../src/config/config.ts';
import { loadConfig } from '../../src/config/load-config.ts';
import { formatOrigin, formatProblem } from '../../src/config/problem.ts';

type Variables = Readonly<Record<string, string>>;

function load(
  env: Variables,
  text = 'server: { workers: 1 }',
): { config: Config; warnings: readonly string[] } {
  const loaded = loadConfig({ file: { path: 'a.yaml', text }, env });
  if (!loaded.ok) throw new Error(loaded.problems.map(formatProblem).join('\n'));
  return { config: loaded.config, warnings: loaded.problems.map(formatProblem) };
}

describe('variables of other rate limiters', () => {
  test.each<[string, Variables, Partial<Config['redis']>]>([
    [
      'the server of a reference system',
      { REDIS_ADDR: 'cache:6380', REDIS_DB: '3' },
      { endpoints: ['cache:6380'], db: 3 },
    ],
    [
      'several of them are shards',
      { REDIS_ADDRS: 'a:1, b:2', REDIS_PASSWORD: 'secret' },
      { endpoints: ['a:1', 'b:2'], mode: 'shards', password: 'secret' },
    ],
    ['a URL', { REDIS_URL: 'rediss://:p@cache:6380/1' }, { url: ['rediss://:p@cache:6380/1'] }],
    ['nothing but the switch', {}, { endpoints: ['localhost:6379'] }],
    ['the prefix', { DISTRIBUTED_RATE_LIMIT_PREFIX: 'ratelimit:' }, { key_prefix: 'ratelimit:' }],
  ])('say where Redis is, once it is switched on: %s', (_, env, redis) => {
    const { config, warnings } = load({ DISTRIBUTED_RATE_LIMIT_ENABLED: 'true', ...env });

    expect(config.redis).toMatchObject(redis ?? {});
    expect(warnings).toEqual([]);
  });

  test('say where Redis is for a section that does not', () => {
    const { config, warnings } = load({ REDIS_URL: 'redis://cache:6380' }, 'redis: { db: 2 }');

    expect(config.redis).toMatchObject({ url: ['redis://cache:6380'], db: 2 });
    expect(warnings).toEqual([]);
  });

  test('are the origin of what they say', () => {
    const loaded = loadConfig({ env: { DISTRIBUTED_RATE_LIMIT_ENABLED: '1', REDIS_ADDR: 'a:1' } });

    expect(loaded.ok && formatOrigin(loaded.originOf(['redis', 'endpoints']))).toBe('REDIS_ADDR');
  });

  test.each([
    ['true', 'inMemoryFallback'],
    ['false', 'failClosed'],
  ])('say what happens without Redis: %s', (text, policy) => {
    expect(load({ DISTRIBUTED_RATE_LIMIT_FALLBACK: text }).config.rate_limit.failure_policy).toBe(policy);
  });

  test.each<[string, Variables, string]>([
    ['without a section', { REDIS_URL: 'redis://a' }, 'server: { workers: 1 }'],
    ['beside an address', { REDIS_ADDR: 'a:1' }, 'redis: { endpoints: ["b:1"] }'],
    ['a password beside an address', { REDIS_PASSWORD: 'hunter2' }, 'redis: { url: "redis://b:1" }'],
    [
      'beside a failure policy',
      { DISTRIBUTED_RATE_LIMIT_FALLBACK: 'false' },
      'rate_limit: { failure_policy: passThrough }',
    ],
    ['numbers that are a policy here', { DISTRIBUTED_RATE_LIMIT_MAX: '60' }, 'server: { workers: 1 }'],
    ['a name that does not exist', { DISTRIBUTED_RATE_LIMIT_BURST: '60' }, 'server: { workers: 1 }'],
    ['the switch beside a section', { DISTRIBUTED_RATE_LIMIT_ENABLED: 'false' }, 'redis: { db: 2 }'],
  ])('that are set and not used are warned of: %s', (_, env, text) => {
    const { config, warnings } = load(env, text);

    expect(config).toEqual(load({}, text).config);
    expect(warnings).toEqual([expect.stringContaining(`${Object.keys(env)[0]} is set, but not used: `)]);
    expect(warnings.join()).not.toContain('hunter2');
  });

  test('of which two name the servers: the first is used, and the other is warned of', () => {
    const { config, warnings } = load({ REDIS_ADDR: 'a:1', REDIS_URL: 'redis://b:1' }, 'redis: {}');

    expect(config.redis).toMatchObject({ endpoints: ['a:1'] });
    expect(config.redis?.url).toBeUndefined();
    expect(warnings).toEqual([
      expect.stringContaining('REDIS_URL is set, but not used: REDIS_ADDR names the servers'),
    ]);
  });

  test('that are wrong are problems with their name', () => {
    const loaded = loadConfig({ env: { DISTRIBUTED_RATE_LIMIT_ENABLED: 'true', REDIS_DB: 'hunter2' } });

    expect(loaded.ok).toBe(false);
    expect(loaded.problems.map(({ origin }) => formatOrigin(origin))).toEqual(['REDIS_DB']);
  });
});

describe("EdgeQuota's variables", () => {
  test('are read as those of the gateway', () => {
    const { config, warnings } = load({
      EDGEQUOTA_REDIS_ENDPOINTS: 'a:1,b:2',
      EDGEQUOTA_REDIS_MODE: 'cluster',
      EDGEQUOTA_RATE_LIMIT_AVERAGE: '5',
      EDGEQUOTA_RATE_LIMIT_STATIC_BURST: '7',
      EDGEQUOTA_BACKEND_URL: 'http://service:8080',
    });

    expect(config.redis).toMatchObject({ endpoints: ['a:1', 'b:2'], mode: 'cluster' });
    expect(config.rate_limit).toMatchObject({ average: 5, burst: 7 });
    expect(config.backend.url).toBe('http://service:8080');
    expect(warnings).toEqual([]);
  });

  test('give way to those of the gateway, and say so', () => {
    const { config, warnings } = load({
      EDGEQUOTA_RATE_LIMIT_AVERAGE: '5',
      SPILLGATE_RATE_LIMIT_AVERAGE: '6',
    });

    expect(config.rate_limit.average).toBe(6);
    expect(warnings).toEqual([
      expect.stringContaining(
        'EDGEQUOTA_RATE_LIMIT_AVERAGE is set, but not used: SPILLGATE_RATE_LIMIT_AVERAGE is set, too',
      ),
    ]);
  });

  test('that mean nothing here are warned of, and wrong ones are problems', () => {
    expect(load({ EDGEQUOTA_EVENTS_ENABLED: 'true' }).warnings).toEqual([
      expect.stringContaining('EDGEQUOTA_EVENTS_ENABLED is set, but not used: there is no such setting'),
    ]);
    const wrong = loadConfig({ env: { EDGEQUOTA_RATE_LIMIT_AVERAGE: 'many' } });
    expect(wrong.problems.map(formatProblem)).toEqual([
      expect.stringContaining('EDGEQUOTA_RATE_LIMIT_AVERAGE: error'),
    ]);
  });

  test('of Kubernetes, for a service that is called edgequota, are nobody’s', () => {
    expect(
      load({ EDGEQUOTA_SERVICE_HOST: '10.0.0.1', EDGEQUOTA_PORT_8080_TCP: 'tcp://10.0.0.1:8080' }).warnings,
    ).toEqual([]);
  });
});
