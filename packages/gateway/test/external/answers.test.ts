import { describe, expect, test } from 'vitest';
import { parseAnswer } from '../../src/external/answer.ts';
import { LimitsCompiler } from '../../src/external/compiled-limits.ts';
import { parseStrictJson } from '../../src/external/strict-json.ts';
import { PLAN } from './services.ts';

const compiler = new LimitsCompiler({
  failurePolicy: 'inMemoryFallback',
  backendUrlComplaint: () => undefined,
});

function accepted(value: unknown) {
  return compiler.compile(parseAnswer(value)).limits;
}

function bytes(text: string): Uint8Array {
  return new TextEncoder().encode(text);
}

test('every documented field is understood', () => {
  const limits = accepted({
    ...PLAN,
    tenant_key: 'acme-corp',
    failure_policy: 'passthrough',
    failure_code: 503,
    backend_url: 'http://tenant-backend:8080',
    cache_max_age_seconds: 300,
    cache_no_store: false,
    cost: 3,
    request_timeout: '30s',
  });

  expect(limits).toMatchObject({
    tenantKey: 'acme-corp',
    failurePolicy: 'passThrough',
    failureCode: 503,
    backendUrl: 'http://tenant-backend:8080',
    cost: 3,
    requestTimeoutMs: 30_000,
  });
  expect(limits.policies).toHaveLength(1);
  expect(limits.policies?.[0]).toMatchObject({
    name: 'default',
    algorithm: 'tokenBucket',
    failurePolicy: 'passThrough',
    numbers: { average: 100, burst: 50, period: 1000 },
  });
});

test.each([
  [{ average: 0, burst: 0, period: '1s' }],
  [{ average: 0 }],
  [{ average: 0, tenant_key: 'acme', backend_url: 'http://b:1' }],
])('%j is unlimited, and keeps the rest of the answer', (value) => {
  const limits = accepted(value);

  expect(limits.policies).toEqual([]);
  expect(limits.tenantKey).toBe('tenant_key' in value ? value.tenant_key : undefined);
  expect(limits.backendUrl).toBe('backend_url' in value ? value.backend_url : undefined);
});

test('a burst that is left out is the average', () => {
  expect(accepted({ average: 9, period: '1s' }).policies?.[0]?.limit).toBe(9);
});

test.each([
  [
    { algorithm: 'leakyBucket', average: 5, period: '1s', max_delay: '2s' },
    { average: 5, period: 1000, maxDelay: 2000 },
  ],
  [
    { algorithm: 'fixedWindow', quota: 5, window: '1m' },
    { quota: 5, window: 60_000 },
  ],
  [
    { algorithm: 'slidingWindowLog', quota: 5, window: '1m' },
    { quota: 5, window: 60_000 },
  ],
  [
    { algorithm: 'slidingWindowCounter', quota: 5, window: '1m' },
    { quota: 5, window: 60_000 },
  ],
])('%j is the policy of that algorithm', (value, numbers) => {
  const [policy] = accepted(value).policies ?? [];

  expect(policy?.algorithm).toBe(value.algorithm);
  expect(policy?.numbers).toMatchObject(numbers);
});

test('several named policies are all to be met', () => {
  const limits = accepted({
    policies: [
      { name: 'burst', ...PLAN },
      { name: 'daily', algorithm: 'fixedWindow', quota: 10_000, window: '1d' },
    ],
  });

  expect(limits.policies?.map(({ name, limit }) => [name, limit])).toEqual([
    ['burst', 50],
    ['daily', 10_000],
  ]);
});

test.each([
  ['passthrough', 'passThrough'],
  ['passThrough', 'passThrough'],
  ['failclosed', 'failClosed'],
  ['FAIL_CLOSED', 'failClosed'],
  ['FAILURE_POLICY_IN_MEMORY_FALLBACK', 'inMemoryFallback'],
  ['inMemoryFallback', 'inMemoryFallback'],
])('failure_policy %s is %s', (written, meant) => {
  expect(accepted({ ...PLAN, failure_policy: written }).failurePolicy).toBe(meant);
});

