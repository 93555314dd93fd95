import { describe, expect, test } from 'vitest';
import {
  concurrency,
  createLimiter,
  fixedWindow,
  memoryStore,
  tokenBucket,
  type Limiter,
} from '../../../src/index.ts';
import { virtualClock } from '../../../src/testing/index.ts';

const inFlight = concurrency({ name: 'in-flight', limit: 2, hold: '30s' });

function setUp(): { limiter: Limiter; clock: ReturnType<typeof virtualClock> } {
  const clock = virtualClock();
  return { limiter: createLimiter({ store: memoryStore({ clock }), clock }), clock };
}

test('so many slots are held at once, and a released one is free at once', async () => {
  const { limiter } = setUp();
  const first = await limiter.acquire(inFlight.for('ann'));
  const second = await limiter.acquire(inFlight.for('ann'));

  const third = await limiter.acquire(inFlight.for('ann'));
  await first.release();
  const fourth = await limiter.acquire(inFlight.for('ann'));

  expect([first, second, third, fourth].map(({ allowed }) => allowed)).toEqual([true, true, false, true]);
  expect([first, second].map(({ decision }) => decision.remaining)).toEqual([1, 0]);
  expect(third.decision.retryAfterMs).toBe(30_000);
});

test('a slot that nobody renews is free after hold, which is the wait that a denial names', async () => {
  const { limiter, clock } = setUp();
  await limiter.acquire(inFlight.for('ann'));
  clock.advance('10s');
  await limiter.acquire(inFlight.for('ann'));

  const denied = await limiter.acquire(inFlight.for('ann'));
  clock.set(clock() + Math.round(denied.decision.retryAfterMs * 1000) - 1);
  const early = await limiter.acquire(inFlight.for('ann'));
  clock.set(clock() + 1);
  const inTime = await limiter.acquire(inFlight.for('ann'));

  expect(denied.decision.retryAfterMs).toBe(20_000);
  expect([early.allowed, inTime.allowed]).toEqual([false, true]);
});

test('acquiring the same id again renews the slot instead of taking another one', async () => {
  const { limiter, clock } = setUp();
  await limiter.acquire(inFlight.for('ann'), { id: 'request 1' });
  clock.advance('20s');
  const again = await limiter.acquire(inFlight.for('ann'), { id: 'request 1' });
  clock.advance('20s');

  expect(again.allowed).toBe(true);
  expect((await limiter.peek(inFlight.for('ann'))).remaining).toBe(1);
  await again.release();
  expect((await limiter.peek(inFlight.for('ann'))).remaining).toBe(2);
});

test('a slot and charges are taken all or none, and only the slot comes back', async () => {
  const { limiter } = setUp();
  const perMinute = tokenBucket({ name: 'rate', average: 10, burst: 10, period: '1m' });
  const daily = fixedWindow({ name: 'daily', quota: 1, window: '1d' });
  const limits = [inFlight.for('ann'), perMinute.for('ann'), daily.for('ann')];
  const first = await limiter.acquire(limits);

  const second = await limiter.acquire(limits);

  expect([second.allowed, second.decision.policy]).toEqual([false, 'daily']);
  expect((await limiter.peek(inFlight.for('ann'))).remaining).toBe(1);
  expect((await limiter.peek(perMinute.for('ann'))).remaining).toBe(9);
  await first.release();
  expect((await limiter.peek(inFlight.for('ann'))).remaining).toBe(2);
  expect((await limiter.peek(perMinute.for('ann'))).remaining).toBe(9);
});

test('a cost takes so many slots at once', async () => {
  const { limiter } = setUp();
  const heavy = await limiter.acquire(inFlight.for('ann'), { cost: 2 });

  expect(heavy.decision.remaining).toBe(0);
  await heavy.release();
  expect((await limiter.peek(inFlight.for('ann'))).remaining).toBe(2);
});

test('a limit with a cost of its own takes so many slots, whatever the call costs elsewhere', async () => {
  const { limiter } = setUp();
  const tokens = fixedWindow({ name: 'tokens', quota: 1000, window: '1d' });

  const slot = await limiter.acquire([inFlight.for('ann').withCost(1), tokens.for('ann')], { cost: 500 });

  expect(slot.decision.verdicts.map(({ remaining }) => remaining)).toEqual([1, 500]);
  await slot.release();
  expect((await limiter.peek(inFlight.for('ann'))).remaining).toBe(2);
});

test('releasing twice, or what was denied, does nothing', async () => {
  const { limiter } = setUp();
  const heavy = await limiter.acquire(inFlight.for('ann'), { cost: 2 });
  const denied = await limiter.acquire(inFlight.for('ann'));

  await denied.release();
  expect((await limiter.peek(inFlight.for('ann'))).remaining).toBe(0);
  await heavy.release();
  await limiter.acquire(inFlight.for('ann'));
  await heavy.release();
  expect((await limiter.peek(inFlight.for('ann'))).remaining).toBe(1);
});

