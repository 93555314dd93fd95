import { expect, test, vi } from 'vitest';
import type { PoliteFetchOptions, Retry } from '../../src/client/index.ts';
import { ok, refusal, scriptedServer, type ScriptedServer } from './scripted-server.ts';
import { Timeline } from './timeline.ts';

const URL = 'https://api.example.com/items';

interface Run {
  readonly status: number;
  readonly text: string;
  /** When the request was sent, in milliseconds. */
  readonly times: readonly number[];
}

async function run(
  answers: Parameters<typeof scriptedServer> extends [unknown, ...infer Rest] ? Rest : never,
  options: PoliteFetchOptions = {},
  init?: RequestInit,
): Promise<Run> {
  const time = new Timeline();
  const server: ScriptedServer = scriptedServer(time, ...answers);
  const response = await time.client({ fetch: server.fetch, ...options })(URL, init);
  return { status: response.status, text: await response.text(), times: server.times };
}

test('a refused request is sent again exactly when it was told', async () => {
  const result = await run([refusal({ 'Retry-After': '2' }), ok()]);

  expect(result).toEqual({ status: 200, text: 'welcome', times: [0, 2000] });
});

test('what is answered is handed on at once', async () => {
  expect((await run([ok({ RateLimit: '"api";r=0;t=10' })])).times).toEqual([0]);
  expect((await run([refusal({ 'Retry-After': '2' }, 404)])).times).toEqual([0]);
});

test('a refusal without a wait is a value', async () => {
  expect(await run([refusal()])).toEqual({ status: 429, text: 'later', times: [0] });
  expect(await run([refusal({}, 503)])).toMatchObject({ status: 503, times: [0] });
});

test('after so many retries the caller gets the last response, unread', async () => {
  expect(await run([refusal({ 'Retry-After': '1' })])).toEqual({
    status: 429,
    text: 'later',
    times: [0, 1000, 2000, 3000],
  });
  expect((await run([refusal({ 'Retry-After': '1' })], { maxRetries: 1 })).times).toEqual([0, 1000]);
  expect((await run([refusal({ 'Retry-After': '1' })], { maxRetries: 0 })).times).toEqual([0]);
});

test('a wait beyond the patience is not begun', async () => {
  const answers = [refusal({ 'Retry-After': '60' }), ok()];

  expect(await run(answers)).toMatchObject({ status: 200, times: [0, 60_000] });
  expect(await run(answers, { maxWaitMs: 59_999 })).toMatchObject({ status: 429, times: [0] });
  expect(await run(answers, { maxWaitMs: 0 })).toMatchObject({ status: 429, times: [0] });
});

test('all waits together stay within the patience', async () => {
  const { status, times } = await run([refusal({ 'Retry-After': '4' })], { maxWaitMs: 10_000 });

  expect({ status, times }).toEqual({ status: 429, times: [0, 4000, 8000] });
});

test('the time that answers take is not counted as waiting', async () => {
  const time = new Timeline();
  const slowly = async (): Promise<Response> => {
    time.clock.advance('9s');
    return refusal({ 'Retry-After': '4' })();
  };
  const server = scriptedServer(
    time,
    () => slowly,
    () => slowly,
    ok(),
  );

  const response = await time.client({ fetch: server.fetch, maxWaitMs: 8000 })(URL);

  expect([response.status, ...server.times]).toEqual([200, 0, 13_000, 26_000]);
});

test('chance makes a wait longer, never shorter, and more so with each retry', async () => {
  const answers = [refusal({ 'Retry-After': '4' })];

  expect((await run(answers, { random: () => 1 })).times).toEqual([0, 5000, 11_000, 19_000]);
  expect((await run(answers, { random: () => 0.5, jitter: 1 })).times).toEqual([0, 6000, 14_000, 26_000]);
  expect((await run(answers, { random: () => 1, jitter: 0 })).times).toEqual([0, 4000, 8000, 12_000]);
  for (const odd of [-1, Number.NaN]) {
    expect((await run(answers, { random: () => odd })).times).toEqual([0, 4000, 8000, 12_000]);
  }
});

test('chance does not make a wait longer than the patience', async () => {
  const { status, times } = await run([refusal({ 'Retry-After': '4' }), ok()], {
    random: () => 1,
    jitter: 1,
    maxWaitMs: 5000,
  });

  expect({ status, times }).toEqual({ status: 200, times: [0, 5000] });
});

test('a server that says "at once" is asked after a moment, then after longer ones', async () => {
  expect((await run([refusal({ 'Retry-After': '0' })])).times).toEqual([0, 100, 300, 700]);
  expect((await run([refusal({ 'Retry-After': '0' })], { maxWaitMs: 299 })).times).toEqual([0, 100]);
});

test('the wait may come from RateLimit or X-RateLimit-Reset', async () => {
  expect((await run([refusal({ RateLimit: '"api";r=0;t=3' }), ok()])).times).toEqual([0, 3000]);
  expect(
    (await run([refusal({ 'X-RateLimit-Remaining': '0', 'X-RateLimit-Reset': '5' }), ok()])).times,
  ).toEqual([0, 5000]);
});

test.each([
  ['POST', 429, 2],
  ['PATCH', 429, 2],
  ['GET', 503, 2],
  ['get', 503, 2],
  ['HEAD', 503, 2],
  ['OPTIONS', 503, 2],
  ['PUT', 503, 2],
  ['DELETE', 503, 2],
  ['POST', 503, 1],
  ['PATCH', 503, 1],
])('a %s that got a %i is sent %i times', async (method, status, sent) => {
  const { times } = await run([refusal({ 'Retry-After': '1' }, status), ok()], {}, { method });

  expect(times).toHaveLength(sent);
});

