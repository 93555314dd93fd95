import { expect, test } from 'vitest';

import { parseBusyMs, parseOwnMs, QuietSlices } from './quiet-slices.ts';

test('a machine is busy while it does neither nothing nor wait for a disk', () => {
  const stat = 'cpu  100 20 30 9999 8888 4 5 6 0 0\ncpu0 1 2 3 4 5 6 7 8 0 0\n';

  expect(parseBusyMs(stat)).toBe(1650);
});

test('a process has used its own time and that of the processes it waited for', () => {
  const stat = '42 (node (a) b) S 1 42 42 0 -1 4194560 100 200 0 0 7 8 9 10 20 0 11 0 12345 1000 200';

  expect(parseOwnMs(stat)).toBe(340);
});

test('a disturbed slice is repeated until the repeats are used up', async () => {
  const quiet = new QuietSlices(2);
  let runs = 0;
  const slice = async (): Promise<{ elapsedMs: number }> => {
    runs++;
    return { elapsedMs: 100 };
  };
  // Less than nothing of the machine's time was measured, so all the rest was someone else's.
  const disturbed = (): number => -1000;

  await quiet.run(slice, disturbed);
  await quiet.run(slice, disturbed);

  expect(runs).toBe(4);
  expect(quiet.summary()).toContain('repeated (2); of the 2 kept, 2 were disturbed');
});

test('a quiet slice is kept', async () => {
  const quiet = new QuietSlices(2);

  const kept = await quiet.run(
    async () => ({ elapsedMs: 100 }),
    () => 1_000_000,
  );

  expect(kept).toEqual({ elapsedMs: 100 });
  expect(quiet.summary()).toContain('repeated (0); of the 1 kept, 0 were disturbed');
});

test('a report can tell how many slices were kept, and how many of them were disturbed', async () => {
  const quiet = new QuietSlices(0);

  await quiet.run(
    async () => ({ elapsedMs: 100 }),
    () => 1_000_000,
  );

  expect(quiet.disturbance()).toEqual({ kept: 1, disturbed: 0, repeated: 0 });
});
