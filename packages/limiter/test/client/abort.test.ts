import { getEventListeners } from 'node:events';
import { setTimeout as sleepInNode } from 'node:timers/promises';
import { expect, test, vi } from 'vitest';
import { politeFetch } from '../../src/client/index.ts';
import { ok, refusal, scriptedServer } from './scripted-server.ts';
import { Timeline } from './timeline.ts';

const URL = 'https://api.example.com/items';
const HOUR = { 'Retry-After': '3600' };

test('an abort before the call sends nothing', async () => {
  const server = scriptedServer(new Timeline(), ok());
  for (const pace of [false, true]) {
    const fetch = politeFetch({ fetch: server.fetch, pace });
    await expect(fetch(URL, { signal: AbortSignal.abort('gone') })).rejects.toBe('gone');
  }

  expect(server.times).toEqual([]);
});

test.each([
  ['the timers of the library', undefined],
  ['timers that reject', (ms: number, signal: AbortSignal) => sleepInNode(ms, undefined, { signal })],
])('an abort during a wait ends it at once, with the reason and no trace: %s', async (_, sleep) => {
  const timers = vi.spyOn(globalThis, 'clearTimeout');
  const server = scriptedServer(new Timeline(), refusal(HOUR), ok());
  const controller = new AbortController();
  const reason = new Error('enough');
  const fetch = politeFetch({
    fetch: server.fetch,
    maxWaitMs: 86_400_000,
    sleep,
    onRetry: () => setImmediate(() => controller.abort(reason)),
  });

  await expect(fetch(URL, { signal: controller.signal })).rejects.toBe(reason);

  expect(server.times).toHaveLength(1);
  expect(getEventListeners(controller.signal, 'abort')).toEqual([]);
  if (sleep === undefined) expect(timers).toHaveBeenCalledTimes(1);
});

test('an abort right after a refusal does not begin a wait', async () => {
  const controller = new AbortController();
  const time = new Timeline();
  const server = scriptedServer(time, refusal(HOUR));
  const fetch = politeFetch({
    fetch: server.fetch,
    maxWaitMs: 86_400_000,
    sleep: time.sleep,
    onRetry: () => controller.abort('now'),
  });

  await expect(fetch(URL, { signal: controller.signal })).rejects.toBe('now');
  expect(time.asleep()).toBe(0);
});

test('a wait that ends leaves nothing on the signal', async () => {
  const time = new Timeline();
  const { signal } = new AbortController();
  const server = scriptedServer(time, refusal({ 'Retry-After': '1' }), refusal({ 'Retry-After': '1' }), ok());

  for (const pace of [false, true]) await time.client({ fetch: server.fetch, pace })(URL, { signal });

  expect(getEventListeners(signal, 'abort')).toEqual([]);
});

test('the signal of a Request counts, that of the init before it, and null takes it away', async () => {
  const time = new Timeline();
  const ours = new AbortController();
  const theirs = new AbortController();
  const seen: unknown[] = [];
  const fetch = time.client({
    fetch: async (_, init) => {
      seen.push(init?.signal);
      return refusal({ 'Retry-After': '1' })();
    },
    onRetry: () => ours.abort('ours'),
  });
  const request = (): Request => new Request(URL, { signal: ours.signal });

  await expect(fetch(request())).rejects.toBe('ours');
  expect((await fetch(request(), { signal: theirs.signal })).status).toBe(429);
  expect((await fetch(request(), { signal: null })).status).toBe(429);
  expect(seen.slice(1)).toEqual([...Array<AbortSignal>(4).fill(theirs.signal), null, null, null, null]);
});

test('an abort takes a call out of the line, and the next one moves up', async () => {
  const time = new Timeline();
  const server = scriptedServer(time, ok({ RateLimit: '"api";r=0;t=10' }), ok());
  const fetch = time.client({ fetch: server.fetch, pace: true });
  await fetch(URL);
  const controller = new AbortController();

  const first = fetch(URL, { signal: controller.signal });
  const second = fetch(URL);
  controller.abort('gone');

  await expect(first).rejects.toBe('gone');
  expect((await second).status).toBe(200);
  expect(server.times).toEqual([0, 10_000]);
  expect(getEventListeners(controller.signal, 'abort')).toEqual([]);
});
