import * as fc from 'fast-check';
import { expect, test } from 'vitest';
import { announcedLimits, type AnnouncedQuota } from '../../src/client/index.ts';
import { toldToWaitMs } from '../../src/client/announced-limits.ts';
import { runs } from '../../../../test/runs.ts';

const NOW_MS = Date.UTC(2026, 0, 1, 12);
const date = (afterMs: number): string => new Date(NOW_MS + afterMs).toUTCString();

function retryAfter(headers: Record<string, string>): number | undefined {
  return announcedLimits(new Headers(headers), NOW_MS).retryAfterMs;
}

function quotas(headers: Record<string, string>): readonly AnnouncedQuota[] {
  return announcedLimits(new Headers(headers), NOW_MS).quotas;
}

test.each([
  ['seconds', { 'Retry-After': '120' }, 120_000],
  ['no wait at all', { 'Retry-After': '0' }, 0],
  ['more seconds than there are', { 'Retry-After': '9'.repeat(400) }, Infinity],
  ['a date', { 'Retry-After': date(90_000) }, 90_000],
  ['a date in the past', { 'Retry-After': date(-90_000) }, 0],
  ['a date by the clock of the server', { 'Retry-After': date(90_000), Date: date(30_000) }, 60_000],
  ['a date by our clock when the server has none', { 'Retry-After': date(90_000), Date: 'now' }, 90_000],
  ['the name that we use too', { 'X-RateLimit-Retry-After': '7' }, 7000],
  ['the standard before that', { 'Retry-After': '3', 'X-RateLimit-Retry-After': '7' }, 3000],
  [
    'the other one if the standard is unreadable',
    { 'Retry-After': 'x', 'X-RateLimit-Retry-After': '7' },
    7000,
  ],
])('Retry-After says %s', (_, headers, expectedMs) => {
  expect(retryAfter(headers)).toBe(expectedMs);
});

test.each([
  '1e99',
  '-1',
  '+1',
  '1.5',
  '',
  ' ',
  '5, 10',
  '0x10',
  '١',
  'Infinity',
  'NaN',
  'soon',
  '5s',
  '5 '.repeat(9000),
])('a Retry-After of %j is ignored', (text) => {
  expect(announcedLimits({ get: (name) => (name === 'retry-after' ? text : null) }, NOW_MS)).toEqual({
    retryAfterMs: undefined,
    quotas: [],
  });
});

test('a header of 8192 characters is read, a longer one is not', () => {
  expect(retryAfter({ 'Retry-After': '0'.repeat(8192) })).toBe(0);
  expect(retryAfter({ 'Retry-After': '0'.repeat(8193) })).toBeUndefined();
});

test('RateLimit and RateLimit-Policy speak of several policies', () => {
  const found = quotas({
    'RateLimit-Policy': '"burst";q=100;w=60, "daily";q=1000;w=86400;pk=:YWJj:',
    RateLimit: '"daily";r=0;t=3600;pk=:YWJj:;acme-x="y", "burst";r=7;t=20, "other";r=3',
  });

  expect(found).toEqual([
    { policy: 'daily', partitionKey: 'YWJj', remaining: 0, resetAfterMs: 3_600_000, limit: 1000 },
    { policy: 'burst', partitionKey: undefined, remaining: 7, resetAfterMs: 20_000, limit: 100 },
    { policy: 'other', partitionKey: undefined, remaining: 3, resetAfterMs: undefined, limit: undefined },
  ]);
});

test.each([
  ['a token as name', 'api;r=1;t=2'],
  ['no count', '"api";t=2'],
  ['a negative count', '"api";r=-1;t=2'],
  ['a fraction', '"api";r=1.5;t=2'],
  ['a count in quotes', '"api";r="1";t=2'],
  ['a negative window', '"api";r=1;t=-2'],
  ['a window that is a flag', '"api";r=1;t'],
  ['one bad member', '"a";r=1;t=2, "b";r=x;t=2'],
  ['an older draft', 'limit=10, remaining=1, reset=2'],
  ['nothing', ''],
])('a RateLimit with %s is ignored as a whole', (_, field) => {
  expect(quotas({ RateLimit: field, 'RateLimit-Policy': '"api";q=10;w=60' })).toEqual([]);
});

test('a RateLimit that cannot be read leaves the word to X-RateLimit-*', () => {
  const [quota] = quotas({ RateLimit: 'api', 'X-RateLimit-Remaining': '4', 'X-RateLimit-Reset': '9' });

  expect(quota).toMatchObject({ remaining: 4, resetAfterMs: 9000 });
});

test('a RateLimit that can be read comes before X-RateLimit-*', () => {
  const found = quotas({ RateLimit: '"a";r=1;t=2', 'X-RateLimit-Remaining': '4', 'X-RateLimit-Reset': '9' });

  expect(found).toMatchObject([{ policy: 'a', remaining: 1 }]);
});

test.each([
  ['"api";q=x;w=1', undefined],
  ['"api";q=-1;w=1', undefined],
  ['"other";q=10;w=1', undefined],
  ['broken;', undefined],
  ['"api";q=10', 10],
  ['"api";q=10;qu="requests"', 10],
  ['"api";q=10;qu="request"', 10],
])('a RateLimit-Policy of %s makes the limit %s', (policy, limit) => {
  expect(quotas({ RateLimit: '"api";r=1;t=2', 'RateLimit-Policy': policy })[0]).toMatchObject({
    remaining: 1,
    limit,
  });
});

