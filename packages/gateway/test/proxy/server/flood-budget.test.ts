import { expect, test } from 'vitest';
import { FloodBudget } from '../../../src/proxy/server/flood-budget.ts';

function taken(allowance: FloodBudget, nowMs: number, tries: number): number {
  let count = 0;
  for (let at = 0; at < tries; at += 1) if (allowance.take(() => nowMs)) count += 1;
  return count;
}

test('the burst at once, and then no more', () => {
  expect(taken(new FloodBudget(5, 10, 0), 0, 20)).toBe(5);
});

test('so many per second come back, and never more than the burst', () => {
  const allowance = new FloodBudget(5, 10, 0);
  taken(allowance, 0, 5);

  expect(taken(allowance, 200, 2)).toBe(2);
  expect(taken(allowance, 200, 1)).toBe(0);
  expect(taken(allowance, 3_600_000, 20)).toBe(5);
});

test('a rest below one is not lost', () => {
  const allowance = new FloodBudget(2, 10, 0);
  taken(allowance, 0, 2);

  expect(taken(allowance, 150, 1)).toBe(1);
  expect(taken(allowance, 200, 1)).toBe(1);
});
