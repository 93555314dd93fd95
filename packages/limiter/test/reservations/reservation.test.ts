import { describe, expect, test } from 'vitest';
import {
  createLimiter,
  fixedWindow,
  memoryStore,
  slidingWindowLog,
  tokenBucket,
  type Store,
} from '../../src/index.ts';
import { virtualClock } from '../../src/testing/index.ts';

const tokens = fixedWindow({ name: 'tokens', quota: 1000, window: '1m', maxDebt: 200 });
const requests = fixedWindow({ name: 'requests', quota: 2, window: '1m' });

describe('a reservation', () => {
  test('gives back what was not used, and only once', async () => {
    const limiter = createLimiter();
    const reservation = await limiter.reserve(tokens.for('ann'), { cost: 600 });

    const first = await reservation.settle(150);
    const second = await reservation.settle(400);

    expect(first).toEqual({
      reserved: 600,
      actual: 150,
      debt: 0,
      uncharged: 0,
      expired: false,
      degraded: false,
    });
    expect(second).toBe(first);
    expect((await limiter.peek(tokens.for('ann'))).remaining).toBe(850);
  });

  test('charges what was used beyond it, up to maxDebt, and tells the rest', async () => {
    const limiter = createLimiter();
    const reservation = await limiter.reserve(tokens.for('ann'), { cost: 600 });

    expect(await reservation.settle(1300)).toMatchObject({ debt: 600, uncharged: 100 });
    expect(await limiter.check(tokens.for('ann'))).toMatchObject({ allowed: false, remaining: 0 });
  });

  test('leaves limits with a cost of their own alone, unless it is cancelled', async () => {
    const limiter = createLimiter();
    const limits = [requests.for('ann').withCost(1), tokens.for('ann')];
    const settled = await limiter.reserve(limits, { cost: 500 });
    const cancelled = await limiter.reserve(limits, { cost: 500 });

    await settled.settle(0);
    await cancelled.cancel();

    expect((await limiter.peek(requests.for('ann'))).remaining).toBe(1);
    expect((await limiter.peek(tokens.for('ann'))).remaining).toBe(1000);
  });

  test('can be split: each part is settled by itself, also where limits have costs of their own', async () => {
    const limiter = createLimiter();
    const limits = [requests.for('ann').withCost(2), tokens.for('ann')] as const;
    const reservation = await limiter.reserve(limits, { cost: 500 });

    const [calls, spent] = reservation.split([[limits[0]], [limits[1]]]);
    await expect(spent?.extend(1)).rejects.toThrow('A part of a split reservation cannot be extended');
    await calls?.settle(1);
    await spent?.settle(400);

    expect([calls?.reserved, spent?.reserved]).toEqual([2, 500]);
    expect((await limiter.peek(requests.for('ann'))).remaining).toBe(1);
    expect((await limiter.peek(tokens.for('ann'))).remaining).toBe(600);
    expect(() => reservation.split([limits])).toThrow('has ended cannot be split');
  });

  test('is split into groups of its own limits, of one cost each', async () => {
    const limiter = createLimiter();
    const limits = [requests.for('ann').withCost(1), tokens.for('ann')] as const;
    const reservation = await limiter.reserve(limits, { cost: 500 });

    expect(() => reservation.split([[limits[0]]])).toThrow('into 1 limits; expected its own 2');
    expect(() => reservation.split([limits])).toThrow('limits of several costs');
    expect(() => reservation.split([[limits[0]], [limits[1]], []])).toThrow('or none');
    await reservation.settle(0);

    expect((await limiter.peek(tokens.for('ann'))).remaining).toBe(1000);
  });

  test('can be extended while there is room, and an extension that is denied changes nothing', async () => {
    const limiter = createLimiter();
    const limits = [requests.for('ann').withCost(1), tokens.for('ann')];
    const reservation = await limiter.reserve(limits, { cost: 500 });

    expect(await reservation.extend(400)).toMatchObject({ allowed: true, remaining: 100 });
    expect(await reservation.extend(101)).toMatchObject({ allowed: false, policy: 'tokens' });
    expect(reservation.reserved).toBe(900);
    await reservation.settle(899);

    expect((await limiter.peek(tokens.for('ann'))).remaining).toBe(101);
    expect((await limiter.peek(requests.for('ann'))).remaining).toBe(1);
  });

  test('that nobody settles counts in full, also for whoever comes too late', async () => {
    const clock = virtualClock();
    const limiter = createLimiter({ clock });
    const reservation = await limiter.reserve(tokens.for('ann'), { cost: 600, expiresIn: '10s' });
    clock.advance('10001ms');

    expect(await reservation.settle(1)).toMatchObject({ expired: true, debt: 0 });
    expect((await limiter.peek(tokens.for('ann'))).remaining).toBe(400);
  });

  test('that is denied charges nothing, and cannot be settled or extended', async () => {
    const limiter = createLimiter();
    const reservation = await limiter.reserve([tokens.for('ann'), requests.for('ann').withCost(1)], {
      cost: 1001,
    });

    expect(reservation).toMatchObject({ allowed: false, reserved: 0 });
    await expect(reservation.settle(5)).rejects.toThrow('was denied');
    await expect(reservation.extend(5)).rejects.toThrow('was denied');
    await expect(reservation.cancel()).resolves.toMatchObject({ reserved: 0 });
    expect((await limiter.peek(requests.for('ann'))).remaining).toBe(2);
  });

  test('settles in the order of its calls, whoever waits for them', async () => {
    const limiter = createLimiter();
    const reservation = await limiter.reserve(tokens.for('ann'), { cost: 100 });

    const [extended, settled] = await Promise.all([reservation.extend(100), reservation.settle(150)]);

    expect(extended.allowed).toBe(true);
    expect(settled).toMatchObject({ reserved: 200, actual: 150 });
    await expect(reservation.extend(1)).rejects.toThrow('has ended');
  });

  test('can be extended 63 times', async () => {
    const limiter = createLimiter();
    const reservation = await limiter.reserve(tokens.for('ann'));
    for (let times = 0; times < 63; times += 1) await reservation.extend(1);

    await expect(reservation.extend(1)).rejects.toThrow('extended 63 times');
    await reservation.cancel();
    expect((await limiter.peek(tokens.for('ann'))).remaining).toBe(1000);
  });
});

