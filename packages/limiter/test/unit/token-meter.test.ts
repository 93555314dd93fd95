import { expect, test } from 'vitest';
import { TokenMeter } from '../../src/token-meter.ts';

function taken(meter: TokenMeter, nowMs: number, tries: number): number {
  let count = 0;
  for (let at = 0; at < tries; at += 1) if (meter.take(nowMs)) count += 1;
  return count;
}

test('the burst at once, and then no more', () => {
  expect(taken(new TokenMeter(5, 10), 0, 20)).toBe(5);
});

test('so many per second come back, and never more than the burst', () => {
  const meter = new TokenMeter(5, 10);
  taken(meter, 0, 5);

  expect(taken(meter, 200, 2)).toBe(2);
  expect(taken(meter, 200, 1)).toBe(0);
  expect(taken(meter, 3_600_000, 20)).toBe(5);
});

test('a rest below one is not lost', () => {
  const meter = new TokenMeter(2, 10);
  taken(meter, 0, 2);

  expect(taken(meter, 150, 1)).toBe(1);
  expect(taken(meter, 200, 1)).toBe(1);
});

test('a burst that comes late is not given twice', () => {
  const meter = new TokenMeter(5, 10);

  expect(taken(meter, 10_000, 20)).toBe(5);
  expect(taken(meter, 10_000, 20)).toBe(0);
});