test('which requests may be repeated can be said', async () => {
  const asked: unknown[] = [];
  const mayRepeat: PoliteFetchOptions['mayRepeat'] = (refused) => asked.push(refused) > 1;

  const { status, times } = await run(
    [refusal({ 'Retry-After': '1' }, 503)],
    { mayRepeat },
    { method: 'POST' },
  );
  const second = await run([refusal({ 'Retry-After': '1' }, 503), ok()], { mayRepeat }, { method: 'POST' });

  expect({ status, times }).toEqual({ status: 503, times: [0] });
  expect(second.status).toBe(200);
  expect(asked[0]).toEqual({ url: URL, method: 'POST', status: 503 });
});

test('which statuses mean "later" can be said', async () => {
  const answers = [refusal({ 'X-RateLimit-Remaining': '0', 'X-RateLimit-Reset': '5' }, 403), ok()];

  expect((await run(answers)).status).toBe(403);
  expect((await run(answers, { statuses: [403, 429] })).times).toEqual([0, 5000]);
  expect((await run([refusal({ 'Retry-After': '1' })], { statuses: [503] })).times).toEqual([0]);
});

test('every retry is told before its wait', async () => {
  const told: Retry[] = [];
  const complaints = vi.spyOn(console, 'error').mockReturnValue();
  await run([refusal({ 'Retry-After': '1' }), refusal({ 'Retry-After': '2' }), ok()], {
    onRetry: (retry) => void told.push(retry),
  });

  expect(complaints).not.toHaveBeenCalled();

  expect(told).toEqual([
    { url: URL, method: 'GET', status: 429, retry: 1, waitMs: 1000 },
    { url: URL, method: 'GET', status: 429, retry: 2, waitMs: 2000 },
  ]);
});

test.each([
  [
    'throws',
    () => {
      throw new Error('broken');
    },
  ],
  [
    'rejects',
    async () => {
      throw new Error('broken');
    },
  ],
])('a listener that %s changes nothing, and is reported', async (_, onRetry) => {
  const complaints = vi.spyOn(console, 'error').mockReturnValue();

  const { status } = await run([refusal({ 'Retry-After': '1' }), ok()], { onRetry });

  expect(status).toBe(200);
  expect(complaints).toHaveBeenCalledWith('spillgate: onRetry failed:', new Error('broken'));
});

test('a network that fails fails the call, before and after a wait', async () => {
  const broken = new TypeError('fetch failed');

  await expect(run([() => broken])).rejects.toBe(broken);
  await expect(run([refusal({ 'Retry-After': '1' }), () => broken, ok()])).rejects.toBe(broken);
});

test('when as many calls wait as may, one more gets its refusal at once', async () => {
  const time = new Timeline();
  const server = scriptedServer(
    time,
    refusal({ 'Retry-After': '1' }),
    refusal({ 'Retry-After': '1' }),
    refusal({ 'Retry-After': '1' }),
    ok(),
  );
  const fetch = time.client({ fetch: server.fetch, maxWaiting: 2 });

  const statuses = await Promise.all([fetch(URL), fetch(URL), fetch(URL)]);
  // Places are free again.
  const later = scriptedServer(time, refusal({ 'Retry-After': '1' }), ok());
  const fourth = await time.client({ fetch: later.fetch, maxWaiting: 1 })(URL);

  expect(statuses.map(({ status }) => status)).toEqual([200, 200, 429]);
  expect(server.times).toEqual([0, 0, 0, 1000, 1000]);
  expect(fourth.status).toBe(200);
});

test('a place is free again after its wait, whatever came of it', async () => {
  const time = new Timeline();
  const server = scriptedServer(
    time,
    refusal({ 'Retry-After': '1' }),
    () => new TypeError('fetch failed'),
    refusal({ 'Retry-After': '1' }),
    ok(),
  );
  const fetch = time.client({ fetch: server.fetch, maxWaiting: 1 });

  await expect(fetch(URL)).rejects.toThrow('fetch failed');

  expect((await fetch(URL)).status).toBe(200);
});

test('without an own fetch it is the one of the platform, as it is at the time of the call', async () => {
  const time = new Timeline();
  const fetch = time.client({});
  const spy = vi.spyOn(globalThis, 'fetch').mockResolvedValue(new Response('mine'));

  expect(await (await fetch(URL, { method: 'PUT' })).text()).toBe('mine');
  expect(spy).toHaveBeenCalledWith(URL, { method: 'PUT' });
});

test('a sleep that does not move the clock is believed', async () => {
  const time = new Timeline();
  const slept: number[] = [];
  const server = scriptedServer(time, refusal({ 'Retry-After': '30' }));
  const fetch = time.client({ fetch: server.fetch, sleep: async (ms) => slept.push(ms), maxRetries: 9 });

  expect((await fetch(URL)).status).toBe(429);
  expect(slept).toEqual([30_000, 30_000]);
});

test('a sleep that fails fails the call', async () => {
  const time = new Timeline();
  const server = scriptedServer(time, refusal({ 'Retry-After': '30' }));
  const sleep = async (): Promise<never> => {
    throw new Error('no sleep');
  };

  await expect(time.client({ fetch: server.fetch, sleep })(URL)).rejects.toThrow('no sleep');
});
