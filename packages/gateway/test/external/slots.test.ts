import { expect, test } from 'vitest';
import { Slots } from '../../src/external/slots.ts';

const never = new AbortController().signal;

test('as many as there are slots go, some wait in order, and the rest are told at once', async () => {
  const slots = new Slots({ max: 2, maxWaiting: 2, maxPerKey: 9 });
  const order: string[] = [];
  const ask = async (key: string) => {
    const granted = await slots.acquire(key, never);
    order.push(`${key} ${granted}`);
  };

  expect([slots.acquire('a', never), slots.acquire('b', never)]).toEqual([true, true]);
  const waiting = [ask('c'), ask('d')];
  expect(slots.acquire('e', never)).toBe(false);
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
  const patience = new AbortController();
  expect(slots.acquire('a', never)).toBe(true);
  const waiting = slots.acquire('b', patience.signal);

  patience.abort();

  expect(await waiting).toBe(false);
  expect(slots.queued).toBe(0);
  const next = slots.acquire('c', never);
  slots.release('a');
  expect(await next).toBe(true);
  slots.release('c');
  expect(slots.inFlight).toBe(0);
  expect(slots.acquire('d', patience.signal)).toBe(false);
});

test('no key has more than its share of slots and waiting places', async () => {
  const slots = new Slots({ max: 2, maxWaiting: 10, maxPerKey: 3 });

  const granted = Array.from({ length: 5 }, () => slots.acquire('greedy', never));
  expect(granted.filter((each) => each === false)).toHaveLength(2);
  const other = slots.acquire('modest', never);
  expect(other).toBeInstanceOf(Promise);

  for (let at = 0; at < 3; at += 1) slots.release('greedy');
  expect(await other).toBe(true);
  slots.release('modest');
  expect([slots.inFlight, slots.queued]).toEqual([0, 0]);
  expect(slots.acquire('greedy', never)).toBe(true);
});
