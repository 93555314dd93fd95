import { expect, test } from 'vitest';
import { politeFetch, type PoliteFetchOptions } from '../../src/client/index.ts';

test.each<[Record<string, unknown>, string]>([
  [{ retries: 3 }, 'The options of politeFetch() do not include "retries"; accepted are fetch, maxRetries,'],
  [{ fetch: 'fetch' }, 'fetch is "fetch"; expected a function.'],
  [{ maxRetries: -1 }, 'maxRetries is -1; expected an integer from 0 to 100.'],
  [{ maxRetries: 1.5 }, 'maxRetries is 1.5; expected an integer from 0 to 100.'],
  [{ maxRetries: 101 }, 'maxRetries is 101; expected an integer from 0 to 100.'],
  [{ maxRetries: '3' }, 'maxRetries is "3"; expected an integer from 0 to 100.'],
  [{ maxWaitMs: -1 }, 'maxWaitMs is -1; expected a number from 0 to 86400000.'],
  [{ maxWaitMs: 86_400_001 }, 'maxWaitMs is 86400001; expected a number from 0 to 86400000.'],
  [{ maxWaitMs: Number.NaN }, 'maxWaitMs is NaN; expected a number from 0 to 86400000.'],
  [{ maxWaitMs: '1m' }, 'maxWaitMs is "1m"; expected a number from 0 to 86400000.'],
  [{ jitter: 1.1 }, 'jitter is 1.1; expected a number from 0 to 1.'],
  [{ pace: 0 }, 'pace is 0; expected true, false, or a share of the quota above 0 and up to 1.'],
  [{ pace: 1.1 }, 'pace is 1.1; expected true, false, or a share of the quota above 0 and up to 1.'],
  [{ pace: 'yes' }, 'pace is "yes"; expected true, false, or a share of the quota above 0 and up to 1.'],
  [
    { statuses: [] },
    'statuses is an array of 0; expected a list of statuses from 400 to 599, such as [429].',
  ],
  [{ statuses: [429, 200] }, 'expected a list of statuses from 400 to 599, such as [429].'],
  [{ statuses: [600] }, 'expected a list of statuses from 400 to 599, such as [429].'],
  [{ statuses: [429.5] }, 'expected a list of statuses from 400 to 599, such as [429].'],
  [{ statuses: 429 }, 'statuses is 429; expected a list of statuses from 400 to 599, such as [429].'],
  [{ maxBodyBytes: 2 ** 30 + 1 }, 'maxBodyBytes is 1073741825; expected an integer from 0 to 1073741824.'],
  [{ maxWaiting: 1_000_001 }, 'maxWaiting is 1000001; expected an integer from 0 to 1000000.'],
  [{ partition: 'origin' }, 'partition is "origin"; expected a function.'],
  [{ mayRepeat: true }, 'mayRepeat is true; expected a function.'],
  [{ onRetry: {} }, 'onRetry is an object; expected a function.'],
  [{ clock: 0 }, 'clock is 0; expected a function.'],
  [{ sleep: 0 }, 'sleep is 0; expected a function.'],
  [{ random: 0.5 }, 'random is 0.5; expected a function.'],
])('a mistake shows at once: %j', (options, message) => {
  expect(() => politeFetch(options)).toThrow(expect.objectContaining({ code: 'INVALID_OPTION' }));
  expect(() => politeFetch(options)).toThrow(message);
});

test.each<PoliteFetchOptions>([
  {},
  { maxRetries: 0, maxWaitMs: 0, jitter: 0, pace: false, maxBodyBytes: 0, maxWaiting: 0 },
  {
    maxRetries: 100,
    maxWaitMs: 86_400_000,
    jitter: 1,
    pace: 1,
    maxBodyBytes: 2 ** 30,
    maxWaiting: 1_000_000,
  },
  { statuses: [400, 599] },
  { maxRetries: undefined, fetch: undefined, pace: undefined },
])('accepts %j', (options) => {
  expect(politeFetch(options)).toBeTypeOf('function');
});

test('a clock that tells no time is a mistake of the program', async () => {
  const fetch = politeFetch({ clock: () => Number.NaN, fetch: async () => new Response() });

  await expect(fetch('https://example.com/')).rejects.toMatchObject({ code: 'INVALID_CLOCK' });
});
