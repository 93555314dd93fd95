import { expect, test } from 'vitest';
import { Slots } from '../../src/external/limits-service-caller.ts';

function placeIn(slots: Slots, key: string) {
  const slot = slots.acquire(key);
  if (typeof slot === 'string') throw new Error(`expected a place to wait, got ${slot}`);
  return slot;
}

test('as many as there are slots go, some wait in order, and the rest are told at once', async () => {
  const slots = new Slots({ max: 2, maxWaiting: 2, maxPerKey: 9 });
  const order: string[] = [];
  const wait = async (key: string) => {
    order.push(`${key} ${await placeIn(slots, key).granted}`);
  };

  expect([slots.acquire('a'), slots.acquire('b')]).toEqual(['granted', 'granted']);
  const waiting = [wait('c'), wait('d')];
  expect(slots.acquire('e')).toBe('full');
  expect([slots.inFlight, slots.queued, slots.hasRoom]).toEqual([2, 2, false]);

  slots.release('a');
  slots.release('b');
  await Promise.all(waiting);
  expect(order).toEqual(['c true', 'd true']);
  expect([slots.inFlight, slots.queued]).toEqual([2, 0]);
  slots.release('c');
  slots.release('d');
  expect([slots.inFlight, slots.hasRoom]).toEqual([0, true]);
});

test('whoever stops waiting leaves the place to others and gets no slot later', async () => {
  const slots = new Slots({ max: 1, maxWaiting: 1, maxPerKey: 9 });
  expect(slots.acquire('a')).toBe('granted');
  const impatient = placeIn(slots, 'b');

  impatient.leave();

  expect(await impatient.granted).toBe(false);
  expect(slots.queued).toBe(0);
  const next = placeIn(slots, 'c');
  impatient.leave();
  slots.release('a');
  expect(await next.granted).toBe(true);
  next.leave();
  slots.release('c');
  expect(slots.inFlight).toBe(0);
});

test('no key has more than its share of slots and waiting places', async () => {
  const slots = new Slots({ max: 2, maxWaiting: 10, maxPerKey: 3 });

  expect([slots.acquire('greedy'), slots.acquire('greedy')]).toEqual(['granted', 'granted']);
  const third = placeIn(slots, 'greedy');
  expect(slots.acquire('greedy')).toBe('full');
  const other = placeIn(slots, 'modest');

  third.leave();
  const again = placeIn(slots, 'greedy');
  for (let at = 0; at < 2; at += 1) slots.release('greedy');
  expect([await other.granted, await again.granted]).toEqual([true, true]);
  slots.release('modest');
  slots.release('greedy');
  expect([slots.inFlight, slots.queued]).toEqual([0, 0]);
  expect(slots.acquire('greedy')).toBe('granted');
});

test('everybody who waits can be sent away at once', async () => {
  const slots = new Slots({ max: 1, maxWaiting: 9, maxPerKey: 9 });
  slots.acquire('a');
  const waiting = [placeIn(slots, 'b'), placeIn(slots, 'c')];

  slots.clear();

  expect(await Promise.all(waiting.map(async ({ granted }) => granted))).toEqual([false, false]);
  expect([slots.inFlight, slots.queued]).toEqual([1, 0]);
});
