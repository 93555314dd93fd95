import { createHash } from 'node:crypto';
import * as fc from 'fast-check';
import { expect, test, vi } from 'vitest';
import {
  createLimiter,
  fixedWindow,
  leakyBucket,
  slidingWindowLog,
  tokenBucket,
  type Decision,
  type Limit,
  type Policy,
} from '../../../src/index.ts';
import {
  rateLimitHeaders,
  retryAfterSeconds,
  type HeaderOptions,
  type HeaderStyle,
} from '../../../src/http/index.ts';
import { virtualClock } from '../../../src/testing/index.ts';
import { untyped } from '../../unit/bad-input/row.ts';
import { numberIn } from '../../model/policies.ts';
import { randomPolicy } from './random-policy.ts';
import { runs } from '../../../../../test/runs.ts';

const api = tokenBucket({ name: 'api', average: 5, burst: 5, period: '10s' });

function decide(limits: readonly Limit[], cost: number): Decision {
  return createLimiter({ clock: virtualClock() }).checkSync(limits, { cost });
}

function headersFor(policy: Policy, cost: number, options: HeaderOptions): Record<string, string> {
  const limits = [policy.for('ann')];
  return Object.fromEntries(rateLimitHeaders(options)(decide(limits, cost), limits));
}

test.each<[HeaderStyle | HeaderStyle[], Record<string, string>]>([
  ['draft', { 'RateLimit-Policy': '"api";q=5;w=10', RateLimit: '"api";r=3;t=4' }],
  ['legacy', { 'X-RateLimit-Limit': '5', 'X-RateLimit-Remaining': '3', 'X-RateLimit-Reset': '4' }],
  [
    'github',
    {
      'X-RateLimit-Limit': '5',
      'X-RateLimit-Remaining': '3',
      'X-RateLimit-Reset': '1767225605', // 2026-01-01T00:00:00.001Z and four seconds, rounded up
      'X-RateLimit-Used': '2',
      'X-RateLimit-Resource': 'api',
    },
  ],
  ['none', {}],
  [['none', 'draft'], { 'RateLimit-Policy': '"api";q=5;w=10', RateLimit: '"api";r=3;t=4' }],
])('the headers of style %s, and no others', (headers, expected) => {
  vi.useFakeTimers({ now: 1_767_225_600_001, toFake: ['Date'] });

  expect(headersFor(api, 2, { headers })).toEqual(expected);
  vi.useRealTimers();
});

test('draft and legacy are the default', () => {
  expect(headersFor(api, 2, {})).toEqual(headersFor(api, 2, { headers: ['draft', 'legacy'] }));
});

test('a partition key tells keys apart and does not give them away', () => {
  const describe = rateLimitHeaders({ headers: 'draft', partitionKey: true });
  const limits = [api.for('ann@example.org')];

  const [policy, limit] = describe(decide(limits, 1), limits);
  const utf16 = Buffer.from('ann@example.org', 'utf16le').swap16();
  const pk = createHash('sha256').update(utf16).digest().subarray(0, 12).toString('base64');

  expect(policy).toEqual(['RateLimit-Policy', `"api";q=5;w=10;pk=:${pk}:`]);
  expect(limit).toEqual(['RateLimit', `"api";r=4;t=2;pk=:${pk}:`]);
});

test('other origins are told the names of exactly the headers that there may be', () => {
  const exposed = (headers: HeaderStyle): string | undefined =>
    headersFor(api, 1, { headers, exposeHeaders: true })['Access-Control-Expose-Headers'];

  expect(exposed('none')).toBe('Retry-After');
  expect(exposed('draft')).toBe('RateLimit, RateLimit-Policy, Retry-After');
  expect(exposed('legacy')).toBe(
    'X-RateLimit-Limit, X-RateLimit-Remaining, X-RateLimit-Reset, X-RateLimit-Retry-After, Retry-After',
  );
  expect(exposed('github')).toBe(
    'X-RateLimit-Limit, X-RateLimit-Remaining, X-RateLimit-Reset, X-RateLimit-Used, X-RateLimit-Resource, Retry-After',
  );
});