test('a debt has to be paid back before a bucket admits again', async () => {
  const clock = virtualClock();
  const limiter = createLimiter({ clock });
  const api = tokenBucket({ name: 'api', average: 10, burst: 10, period: '1s' });
  const reservation = await limiter.reserve(api.for('ann'), { cost: 10 });
  await reservation.settle(18);

  const denied = await limiter.check(api.for('ann'));
  clock.advance(denied.retryAfterMs);

  expect(denied.retryAfterMs).toBe(900);
  expect(await limiter.check(api.for('ann'))).toMatchObject({ allowed: true, remaining: 0 });
});

describe('when the store cannot decide', () => {
  function failingStore(fails: { reserve: boolean; settle: boolean }): Store {
    const store = memoryStore();
    return {
      check: (limits, cost) => store.check(limits, cost),
      peek: (limits, cost) => store.peek(limits, cost),
      forget: (limits) => store.forget(limits),
      health: () => store.health(),
      close: () => store.close(),
      reserve: async (limits, cost, onCharge) => {
        if (fails.reserve) throw new Error('down');
        return store.reserve(limits, cost, onCharge);
      },
      settle: async (id, adjustments) => {
        if (fails.settle) throw new Error('down');
        return store.settle(id, adjustments);
      },
    };
  }

  test('the failure policy answers the reservation, and there is nothing to settle', async () => {
    const limiter = createLimiter({
      store: failingStore({ reserve: true, settle: true }),
      failurePolicy: 'passThrough',
    });
    limiter.on('undecided', () => undefined);

    const reservation = await limiter.reserve(tokens.for('ann'), { cost: 500 });

    expect(reservation).toMatchObject({ allowed: true, decision: { degraded: true } });
    expect(await reservation.settle(700)).toMatchObject({ degraded: true, debt: 0, uncharged: 0 });
  });

  test('an extension is answered by the failure policy that was chosen for the reservation', async () => {
    const fails = { reserve: false, settle: false };
    const limiter = createLimiter({ store: failingStore(fails), failurePolicy: 'passThrough' });
    limiter.on('undecided', () => undefined);
    const reservation = await limiter.reserve(tokens.for('ann'), { failurePolicy: 'failClosed' });
    fails.reserve = true;

    expect(await reservation.extend(5)).toMatchObject({ allowed: false, degraded: true });
  });

  test('a settlement rejects, and can be repeated', async () => {
    const fails = { reserve: false, settle: true };
    const limiter = createLimiter({ store: failingStore(fails) });
    const reservation = await limiter.reserve(tokens.for('ann'), { cost: 500 });

    await expect(reservation.settle(100)).rejects.toMatchObject({ code: 'STORE_UNAVAILABLE' });
    fails.settle = false;

    expect(await reservation.settle(100)).toMatchObject({ actual: 100 });
    expect((await limiter.peek(tokens.for('ann'))).remaining).toBe(900);
  });

  test('a store that cannot settle cannot reserve', async () => {
    const entries = Object.entries(failingStore({ reserve: false, settle: false }));
    const withoutReserve = Object.fromEntries(entries.filter(([name]) => name !== 'reserve'));
    const limiter = createLimiter({ store: Object.assign(withoutReserve) });

    await expect(limiter.reserve(tokens.for('ann'))).rejects.toMatchObject({ code: 'RESERVE_UNSUPPORTED' });
  });
});