describe('one wrong field, and nothing of the answer is used', () => {
  const wrong: readonly (readonly [string, unknown])[] = [
    ['nothing', {}],
    ['null', null],
    ['a list', [PLAN]],
    ['a text', 'unlimited'],
    ['a number', 100],
    ...['100', null, true, [1], {}, Infinity, NaN, 1.5, -1, 2 ** 53, 2 ** 53 + 2].map(
      (average): readonly [string, unknown] => [`average ${JSON.stringify(average)}`, { ...PLAN, average }],
    ),
    ...['50', null, 0, -1, 1.5, 2 ** 53].map((burst): readonly [string, unknown] => [
      `burst ${String(burst)}`,
      { ...PLAN, burst },
    ]),
    ...[
      '0s',
      '-1s',
      '1y',
      '1e9h',
      '',
      '1',
      's',
      '1.5s',
      ' 1s',
      '1s ',
      '4000d',
      1,
      1000,
      null,
      '9'.repeat(70),
    ].map((period): readonly [string, unknown] => [`period ${String(period)}`, { ...PLAN, period }]),
    ['no period', { average: 1, burst: 1 }],
    ['average 0 with a bad burst', { average: 0, burst: -1 }],
    ['average 0 with the failure policy of every object', { average: 0, failure_policy: 'constructor' }],
    ['average 0 with a window', { average: 0, window: '1s' }],
    ...['', 'a b', 'a{b}', 'a\r\nb', 'ä', 'x'.repeat(257), 'x'.repeat(2 ** 20), null, 7].map(
      (key): readonly [string, unknown] => [
        `tenant_key ${String(key).slice(0, 20)}`,
        { ...PLAN, tenant_key: key },
      ],
    ),
    ...['open', '', null, 1, 'pass', 'constructor', 'toString', '__proto__'].map(
      (policy): readonly [string, unknown] => [
        `failure_policy ${String(policy)}`,
        { ...PLAN, failure_policy: policy },
      ],
    ),
    ...[200, 99, 399, 600, 1000, '503', 400.5, null].map((code): readonly [string, unknown] => [
      `failure_code ${String(code)}`,
      { ...PLAN, failure_code: code },
    ]),
    ...['', 'http://a b/', 'http://a\r\nHost: b', `http://${'a'.repeat(2048)}`, 'http://a\\@b', null].map(
      (url): readonly [string, unknown] => [
        `backend_url ${String(url).slice(0, 20)}`,
        { ...PLAN, backend_url: url },
      ],
    ),
    ...[-1, 1.5, '60', null].map((age): readonly [string, unknown] => [
      `cache_max_age_seconds ${String(age)}`,
      { ...PLAN, cache_max_age_seconds: age },
    ]),
    ...['true', 1, null].map((store): readonly [string, unknown] => [
      `cache_no_store ${String(store)}`,
      { ...PLAN, cache_no_store: store },
    ]),
    ...[-1, 1.5, 1_000_001, '1'].map((cost): readonly [string, unknown] => [
      `cost ${String(cost)}`,
      { ...PLAN, cost },
    ]),
    ...['0s', '2d', 5, ''].map((timeout): readonly [string, unknown] => [
      `request_timeout ${String(timeout)}`,
      { ...PLAN, request_timeout: timeout },
    ]),
    ['an unknown algorithm', { ...PLAN, algorithm: 'magic' }],
    ['a burst on a window', { algorithm: 'fixedWindow', quota: 1, window: '1s', burst: 1 }],
    ['no policies', { policies: [] }],
    ['33 policies', { policies: Array.from({ length: 33 }, (_, at) => ({ name: `p${at}`, ...PLAN })) }],
    ['a policy without a name', { policies: [PLAN] }],
    ['a policy with a bad name', { policies: [{ name: 'a b', ...PLAN }] }],
    [
      'two policies of one name',
      {
        policies: [
          { name: 'a', ...PLAN },
          { name: 'a', ...PLAN },
        ],
      },
    ],
    ['an unlimited policy among several', { policies: [{ name: 'a', ...PLAN, average: 0 }] }],
    ['policies beside numbers', { ...PLAN, policies: [{ name: 'a', ...PLAN }] }],
    ['tenantKey for tenant_key', { ...PLAN, tenantKey: 'acme' }],
    ['Cache-No-Store for cache_no_store', { ...PLAN, 'Cache-No-Store': true }],
  ];

  test.each(wrong)('%s', (_, value) => {
    expect(() => accepted(value)).toThrow(/^the answer/);
  });

  test('1e400, which JSON reads as infinity', () => {
    expect(() => accepted(parseStrictJson(bytes('{"average":1e400,"burst":1,"period":"1s"}')))).toThrow(
      /average/,
    );
  });

  test('numbers that no state can keep exactly', () => {
    expect(() => accepted({ average: 1, burst: 10 ** 15, period: '3650d' })).toThrow(/^the answer/);
  });
});

