import { expect, test } from 'vitest';

import { interleave, type Contender } from './rounds.ts';

test('every contender runs once per round, and the first round does not count', async () => {
  const ran: string[] = [];
  const contender = (id: string, elapsedMs: readonly number[]): Contender => ({
    id,
    slice() {
      ran.push(id);
      const round = ran.filter((other) => other === id).length - 1;
      return { operations: 1000, elapsedMs: elapsedMs[round] ?? 0 };
    },
  });

  const medians = await interleave([contender('a', [99, 1, 3, 2]), contender('b', [99, 8, 8, 9])], {
    rounds: 3,
    sliceMs: 1,
  });

  expect(ran.join('')).toBe('abbaabba');
  expect(Object.fromEntries(medians)).toStrictEqual({ a: 2000, b: 8000 });
});
