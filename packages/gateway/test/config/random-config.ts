import * as fc from 'fast-check';

const name = fc.stringMatching(/^[a-z][a-z0-9_-]{0,8}$/).filter((text) => text !== '__proto__');
const durationText = fc
  .tuple(fc.integer({ min: 1, max: 59 }), fc.constantFrom('s', 'm', 'h'))
  .map(([count, unit]) => (unit === 'h' ? `${(count % 20) + 1}h` : `${count}${unit}`));
const hostPort = fc.tuple(name, fc.integer({ min: 1, max: 65_535 })).map(([host, port]) => `${host}:${port}`);
const headerName = fc.constantFrom('X-Tenant-Id', 'X-Plan', 'X-Api-Key');

const plainKey = fc.oneof(
  fc.constantFrom('clientIP', 'global'),
  fc.record({ type: fc.constant('clientIP') }),
  fc.record({ type: fc.constant('header'), header_name: headerName }),
  fc.record({ type: fc.constant('jwtClaim'), claim: name, verified: fc.constant(false) }),
  fc.record({ type: fc.constant('global'), global_key: name }),
  fc.record({ type: fc.constant('composite'), header_name: headerName, path_prefix: fc.boolean() }),
);

const policy = fc.oneof(
  fc.record(
    {
      average: fc.integer({ min: 10, max: 1000 }),
      burst: fc.integer({ min: 10, max: 1000 }),
      period: durationText,
      overrides: fc.uniqueArray(fc.record({ key: name, average: fc.integer({ min: 1, max: 9 }) }), {
        selector: ({ key }) => key,
        maxLength: 3,
      }),
    },
    { requiredKeys: ['average'] },
  ),
  fc.record({
    algorithm: fc.constantFrom('fixedWindow', 'slidingWindowLog', 'slidingWindowCounter'),
    quota: fc.integer({ min: 10, max: 1000 }),
    window: durationText,
  }),
  fc.record(
    {
      algorithm: fc.constant('calendarQuota'),
      quota: fc.integer({ min: 10, max: 1000 }),
      every: fc.constantFrom('week', 'month', 'year'),
      time_zone: fc.constantFrom('UTC', 'Europe/Berlin', 'America/Sao_Paulo'),
      starts_on: fc.integer({ min: 1, max: 7 }),
    },
    { requiredKeys: ['algorithm', 'quota', 'every'] },
  ),
  fc.record({
    algorithm: fc.constant('concurrency'),
    limit: fc.integer({ min: 10, max: 1000 }),
    hold: fc.constantFrom('5s', '1m'),
  }),
  fc.record({
    algorithm: fc.constant('leakyBucket'),
    average: fc.integer({ min: 1, max: 100 }),
    max_delay: fc.constantFrom('20m', '1h'),
    period: fc.constantFrom('1s', '1m'),
  }),
);

const match = fc.record(
  {
    host: fc.oneof(fc.constant('a.example.com'), fc.constant(['a.example.com', '*.example.com'])),
    method: fc.oneof(fc.constant('GET'), fc.constant(['GET', 'POST'])),
    path: fc.constantFrom('/login', ['/users/{id}', '/files/**'], '/static/*'),
    header: fc.dictionary(headerName, fc.string({ maxLength: 5 }), { maxKeys: 2 }),
  },
  { requiredKeys: ['path'] },
);

const rateLimit = fc
  .record({
    average: fc.integer({ min: 0, max: 1000 }),
    burst: fc.integer({ min: 1, max: 100 }),
    period: durationText,
    key_strategy: plainKey,
    failure_policy: fc.constantFrom('passThrough', 'failClosed', 'inMemoryFallback'),
    failure_code: fc.integer({ min: 400, max: 599 }),
    policies: fc.dictionary(
      name.map((text) => `p-${text}`),
      policy,
      { maxKeys: 4 },
    ),
    rules: fc.uniqueArray(
      fc.record(
        { name, match, key: plainKey, cost: fc.integer({ min: 0, max: 10 }), shadow: fc.boolean() },
        { requiredKeys: ['name', 'match'] },
      ),
      { selector: (rule) => rule.name, maxLength: 4 },
    ),
  })
  .map(({ policies, rules, ...rest }) => ({
    ...rest,
    policies,
    // Every rule with every policy: names alone, or with a key.
    rules: rules.map((rule, at) => ({
      ...rule,
      policies: Object.keys(policies).map((policyName) =>
        at % 2 === 0 ? policyName : { policy: policyName, key: 'global' },
      ),
    })),
  }));

/** Configurations that are valid, as a file says them. */
export const randomConfig: fc.Arbitrary<Readonly<Record<string, unknown>>> = fc.record(
  {
    server: fc.record({
      address: fc.integer({ min: 1, max: 9000 }).map((port) => `:${port}`),
      workers: fc.constant(1),
      idle_timeout: durationText,
      max_header_bytes: fc.oneof(fc.integer({ min: 1024, max: 2 ** 20 }), fc.constantFrom('16KiB', '1MiB')),
      client_address: fc.record({
        trusted_proxies: fc.constantFrom([], ['loopback'], ['10.0.0.0/8', '::1']),
      }),
    }),
    backend: fc.oneof(
      fc.record({ url: hostPort.map((text) => `http://${text}`) }),
      fc.record({
        upstreams: fc.uniqueArray(
          fc.record({
            url: hostPort.map((text) => `https://${text}`),
            weight: fc.integer({ min: 1, max: 9 }),
          }),
          { selector: ({ url }) => url, minLength: 1, maxLength: 3 },
        ),
      }),
    ),
    rate_limit: rateLimit,
    redis: fc.record({
      endpoints: fc.uniqueArray(hostPort, { minLength: 1, maxLength: 3 }),
      mode: fc.constantFrom('cluster', 'replication'),
      password: fc.string({ minLength: 1, maxLength: 20 }),
    }),
    tracing: fc.record({ enabled: fc.constant(false), sample_rate: fc.constantFrom(0, 0.5, 1) }),
  },
  { requiredKeys: ['server'] },
);