test('what does not count requests is no quota to pace by', () => {
  const found = quotas({
    'RateLimit-Policy': '"bytes";q=65535;qu="content-bytes";w=10, "api";q=10;w=1',
    RateLimit: '"bytes";r=0;t=10, "api";r=1;t=2',
  });

  expect(found.map(({ policy }) => policy)).toEqual(['api']);
});

test.each([
  ['seconds', '30', 30_000],
  ['fractions of a second', '0.25', 250],
  ['a Unix time', String(NOW_MS / 1000 + 60), 60_000],
  ['a Unix time in milliseconds', String(NOW_MS + 1500), 1500],
  ['a Unix time from the year 2001 on', '1000000000', 0],
  ['a long time before that', '999999999', 999_999_999_000],
  ['a Unix time in milliseconds from the same day on', '1000000000000', 0],
  ['a Unix time in the past', String(NOW_MS / 1000 - 60), 0],
])('X-RateLimit-Reset may be %s', (_, reset, resetAfterMs) => {
  expect(quotas({ 'X-RateLimit-Remaining': '5', 'X-RateLimit-Reset': reset })[0]).toMatchObject({
    resetAfterMs,
  });
});

test('a Unix time is compared with the clock of the server', () => {
  const headers = { 'X-RateLimit-Remaining': '5', 'X-RateLimit-Reset': String(NOW_MS / 1000 + 60) };

  expect(quotas({ ...headers, Date: date(50_000) })[0]?.resetAfterMs).toBe(10_000);
});

test('the headers of GitHub', () => {
  const found = quotas({
    'X-RateLimit-Limit': '30',
    'X-RateLimit-Remaining': '18',
    'X-RateLimit-Reset': String(NOW_MS / 1000 + 42),
    'X-RateLimit-Used': '12',
    'X-RateLimit-Resource': 'search',
  });

  expect(found).toEqual([
    { policy: 'search', partitionKey: undefined, remaining: 18, resetAfterMs: 42_000, limit: 30 },
  ]);
});

test.each(['RateLimit-', 'X-RateLimit-', 'X-Rate-Limit-'])('%s* is understood', (prefix) => {
  const found = quotas({ [`${prefix}Limit`]: '10', [`${prefix}Remaining`]: '2.9', [`${prefix}Reset`]: '1' });

  expect(found).toEqual([
    { policy: '', partitionKey: undefined, remaining: 2, resetAfterMs: 1000, limit: 10 },
  ]);
});

test.each([
  { 'X-RateLimit-Remaining': '-1', 'X-RateLimit-Reset': '1' },
  { 'X-RateLimit-Remaining': '1', 'X-RateLimit-Reset': '-1' },
  { 'X-RateLimit-Remaining': '1, 2', 'X-RateLimit-Reset': '1' },
  { 'X-RateLimit-Remaining': '1', 'X-RateLimit-Reset': '1e3' },
  { 'X-RateLimit-Remaining': '9'.repeat(16), 'X-RateLimit-Reset': '1' },
  { 'X-RateLimit-Remaining': '1' },
  { 'X-RateLimit-Reset': '1' },
])('X-RateLimit-* that make no sense are ignored: %j', (headers) => {
  expect(quotas(headers)).toEqual([]);
});

test('what a cache kept says nothing about now', () => {
  const headers = { RateLimit: '"api";r=1;t=2', 'X-RateLimit-Remaining': '1', 'X-RateLimit-Reset': '2' };

  expect(quotas({ ...headers, Age: '1' })).toEqual([]);
  expect(quotas({ ...headers, Age: '0' })).toHaveLength(1);
});

test.each([
  ['what it was told', { 'Retry-After': '3', RateLimit: '"a";r=0;t=60' }, 3000],
  ['for the last of the used-up policies', { RateLimit: '"a";r=0;t=5, "b";r=0;t=60, "c";r=1;t=90' }, 60_000],
  [
    'for X-RateLimit-Reset when nothing remains',
    { 'X-RateLimit-Remaining': '0', 'X-RateLimit-Reset': '4' },
    4000,
  ],
  ['for nothing when something remains', { RateLimit: '"a";r=1;t=60' }, undefined],
  ['for nothing without a time', { RateLimit: '"a";r=0' }, undefined],
  ['for nothing that it was not told', {}, undefined],
])('a refused request waits %s', (_, headers, expectedMs) => {
  expect(toldToWaitMs(announcedLimits(new Headers(headers), NOW_MS))).toBe(expectedMs);
});

test('whatever the headers say, reading them never throws, and no number is negative', () => {
  const value = fc.oneof(
    fc.string(),
    fc.integer().map(String),
    fc.double().map(String),
    fc.constant('"a";r=1;t=2'),
  );
  const names = [
    'retry-after',
    'ratelimit',
    'ratelimit-policy',
    'x-ratelimit-remaining',
    'x-ratelimit-reset',
    'date',
    'age',
  ];
  fc.assert(
    fc.property(fc.dictionary(fc.constantFrom(...names), value), (headers) => {
      const { retryAfterMs = 0, quotas: found } = announcedLimits(
        { get: (name) => headers[name] ?? null },
        NOW_MS,
      );

      expect(retryAfterMs).toBeGreaterThanOrEqual(0);
      for (const { remaining, resetAfterMs = 0 } of found) {
        expect(Math.min(remaining, resetAfterMs)).toBeGreaterThanOrEqual(0);
      }
    }),
    { numRuns: runs(2000) },
  );
});
