import { describe, expect, test } from 'vitest';
import { effectiveSettings, secretsOf } from '../../src/config/effective.ts';
import { loadConfig, type ConfigSource, type LoadedConfig } from '../../src/config/load-config.ts';
import { formatOrigin, formatProblem } from '../../src/config/problem.ts';
import { isTree } from '../../src/config/path.ts';
import { maskedUrl } from '../../src/config/shown.ts';
import { SETTINGS } from '../../src/config/settings.ts';

const FILE = { path: 'a.yaml', text: 'server:\n  address: ":1"\n  workers: 1\nredis:\n  db: 3\n' };

describe('precedence', () => {
  test('a variable wins over the file, the file over the default, and each origin is known', () => {
    const loaded = load({ file: FILE, env: { SPILLGATE_SERVER_ADDRESS: ':2' } });

    expect(loaded.config.server.address).toBe(':2');
    expect(formatOrigin(loaded.originOf(['server', 'address']))).toBe('SPILLGATE_SERVER_ADDRESS');
    expect(loaded.config.redis?.db).toBe(3);
    expect(formatOrigin(loaded.originOf(['redis', 'db']))).toBe('a.yaml:5:7');
    expect(loaded.config.server.max_headers).toBe(100);
    expect(formatOrigin(loaded.originOf(['server', 'max_headers']))).toBe('default');
  });

  test('an empty variable counts as unset', () => {
    expect(load({ file: FILE, env: { SPILLGATE_SERVER_ADDRESS: '' } }).config.server.address).toBe(':1');
  });

  test('a variable alone turns a section on', () => {
    expect(load({}).config.redis).toBeUndefined();
    expect(load({ env: { SPILLGATE_REDIS_ENDPOINTS: 'a:1' } }).config.redis?.endpoints).toEqual(['a:1']);
  });
});

describe('values', () => {
  test('texts, numbers, switches, durations, sizes, lists, maps and keys are read', () => {
    const { config } = load({
      env: {
        SPILLGATE_TRACING_SERVICE_NAME: '123',
        SPILLGATE_SERVER_MAX_HEADERS: '50',
        SPILLGATE_SERVER_HTTP2: 'FALSE',
        SPILLGATE_SERVER_IDLE_TIMEOUT: '1m30s',
        SPILLGATE_BACKEND_MAX_REQUEST_BODY_SIZE: '10MiB',
        SPILLGATE_REDIS_ENDPOINTS: 'a:1, b:2',
        SPILLGATE_REDIS_MODE: 'cluster',
        SPILLGATE_BACKEND_URL_POLICY_ALLOWED_PORTS: '80,443',
        SPILLGATE_SERVER_TLS_MIN_VERSION: '1.3',
        SPILLGATE_RATE_LIMIT_KEY_STRATEGY: '{type: header, header_name: X-Tenant}',
        SPILLGATE_RATE_LIMIT_POLICIES: '{"login": {"average": 5}}',
        SPILLGATE_RATE_LIMIT_RULES: '[{name: login, match: {path: /login}, policies: [login]}]',
        SPILLGATE_BACKEND_UPSTREAMS: '[{"url": "http://a:1"}]',
      },
    });

    expect(config.tracing.service_name).toBe('123');
    expect(config.server).toMatchObject({ max_headers: 50, http2: false, idle_timeout: 90_000 });
    expect(config.backend.max_request_body_size).toBe(10 * 2 ** 20);
    expect(config.redis?.endpoints).toEqual(['a:1', 'b:2']);
    expect(config.backend.url_policy.allowed_ports).toEqual([80, 443]);
    expect(config.server.tls.min_version).toBe('1.3');
    expect(config.rate_limit.key_strategy).toEqual({
      type: 'header',
      header_name: 'X-Tenant',
      on_missing: 'reject',
    });
    expect(config.rate_limit.policies['login']).toMatchObject({ algorithm: 'tokenBucket', average: 5 });
    expect(config.rate_limit.rules[0]).toMatchObject({ policies: [{ policy: 'login' }], cost: 1 });
    expect(config.backend.upstreams).toEqual([{ url: 'http://a:1', weight: 1 }]);
  });

  test.each([
    ['SPILLGATE_SERVER_WORKERS', 'many', 'server.workers is "many"; expected a whole number, 1 to 256'],
    [
      'SPILLGATE_RATE_LIMIT_AVERAGE',
      'abc',
      'rate_limit.average is "abc"; expected a whole number, 0 or more',
    ],
    ['SPILLGATE_SERVER_HTTP2', 'on', 'server.http2 is "on"; expected true or false'],
    ['SPILLGATE_SERVER_IDLE_TIMEOUT', '30', "the unit is missing, as in '30s'"],
    ['SPILLGATE_RATE_LIMIT_RULES', '[{', 'SPILLGATE_RATE_LIMIT_RULES is not a list or a map'],
    ['SPILLGATE_RATE_LIMIT_POLICIES', '&a [*a]', 'SPILLGATE_RATE_LIMIT_POLICIES is not a list or a map'],
    ['SPILLGATE_SERVER_WORKERS', '4', 'without redis'],
    ['SPILLGATE_REDIS_PASWORD', 'x', 'Did you mean SPILLGATE_REDIS_PASSWORD?'],
    ['SPILLGATE_NONSENSE', 'x', 'is not a setting'],
  ])('%s=%s is refused, and the variable is named', (name, value, message) => {
    const loaded = loadConfig({ env: { [name]: value } });

    expect(loaded.ok).toBe(false);
    expect(loaded.problems.map(formatProblem)).toEqual([expect.stringContaining(message)]);
    expect(loaded.problems[0]?.origin).toEqual({ from: 'env', name });
  });

  test('what Kubernetes adds for a service of our name is no mistake', () => {
    const env = {
      SPILLGATE_PORT: 'tcp://10.0.0.1:80',
      SPILLGATE_SERVICE_HOST: '10.0.0.1',
      SPILLGATE_SERVICE_PORT_HTTP: '80',
      SPILLGATE_ADMIN_PORT_9090_TCP_ADDR: '10.0.0.1',
    };

    expect(loadConfig({ env })).toMatchObject({ ok: true, problems: [] });
  });

  test('a variable does not hide that its section is wrong in the file', () => {
    const loaded = loadConfig({
      file: { path: 'a.yaml', text: 'redis: 5' },
      env: { SPILLGATE_REDIS_DB: '1' },
    });

    expect(loaded.problems.map(formatProblem)).toEqual([
      'a.yaml:1:8: error: redis is 5; expected a section (url, endpoints, mode, shards, ...).',
    ]);
  });
});