test.each([
  [
    'a bucket refills in whole seconds',
    tokenBucket({ name: 'p', average: 5, burst: 5, period: '10s' }),
    5,
    10,
  ],
  ['a small burst', tokenBucket({ name: 'p', average: 100, burst: 50, period: '1s' }), 100, 1],
  ['a large burst', tokenBucket({ name: 'p', average: 100, burst: 250, period: '1s' }), 300, 3],
  ['thirds', tokenBucket({ name: 'p', average: 3, burst: 2, period: '1s' }), 3, 1],
  ['a queue', leakyBucket({ name: 'p', average: 2, period: '1s', maxDelay: '2s' }), 6, 3],
  ['a window', fixedWindow({ name: 'p', quota: 1000, window: '1d' }), 1000, 86_400],
  ['a window of no whole seconds', slidingWindowLog({ name: 'p', quota: 10, window: '1500ms' }), 13, 2],
  ['a window below a second', slidingWindowLog({ name: 'p', quota: 10, window: '100ms' }), 100, 1],
  [
    'a rate beyond what a field can count',
    fixedWindow({ name: 'p', quota: 2 ** 52, window: '1s' }),
    999_999_999_999_999,
    1,
  ],
])('a policy is advertised by its long-run rate: %s', (_, policy, quota, seconds) => {
  expect(headersFor(policy, 1, { headers: 'draft' })['RateLimit-Policy']).toBe(`"p";q=${quota};w=${seconds}`);
});

test('an advertised policy never claims more than the policy gives', () => {
  fc.assert(
    fc.property(randomPolicy('p'), (policy) => {
      const member = headersFor(policy, 1, { headers: 'draft' })['RateLimit-Policy'] ?? '';
      const [quota = 0, seconds = 0] = [...member.matchAll(/=(\d+)/g)].map(([, digits]) => Number(digits));
      const { algorithm, numbers, limit } = policy.plan;
      const isBucket = algorithm.name === 'tokenBucket' || algorithm.name === 'leakyBucket';
      const perUs = isBucket
        ? numberIn(numbers, 'drainUnits') / numberIn(numbers, 'tokenUnits')
        : limit / numberIn(numbers, 'windowUs');

      expect(quota).toBeLessThanOrEqual(Math.max(limit, perUs * seconds * 1e6) * (1 + 1e-12));
    }),
  );
});

test('after the effective window there is more than what was left, or everything is back', () => {
  fc.assert(
    fc.property(
      randomPolicy('p'),
      fc.array(fc.double({ min: 0, max: 1, noNaN: true }), { minLength: 1, maxLength: 5 }),
      (policy, shares) => {
        const clock = virtualClock();
        const limiter = createLimiter({ clock });
        const limits = [policy.for('ann')];
        for (const share of shares) {
          clock.advance(1);
          const decision = limiter.checkSync(limits, { cost: Math.ceil(policy.limit * share) });
          const said =
            new Map(rateLimitHeaders({ headers: 'draft' })(decision, limits)).get('RateLimit') ?? '';
          const seconds = Number(/t=(\d+)/.exec(said)?.[1]);
          const nowUs = clock();
          clock.set(Math.min(nowUs + seconds * 1e6, 2 ** 52));
          const later = limiter.checkSync(limits, { cost: 0 });
          if (clock() === nowUs + seconds * 1e6) {
            expect(later.remaining > decision.remaining || later.remaining === policy.limit).toBe(true);
          }
          clock.set(nowUs);
        }
      },
    ),
    { numRuns: runs(2000) },
  );
});

test('an empty bucket names the next token, not the last one', () => {
  const slow = tokenBucket({ name: 'slow', average: 1, burst: 50, period: '1s' });

  expect(headersFor(slow, 50, { headers: 'draft' })['RateLimit']).toBe('"slow";r=0;t=1');
});

