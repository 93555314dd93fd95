import { expect, test } from 'vitest';

import { LOOPS, TurnLoad } from './turns.ts';

test('every decision is counted, and whether it was admitted', async () => {
  let asked = 0;
  const load = new TurnLoad(
    { call: async () => ++asked, allowed: (answer) => Number(answer) % 2 === 0, denied: () => false },
    () => 'hot',
  );

  const { operations, admitted } = await load.run(0);

  expect(operations).toBe(asked);
  expect(admitted).toBe(asked / 2);
  expect(asked % LOOPS).toBe(0);
});

test('an error that is how the library denies is a denial; any other ends the run', async () => {
  const denial = new Error('denied');
  const denying = new TurnLoad(
    {
      call: async () => Promise.reject(denial),
      allowed: () => true,
      denied: (reason) => reason === denial,
    },
    () => 'hot',
  );
  const failing = new TurnLoad(
    { call: async () => Promise.reject(new Error('broken')), allowed: () => true, denied: () => false },
    () => 'hot',
  );

  const { admitted } = await denying.run(0);

  expect(admitted).toBe(0);
  await expect(failing.run(0)).rejects.toThrow('broken');
});
