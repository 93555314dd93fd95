import { expect, test } from 'vitest';
import { parseAnswer, compareLimits, holdsRaise } from '../../src/external/answer.ts';
import { retryAfterMs } from '../../src/external/service/service.ts';

const BUCKET = { average: 10, burst: 20, period: '1s' };
const WINDOW = { algorithm: 'fixedWindow', quota: 10, window: '1m' };
const QUEUE = { algorithm: 'leakyBucket', average: 10, period: '1s', max_delay: '1s' };
const named = (...policies: readonly object[]) => ({ policies });

test.each([
  ['same', BUCKET, BUCKET],
  ['same', BUCKET, { ...BUCKET, cache_max_age_seconds: 5 }],
  ['same', { average: 10, period: '1s' }, { average: 10, burst: 10, period: '1s' }],
  ['lower', BUCKET, { ...BUCKET, average: 9 }],
  ['lower', BUCKET, { ...BUCKET, burst: 19 }],
  ['lower', BUCKET, { ...BUCKET, period: '2s' }],
  ['lower', BUCKET, { ...BUCKET, average: 100, burst: 19 }],
  ['higher', BUCKET, { ...BUCKET, average: 11 }],
  ['higher', BUCKET, { ...BUCKET, burst: 21 }],
  ['higher', BUCKET, { ...BUCKET, period: '500ms' }],
  ['higher', BUCKET, { average: 0 }],
  ['lower', { average: 0 }, BUCKET],
  ['same', { average: 0 }, { average: 0, period: '1m' }],
  ['lower', WINDOW, { ...WINDOW, quota: 9 }],
  ['lower', WINDOW, { ...WINDOW, window: '2m' }],
  ['higher', WINDOW, { ...WINDOW, quota: 11 }],
  ['higher', WINDOW, { ...WINDOW, window: '30s' }],
  ['lower', QUEUE, { ...QUEUE, max_delay: '500ms' }],
  ['lower', QUEUE, { ...QUEUE, average: 9 }],
  ['higher', QUEUE, { ...QUEUE, max_delay: '2s' }],
  ['lower', BUCKET, WINDOW],
  ['lower', named({ name: 'a', ...BUCKET }), named({ name: 'a', ...BUCKET }, { name: 'b', ...WINDOW })],
  ['higher', named({ name: 'a', ...BUCKET }, { name: 'b', ...WINDOW }), named({ name: 'a', ...BUCKET })],
  ['other', BUCKET, { ...BUCKET, tenant_key: 'acme' }],
  ['other', BUCKET, { ...BUCKET, failure_policy: 'failclosed' }],
  ['other', BUCKET, { ...BUCKET, failure_code: 503 }],
  ['other', BUCKET, { ...BUCKET, backend_url: 'http://b' }],
  ['other', BUCKET, { ...BUCKET, cost: 2 }],
  ['other', BUCKET, { ...BUCKET, request_timeout: '1s' }],
])('it is %s: %j, then %j', (change, before, after) => {
  expect(compareLimits(parseAnswer(before), parseAnswer(after))).toBe(change);
});

test.each([
  // Lifetime, time since it was lowered, whether a raise waits.
  [0, 9999, true],
  [0, 10_000, false],
  [60_000, 119_999, true],
  [60_000, 120_000, false],
  [3_600_000, 299_999, true],
  [3_600_000, 300_000, false],
])('with a lifetime of %i ms, %i ms after a lowering, a raise waits: %s', (freshMs, sinceMs, waits) => {
  expect(holdsRaise(1000, freshMs, 1000 + sinceMs)).toBe(waits);
});

test('limits that were never lowered may always be raised', () => {
  expect(holdsRaise(-Infinity, 60_000, 0)).toBe(false);
});

const NOW = Date.parse('Mon, 16 Nov 2026 12:00:00 GMT');

test.each([
  [null, 0],
  [undefined, 0],
  ['0', 0],
  ['7', 7000],
  [' 7 ', 7000],
  ['-7', 0],
  ['1.5', 0],
  ['soon', 0],
  ['999999', 3_600_000],
  ['Mon, 16 Nov 2026 12:00:30 GMT', 30_000],
  ['Mon, 16 Nov 2026 11:00:00 GMT', 0],
  ['Tue, 16 Nov 2027 12:00:00 GMT', 3_600_000],
])('Retry-After %j is %i ms', (value, ms) => {
  expect(retryAfterMs(value, NOW)).toBe(ms);
});