test.each([
  [0, 1],
  [0.001, 1],
  [1, 1],
  [999.999, 1],
  [1000, 1],
  [1000.001, 2],
  [59_000.5, 60],
])('a wait of %d ms is a Retry-After of %d', (retryAfterMs, seconds) => {
  expect(retryAfterSeconds({ ...decide([api.for('ann')], 1), allowed: false, retryAfterMs })).toBe(seconds);
});

test('Retry-After is never early by a rounding error, up to the longest wait that can be counted', () => {
  const verdict = { ...decide([api.for('ann')], 1), allowed: false };
  const afterUs = (us: number): number | undefined =>
    retryAfterSeconds({ ...verdict, retryAfterMs: us / 1000 });

  fc.assert(
    fc.property(fc.integer({ min: 1, max: Math.floor(2 ** 52 / 1e6) - 1 }), (seconds) => {
      expect(afterUs(seconds * 1e6)).toBe(seconds);
      expect(afterUs(seconds * 1e6 + 1)).toBe(seconds + 1);
      expect(afterUs(seconds * 1e6 - 1)).toBe(Math.max(1, seconds));
    }),
    { numRuns: runs(5000) },
  );
});

test('there is no Retry-After for an admission, nor for what can never be admitted', () => {
  expect(retryAfterSeconds(decide([api.for('ann')], 1))).toBeUndefined();
  expect(retryAfterSeconds(decide([api.for('ann')], 6))).toBeUndefined();
  expect(headersFor(api, 6, { headers: 'draft' })).toEqual({
    'RateLimit-Policy': '"api";q=5;w=10',
    RateLimit: '"api";r=5;t=0',
  });
});

test.each(['a\r\nSet-Cookie: b=c', 'caf\u00e9', '\u0000', 'a\u007f', '\u{1f600}'])(
  'a policy named %j by somebody else never gets into a header',
  (name) => {
    const foreign = { ...api, name, limit: api.limit, plan: { ...api.plan } };
    const limit = Object.assign(api.for('ann'), { policy: foreign, plan: foreign.plan });
    const decision = decide([limit], 1);

    for (const headers of ['draft', 'github'] as const) {
      expect(() => rateLimitHeaders({ headers })(decision, [limit])).toThrow('A header cannot carry');
    }
    expect(JSON.stringify(rateLimitHeaders({ headers: 'legacy' })(decision, [limit]))).not.toContain(
      'Set-Cookie',
    );
  },
);

test('quotes and backslashes in a name are escaped', () => {
  const foreign = { ...api, name: String.raw`a"b\c`, plan: { ...api.plan } };
  const limit = Object.assign(api.for('ann'), { policy: foreign, plan: foreign.plan });

  const [[, value] = []] = rateLimitHeaders({ headers: 'draft' })(decide([limit], 1), [limit]);

  expect(value).toBe(String.raw`"a\"b\\c";q=5;w=10`);
});

test('a decision about other limits is refused', () => {
  const other = tokenBucket({ name: 'other', average: 1, period: '1s' });
  const describe = rateLimitHeaders();
  const decision = decide([api.for('ann')], 1);

  expect(() => describe(decision, [other.for('ann')])).toThrow('pass the limits that were checked');
  expect(() => describe(decision, [])).toThrow('pass the limits that were checked');
});

test.each([['drft'], [['draft', 'x']], [[]], [null], [7], [true]])('headers: %j is refused', (headers) => {
  expect(() => rateLimitHeaders({ headers: untyped(headers) })).toThrow(
    'choose one or a list of "draft", "legacy", "github", "none"',
  );
});

test('legacy and github together would give one header two meanings', () => {
  expect(() => rateLimitHeaders({ headers: ['github', 'legacy'] })).toThrow('choose one of them');
});
