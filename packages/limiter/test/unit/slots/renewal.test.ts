import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { concurrency, createLimiter, memoryStore, type Limiter } from '../../../src/index.ts';
import { remoteStore, type RemoteStore } from '../remote-store.ts';

const inFlight = concurrency({ name: 'in-flight', limit: 1, hold: '8s' });
const SECOND = 1000;

beforeEach(() => {
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout', 'performance', 'setImmediate'] });
});

let opened: Limiter[] = [];

afterEach(async () => {
  // Timers that nobody waits for any more would be there in the next test.
  await Promise.all(opened.map((limiter) => limiter.close()));
  opened = [];
  await vi.runAllTimersAsync();
  vi.useRealTimers();
});

/** The store's clock is that of the timers. */
function clock(): number {
  return 1_760_000_000_000_000 + Math.round(performance.now() * 1000);
}

function setUp(options: object = {}): { limiter: Limiter; store: RemoteStore } {
  const store = remoteStore(clock);
  const limiter = createLimiter({ store, clock, deadlineMs: 100, ...options });
  opened.push(limiter);
  return { store, limiter };
}

async function pass(ms: number): Promise<void> {
  await vi.advanceTimersByTimeAsync(ms);
}

async function free(limiter: Limiter): Promise<number> {
  return (await limiter.peek(inFlight.for('ann'))).remaining;
}

test('a slot is held for as long as its process renews it', async () => {
  const { limiter } = setUp();
  const slot = await limiter.acquire(inFlight.for('ann'));

  await pass(60 * SECOND);

  expect(await free(limiter)).toBe(0);
  expect(slot.signal.aborted).toBe(false);
  await slot.release();
  expect(await free(limiter)).toBe(1);
  await pass(60 * SECOND);
  expect(await free(limiter)).toBe(1);
});

test('the embedded store renews slots, too', async () => {
  const limiter = createLimiter({ store: memoryStore({ clock }), clock });
  opened.push(limiter);
  const slot = await limiter.acquire(inFlight.for('ann'));

  await pass(60 * SECOND);

  expect(await free(limiter)).toBe(0);
  await slot.release();
  expect(await free(limiter)).toBe(1);
});

test('two renewals in a row may fail', async () => {
  const { limiter, store } = setUp();
  await limiter.acquire(inFlight.for('ann'));
  await pass(SECOND);

  store.behaviour = 'rejects';
  await pass(4 * SECOND);
  store.behaviour = 'answers';
  await pass(2 * SECOND);

  await pass(3 * SECOND);
  expect(await free(limiter)).toBe(0);
});

test('a slot that others have taken meanwhile is lost, and its signal says so', async () => {
  const { limiter, store } = setUp();
  const slot = await limiter.acquire(inFlight.for('ann'));
  const { signal } = slot;
  store.behaviour = 'rejects';
  await pass(9 * SECOND);
  expect(signal.aborted).toBe(false);

  store.behaviour = 'answers';
  const other = await limiter.acquire(inFlight.for('ann'));
  await pass(3 * SECOND);

  expect([other.allowed, signal.aborted, slot.signal.aborted]).toEqual([true, true, true]);
  await slot.release();
  expect(await free(limiter)).toBe(0);
});

test('a slot of several units that had ended is taken again with all of them', async () => {
  const wide = concurrency({ name: 'wide', limit: 3, hold: '8s' });
  const { limiter, store } = setUp();
  await limiter.acquire(wide.for('ann'), { cost: 3 });
  store.behaviour = 'rejects';
  await pass(9 * SECOND);
  store.behaviour = 'answers';
  await pass(3 * SECOND);

  expect((await limiter.peek(wide.for('ann'))).remaining).toBe(0);
});

test('a release waits for the renewal that is under way: it must not take the slot again', async () => {
  const { limiter, store } = setUp();
  const slot = await limiter.acquire(inFlight.for('ann'));
  const check = store.check.bind(store);
  let finish = (): void => undefined;
  store.check = async (...args) => {
    await new Promise<void>((resolve) => (finish = resolve));
    return check(...args);
  };
  await pass(2 * SECOND);

  const released = slot.release();
  finish();
  await released;

  store.check = check;
  expect(await free(limiter)).toBe(1);
});

test('a slot that comes while the limiter closes is not renewed for ever', async () => {
  const { limiter, store } = setUp();
  const check = store.check.bind(store);
  let finish = (): void => undefined;
  store.check = async (...args) => {
    await new Promise<void>((resolve) => (finish = resolve));
    return check(...args);
  };
  const acquiring = limiter.acquire(inFlight.for('ann'));
  await limiter.close();
  finish();
  await acquiring;
  const asked = vi.fn<typeof check>(check);
  store.check = asked;

  await pass(60 * SECOND);

  expect(asked).not.toHaveBeenCalled();
});

test('closing the limiter releases what it holds', async () => {
  const { limiter, store } = setUp();
  await limiter.acquire(inFlight.for('ann'));
  await limiter.close();

  expect((await store.peek([inFlight.for('ann')], 1))[0]?.remaining).toBe(1);
});

test('a release that the store does not hear is made up for by hold', async () => {
  const { limiter, store } = setUp();
  const slot = await limiter.acquire(inFlight.for('ann'));
  store.behaviour = 'rejects';
  await expect(slot.release()).resolves.toBeUndefined();
  store.behaviour = 'answers';

  expect(await free(limiter)).toBe(0);
  await pass(8 * SECOND);
  expect(await free(limiter)).toBe(1);
});

test('while the store is down, each process holds its share of the slots in its own memory', async () => {
  const { limiter, store } = setUp({ failurePolicy: 'inMemoryFallback', instances: 2 });
  const four = concurrency({ name: 'four', limit: 4, hold: '8s' });
  store.behaviour = 'rejects';

  const slots = [];
  for (let at = 0; at < 3; at += 1) slots.push(await limiter.acquire(four.for('ann')));

  expect(slots.map(({ allowed }) => allowed)).toEqual([true, true, false]);
  expect(slots[0]?.decision).toMatchObject({ source: 'fallback', degraded: true });
  await pass(60 * SECOND);
  expect((await limiter.acquire(four.for('ann'))).allowed).toBe(false);
  await slots[0]?.release();
  expect((await limiter.acquire(four.for('ann'))).allowed).toBe(true);
  // What was taken here stays here, also when the store is back.
  store.behaviour = 'answers';
  expect((await limiter.peek(four.for('ann'))).remaining).toBe(4);
});

test.each([
  ['passThrough', true],
  ['failClosed', false],
] as const)('while the store is down, %s holds nothing', async (failurePolicy, allowed) => {
  const { limiter, store } = setUp({ failurePolicy });
  store.behaviour = 'rejects';
  const slots = [await limiter.acquire(inFlight.for('ann')), await limiter.acquire(inFlight.for('ann'))];
  store.behaviour = 'answers';

  expect(slots.map((slot) => slot.allowed)).toEqual([allowed, allowed]);
  await pass(60 * SECOND);
  expect(await free(limiter)).toBe(1);
  expect(store.calls.filter((call) => call === 'check')).toHaveLength(2);
});