test('fields of others are left alone', () => {
  expect(accepted({ ...PLAN, plan_name: 'gold', note: null }).policies?.[0]?.limit).toBe(50);
});

test('a static failClosed is never loosened, and may be joined', () => {
  const strict = new LimitsCompiler({ failurePolicy: 'failClosed', backendUrlComplaint: () => undefined });
  const compile = (policy: string) => strict.compile(parseAnswer({ ...PLAN, failure_policy: policy }));

  expect(compile('passthrough').limits.failurePolicy).toBeUndefined();
  expect(compile('passthrough').limits.policies?.[0]?.failurePolicy).toBeUndefined();
  expect(compile('passthrough').refused.map(({ field }) => field)).toEqual(['failurePolicy']);
  expect(compile('inmemoryfallback').limits.failurePolicy).toBeUndefined();
  expect(compile('failclosed')).toMatchObject({ limits: { failurePolicy: 'failClosed' }, refused: [] });
});

test('a static policy that is not failClosed may be tightened and changed', () => {
  expect(accepted({ ...PLAN, failure_policy: 'failclosed' }).failurePolicy).toBe('failClosed');
});

test('a backend that the policy refuses is left out, and the limits stay', () => {
  const picky = new LimitsCompiler({
    failurePolicy: 'inMemoryFallback',
    backendUrlComplaint: (url) => (url.includes('169.254') ? 'a metadata address' : undefined),
  });

  const { limits, refused } = picky.compile(parseAnswer({ ...PLAN, backend_url: 'http://169.254.169.254/' }));

  expect(limits.backendUrl).toBeUndefined();
  expect(limits.policies).toHaveLength(1);
  expect(refused).toEqual([{ field: 'backendUrl', why: 'a metadata address' }]);
});

test('tenants of one plan share one policy object', () => {
  expect(accepted(PLAN).policies?.[0]).toBe(accepted({ ...PLAN, tenant_key: 'other' }).policies?.[0]);
  expect(accepted(PLAN).policies?.[0]).not.toBe(accepted({ ...PLAN, burst: 51 }).policies?.[0]);
});

test('a service cannot invent more than a thousand names of policies', () => {
  const fresh = new LimitsCompiler({
    failurePolicy: 'inMemoryFallback',
    backendUrlComplaint: () => undefined,
  });
  const compile = (name: string) => fresh.compile(parseAnswer({ policies: [{ name, ...PLAN }] }));
  for (let at = 0; at < 1000; at += 1) compile(`p${at}`);

  expect(() => compile('one-more')).toThrow(/1000/);
  expect(compile('p7').limits.policies?.[0]?.name).toBe('p7');
});