test.each([[null], [true], [-5], ['no such thing'], [[]], [[[]]], [{}], [{ nothing: 1 }]])(
  'whatever a setting is instead of what it takes, what it takes is said: %j',
  (value) => {
    const tree = SETTINGS.reduce<unknown>(
      (written, { keys }) => (keys === undefined ? written : withSetting(written, keys, value)),
      {},
    );

    const { problems } = loadConfig({ file: { path: 'a.yaml', text: JSON.stringify(tree) } });

    expect(problems.length).toBeGreaterThan(20);
    expect(problems.map(formatProblem).join('\n')).not.toMatch(
      /\b(?:one of|expected|give it|is) ?[,.;]|undefined|characters; expected at most 4/,
    );
  },
);

function withSetting(tree: unknown, [key, ...rest]: readonly string[], value: unknown): unknown {
  if (key === undefined) return value;
  const section = isTree(tree) ? tree : {};
  return { ...section, [key]: withSetting(section[key], rest, value) };
}

describe('secrets', () => {
  const secrets = SETTINGS.filter(({ secret }) => secret);

  test('passwords and tokens are known as such', () => {
    expect(secrets.map(({ path }) => path)).toEqual([
      'authorization.auth.value',
      'rate_limit.external.auth.value',
      'redis.url',
      'redis.password',
      'redis.sentinel_password',
      'cache_redis.url',
      'cache_redis.password',
      'cache_redis.sentinel_password',
      'service.token',
      'admin.token',
      'admin.read_only_token',
      'usage_events.http.auth.value',
    ]);
  });

  test('a secret comes from the file that its variable names, without the last line break', () => {
    const loaded = load({
      env: { SPILLGATE_REDIS_PASSWORD_FILE: 'run/secret' },
      readFile: (path) => `content of ${path}\n`,
    });

    expect(loaded.config.redis?.password).toBe('content of run/secret');
    expect(formatOrigin(loaded.originOf(['redis', 'password']))).toBe('SPILLGATE_REDIS_PASSWORD_FILE');
  });

  test('a secret file that is missing, or set beside its variable, is a problem', () => {
    const missing = loadConfig({ env: { SPILLGATE_ADMIN_TOKEN_FILE: 'nowhere' } });
    const both = loadConfig({
      env: { SPILLGATE_ADMIN_TOKEN_FILE: 'a', SPILLGATE_ADMIN_TOKEN: 'hunter2-hunter2-hunter2' },
      readFile: () => 'hunter2-hunter2-hunter2',
    });

    expect(missing.problems.map(formatProblem)).toEqual([
      'SPILLGATE_ADMIN_TOKEN_FILE: error: SPILLGATE_ADMIN_TOKEN_FILE names a file that cannot be read.',
    ]);
    expect(both.problems.map(formatProblem)).toEqual([expect.stringContaining('are both set')]);
    expect(JSON.stringify(both.problems)).not.toContain('hunter2');
  });

  test('no secret is ever shown, and everything else is', () => {
    const texts = secrets.filter(({ kind }) => kind !== 'URL');
    // No two alike: some must differ.
    const env = Object.fromEntries(
      texts.map(({ env: name }, at) => [name ?? '', `hunter2-hunter2-hunter2-${at}`]),
    );
    const topology = { SPILLGATE_REDIS_MODE: 'sentinel', SPILLGATE_REDIS_MASTER_NAME: 'm' };
    const cache = { SPILLGATE_CACHE_REDIS_MODE: 'sentinel', SPILLGATE_CACHE_REDIS_MASTER_NAME: 'm' };
    const events = { SPILLGATE_USAGE_EVENTS_HTTP_URL: 'https://events.example.com' };
    const { config, originOf } = load({ env: { ...env, ...topology, ...cache, ...events } });

    const shown = effectiveSettings(config, originOf);

    expect(config.admin.token).toContain('hunter2-hunter2-hunter2');
    expect(JSON.stringify(shown)).not.toContain('hunter2');
    expect(shown.filter(({ value }) => value === '********').map(({ path }) => path)).toEqual(
      texts.map(({ path }) => path),
    );
  });

  test('of the URL of a Redis server everything is shown but the user and the password', () => {
    const text = `
redis: { mode: replication, url: ["redis://me:hunter2@a:6379/1", "redis://b:6379"] }
cache_redis: { mode: shards, shards: [{ name: red, url: "redis://:hunter2%21@c:6379" }] }
`;
    const { config, originOf } = load({ file: { path: 'a.yaml', text } });

    const shown = new Map(effectiveSettings(config, originOf).map(({ path, value }) => [path, value]));

    expect(shown.get('redis.url')).toEqual(['redis://********@a:6379/1', 'redis://b:6379']);
    expect(shown.get('cache_redis.shards[0].url')).toBe('redis://********@c:6379');
    expect(secretsOf(config)).toEqual(['hunter2', 'hunter2%21', 'hunter2!']);
  });

  test('the URL of a Redis server comes from a variable or the file it names, several with commas', () => {
    const several = 'redis://:one,two@a:6379, rediss://b:6379';

    const plain = load({ env: { SPILLGATE_REDIS_URL: 'redis://a:6379' } });
    const named = loadConfig({ env: { SPILLGATE_REDIS_URL_FILE: 'x' }, readFile: () => several });

    expect(plain.config.redis?.url).toEqual(['redis://a:6379']);
    expect(named.problems.map(({ message }) => message)).toEqual([
      'redis mixes redis:// and rediss://',
      'redis.mode is single, but there are 2 URLs',
    ]);
  });
});