test('what a key charged to a shared state of a full store is not given back', async () => {
  const clock = virtualClock();
  const limiter = createLimiter({ clock, store: memoryStore({ clock, maxKeys: 1 }) });
  await limiter.check(tokens.for('first'));
  const reservation = await limiter.reserve(tokens.for('second'), { cost: 500 });

  await reservation.settle(0);

  expect(await limiter.peek(tokens.for('third'))).toMatchObject({ source: 'overflow', remaining: 500 });
});

test.each([
  ['a cost of 0', { cost: 0 }, 'cost is 0'],
  ['half a token', { cost: 0.5 }, 'cost is 0.5'],
  ['an expiry that is none', { expiresIn: 'soon' }, 'expiresIn is "soon"'],
  ['an expiry of two days', { expiresIn: '2d' }, 'expiresIn is "2d"'],
  [
    'an unknown option',
    { actual: 5 },
    'The options of reserve() do not include "actual"; accepted are cost, expiresIn, signal, failurePolicy',
  ],
])('%s is refused before anything is charged', async (_what, options: object, message) => {
  const limiter = createLimiter();

  await expect(limiter.reserve(tokens.for('ann'), options)).rejects.toThrow(message);
  expect((await limiter.peek(tokens.for('ann'))).remaining).toBe(1000);
});

test.each([-1, 0.5, Number.NaN, 2 ** 53])('%s is nothing that can have been used', async (actual) => {
  const limiter = createLimiter();
  const reservation = await limiter.reserve(tokens.for('ann'), { cost: 10 });

  await expect(reservation.settle(actual)).rejects.toMatchObject({ code: 'INVALID_COST' });
  await expect(reservation.settle(4)).resolves.toMatchObject({ actual: 4 });
});

test.each([0, -1, 1.5])('a limit cannot cost %s', (cost) => {
  expect(() => tokens.for('ann').withCost(cost)).toThrow('The cost of a limit is');
});

test.each([-1, 0.5, 2 ** 53])('maxDebt cannot be %s', (maxDebt) => {
  expect(() => slidingWindowLog({ name: 'log', quota: 5, window: '1s', maxDebt })).toThrow('maxDebt is');
});

test('a check may cost each limit something else, all or none', async () => {
  const limiter = createLimiter();
  const limits = [requests.for('ann').withCost(1), tokens.for('ann')];

  expect(await limiter.check(limits, { cost: 900 })).toMatchObject({ allowed: true });
  expect(await limiter.check(limits, { cost: 900 })).toMatchObject({ allowed: false, policy: 'tokens' });
  expect((await limiter.peek(requests.for('ann'))).remaining).toBe(1);
});
