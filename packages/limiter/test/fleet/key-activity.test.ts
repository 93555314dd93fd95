import { expect, test } from 'vitest';
import { createLimiter } from '../../src/create-limiter.ts';
import { KeyActivity } from '../../src/fleet/key-activity.ts';
import { fixedWindow } from '../../src/policy.ts';

const MINUTE_MS = 60_000;

test('counts every limit of a decision, those that denied twice, and sums up all decisions', () => {
  const limiter = createLimiter();
  const activity = new KeyActivity();
  limiter.on('decision', ({ decision }) => activity.note(decision));
  const [one, both] = [
    fixedWindow({ name: 'one', quota: 2, window: '1h' }),
    fixedWindow({ name: 'both', quota: 9, window: '1h' }),
  ];

  for (let at = 0; at < 3; at += 1) limiter.checkSync([one.for('ann'), both.for('ann')]);

  const { busiest, denied } = activity.snapshot(10);
  expect(activity.sums()).toEqual({ allowed: 2, denied: 1, undecided: 0 });
  expect(busiest.keys.map(({ policy, count }) => [policy, count])).toEqual([
    ['both', 3],
    ['one', 3],
  ]);
  expect(denied.keys).toEqual([{ policy: 'one', key: 'ann', count: 1, error: 0 }]);
});

test('what happened more than ten minutes ago is not listed, what happened five minutes ago is', () => {
  let nowMs = 0;
  const limiter = createLimiter();
  const activity = new KeyActivity(() => nowMs);
  limiter.on('decision', ({ decision }) => activity.note(decision));
  const policy = fixedWindow({ name: 'api', quota: 1000, window: '1d' });
  const listed = (): readonly string[] => activity.snapshot(10).busiest.keys.map(({ key }) => key);

  limiter.checkSync(policy.for('early'));
  nowMs = 5 * MINUTE_MS;
  expect(listed()).toEqual(['early']);
  limiter.checkSync(policy.for('late'));
  nowMs = 10 * MINUTE_MS;
  expect(listed()).toEqual(['late']);
  nowMs = 21 * MINUTE_MS;
  expect(listed()).toEqual([]);
});

test('a key of more than 512 characters is counted and never listed', () => {
  const limiter = createLimiter();
  const activity = new KeyActivity();
  limiter.on('decision', ({ decision }) => activity.note(decision));

  limiter.checkSync(fixedWindow({ name: 'api', quota: 5, window: '1h' }).for('x'.repeat(513)));

  expect(activity.sums().allowed).toBe(1);
  expect(activity.snapshot(10).busiest.keys).toEqual([]);
});