function load(source: ConfigSource): Extract<LoadedConfig, { ok: true }> {
  const loaded = loadConfig(source);
  if (!loaded.ok) throw new Error(loaded.problems.map(formatProblem).join('\n'));
  return loaded;
}

describe('the query of a URL', () => {
  const text = (url: string): string => `rate_limit: { external: { http: { url: "${url}" } } }`;

  test.each([
    ['http://a/limits?token=hunter2', 'http://a/limits?token=********'],
    ['http://a/?x=hunter2&y=hunter2;z=hunter2', 'http://a/?x=********&y=********;z=********'],
    ['http://a/?hunter2', 'http://a/?********'],
    ['http://a/?a=hunter2=hunter2&=hunter2#b', 'http://a/?a=********&=********#b'],
    ['https://a/b/c', 'https://a/b/c'],
  ])('is not shown: %s', (url, masked) => {
    const { config, originOf } = load({ file: { path: 'a.yaml', text: text(url) } });

    const shown = effectiveSettings(config, originOf).find(({ path }) => path.endsWith('http.url'));

    expect(shown?.value).toBe(masked);
    expect(config.rate_limit.external.http?.url).toBe(url);
  });

  test('nor in a message, nor are user and password', () => {
    const messages = ['http://a/x y?token=hunter2', 'ftp://a?hunter2', 'http://me:hunter2@a/'].map((url) =>
      loadConfig({ file: { path: 'a.yaml', text: text(url) } })
        .problems.map(formatProblem)
        .join(''),
    );

    expect(messages.join('')).not.toContain('hunter2');
    expect(messages[0]).toContain('"http://a/x y?token=********"');
    expect(maskedUrl('http://me:hunter2@a/b@c')).toBe('http://********@a/b@c');
  });
});
