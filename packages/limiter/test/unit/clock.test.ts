import { describe, expect, test, vi } from 'vitest';
import { MAX_TIME_US } from '../../src/algorithms/algorithm.ts';
import { readClock } from '../../src/clock.ts';
import { createLimiter, fixedWindow, memoryStore, systemClock, tokenBucket } from '../../src/index.ts';

describe('systemClock', () => {
  test('tells whole microseconds since 1970', () => {
    const nowUs = systemClock();

    expect(Number.isSafeInteger(nowUs)).toBe(true);
    // Within a day of the machine's clock: the unit and the origin are right, and a stepped clock fails no test.
    expect(Math.abs(nowUs - Date.now() * 1000)).toBeLessThan(86_400_000_000);
  });

  test('never goes back', () => {
    const times = Array.from({ length: 10_000 }, systemClock);

    expect(times.every((time, at) => time >= (times[at - 1] ?? 0))).toBe(true);
  });

  test('does not follow a machine clock that is set back or forth', () => {
    const beforeUs = systemClock();
    const stepped = vi.spyOn(Date, 'now').mockReturnValue(0);

    const afterUs = systemClock();

    expect(afterUs).toBeGreaterThanOrEqual(beforeUs);
    expect(stepped).not.toHaveBeenCalled();
  });

  test('is what a limiter uses unless it is given another', async () => {
    const day = fixedWindow({ name: 'day', quota: 1, window: '1d' });
    const beforeUs = systemClock();

    const { resetAfterMs } = await createLimiter().check(day.for('ann'));

    const dayUs = 86_400_000_000;
    const endUs = Math.ceil((beforeUs + 1) / dayUs) * dayUs;
    const leftMs = (endUs - systemClock()) / 1000;
    // The day may end between the two readings; then all of the next day is left.
    expect(
      [leftMs, leftMs + 86_400_000].some((left) => resetAfterMs >= left && resetAfterMs <= left + 60_000),
    ).toBe(true);
  });
});

describe('readClock', () => {
  test.each([[0], [1], [1_767_225_600_000_000], [MAX_TIME_US]])('accepts %d', (nowUs) => {
    expect(readClock(() => nowUs)).toBe(nowUs);
  });

  test.each([[-1], [0.5], [MAX_TIME_US + 1], [Number.NaN], [Infinity]])('refuses %d', (nowUs) => {
    expect(() => readClock(() => nowUs)).toThrow(expect.objectContaining({ code: 'INVALID_CLOCK' }));
  });
});

test.each(['check', 'peek'] as const)(
  'a broken clock of the store is a mistake, not an outage: %s',
  async (call) => {
    const policy = tokenBucket({ name: 'api', average: 1, period: '1s' });
    const limiter = createLimiter({
      store: memoryStore({ clock: () => Number.NaN }),
      failurePolicy: 'passThrough',
    });

    await expect(limiter[call](policy.for('ann'))).rejects.toMatchObject({ code: 'INVALID_CLOCK' });
  },
);

test('a decision reads the clock once, however many limits it has', () => {
  const clock = vi.fn<() => number>(() => 1_000_000_000);
  const store = memoryStore({ clock });
  const limits = ['a', 'b', 'c'].map((name) => tokenBucket({ name, average: 1, period: '1s' }).for('ann'));

  store.checkSync(limits, 1);

  expect(clock).toHaveBeenCalledOnce();
});

test('limits work from the first to the last microsecond a clock can tell', async () => {
  const policy = tokenBucket({ name: 'api', average: 1, burst: 1, period: '1s' });

  for (const nowUs of [0, MAX_TIME_US - 1, MAX_TIME_US]) {
    const limiter = createLimiter({ clock: () => nowUs });
    expect((await limiter.check(policy.for('ann'))).allowed).toBe(true);
    expect(await limiter.check(policy.for('ann'))).toMatchObject({ allowed: false, retryAfterMs: 1000 });
  }
});