test('a slot can be disposed of, with and without waiting', async () => {
  const { limiter } = setUp();
  const one = await limiter.acquire(inFlight.for('ann'));
  const other = await limiter.acquire(inFlight.for('ann'));

  await one[Symbol.asyncDispose]();
  other[Symbol.dispose]();
  await other.release();

  expect((await limiter.peek(inFlight.for('ann'))).remaining).toBe(2);
});

test('a raised limit frees only the difference, and a lowered one takes nobody their slot', async () => {
  const { limiter } = setUp();
  const held = await limiter.acquire(inFlight.for('ann'), { cost: 2, id: 'a' });

  expect((await limiter.peek(inFlight.with({ limit: 3 }).for('ann'))).remaining).toBe(1);
  expect((await limiter.peek(inFlight.with({ limit: 1 }).for('ann'))).remaining).toBe(0);
  expect((await limiter.acquire(inFlight.with({ limit: 1 }).for('ann'), { id: 'a' })).allowed).toBe(true);
  await held.release();
});

test('forget frees every slot', async () => {
  const { limiter } = setUp();
  await limiter.acquire(inFlight.for('ann'), { cost: 2 });

  await limiter.forget(inFlight.for('ann'));

  expect((await limiter.peek(inFlight.for('ann'))).remaining).toBe(2);
});

test('a store that is full shares slots among new keys, and gets them back', async () => {
  const clock = virtualClock();
  const limiter = createLimiter({ store: memoryStore({ clock, maxKeys: 1 }), clock });
  await limiter.acquire(inFlight.for('ann'));
  const bob = await limiter.acquire(inFlight.for('bob'), { cost: 2 });

  expect(bob.decision.source).toBe('overflow');
  expect((await limiter.acquire(inFlight.for('cleo'))).allowed).toBe(false);
  await bob.release();
  expect((await limiter.acquire(inFlight.for('cleo'))).allowed).toBe(true);
});

describe('mistakes', () => {
  test('check() of a concurrency limit says what to call instead', async () => {
    const { limiter } = setUp();

    await expect(limiter.check(inFlight.for('ann'))).rejects.toThrow(/in-flight.*use acquire\(\)/);
    expect(() => limiter.checkSync([inFlight.for('ann')])).toThrow(
      expect.objectContaining({ code: 'SLOT_REQUIRED' }),
    );
    expect((await limiter.peek(inFlight.for('ann'))).remaining).toBe(2);
  });

  test.each([
    [10_001, '30s', ['limit is 10001', 'from 1 to 10000', 'several keys']],
    [0, '30s', ['limit is 0', 'an integer from 1']],
    [1, 99, ['hold is 99', '100ms to']],
  ])('concurrency({ limit: %s, hold: %s }) names value, bound and fix', (limit, hold, mentions) => {
    for (const text of mentions) expect(() => concurrency({ name: 'a', limit, hold })).toThrow(text);
  });

  test('a store that cannot release cannot hold slots', async () => {
    const { release: _release, ...store } = Object.assign(Object.create(null), {
      check: async () => [],
      peek: async () => [],
      forget: async () => undefined,
      health: async () => ({ status: 'up', nodes: [] }),
      close: async () => undefined,
      release: undefined,
    });
    const limiter = createLimiter({ store });

    await expect(limiter.acquire(inFlight.for('ann'))).rejects.toMatchObject({ code: 'SLOTS_UNSUPPORTED' });
    await limiter.close();
  });

  test.each([
    [{ id: '' }, 'INVALID_OPTION'],
    [{ id: 7 }, 'INVALID_OPTION'],
    [{ cost: 0 }, 'INVALID_COST'],
    [{ cost: 1.5 }, 'INVALID_COST'],
    [{ name: 'x' }, 'INVALID_OPTION'],
  ])('acquire(%o) is refused before anything is taken', async (options, code) => {
    const { limiter } = setUp();

    // @ts-expect-error -- most of these are of no type that acquire() takes
    await expect(limiter.acquire(inFlight.for('ann'), options)).rejects.toMatchObject({ code });
    expect((await limiter.peek(inFlight.for('ann'))).remaining).toBe(2);
  });
});

test('what is in flight leaves no debt: maxDebt is refused', () => {
  const definition = { name: 'in-flight', limit: 1, hold: '30s', maxDebt: 5 } as const;

  expect(() => concurrency(definition)).toThrow(
    'concurrency() does not know "maxDebt"; it takes name, limit, hold, block, failurePolicy',
  );
});
