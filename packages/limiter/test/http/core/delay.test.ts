import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { startDelay } from '../../../src/http/index.ts';

beforeEach(() => void vi.useFakeTimers());
afterEach(() => void vi.useRealTimers());

const DAY_MS = 86_400_000;

test.each([0.001, 1, 1500.5, 40 * DAY_MS, 100 * DAY_MS])(
  'a delay of %d ms ends then and not before',
  async (delayMs) => {
    const came = vi.fn<(come: boolean) => void>();
    void startDelay(delayMs).ended.then(came);

    await vi.advanceTimersByTimeAsync(Math.ceil(delayMs) - 1);
    expect(came).not.toHaveBeenCalled();
    await vi.advanceTimersByTimeAsync(1);

    expect(came).toHaveBeenCalledExactlyOnceWith(true);
    expect(vi.getTimerCount()).toBe(0);
  },
);

test('a cancelled delay leaves no timer', async () => {
  const delay = startDelay(100 * DAY_MS);
  await vi.advanceTimersByTimeAsync(30 * DAY_MS);

  delay.cancel();

  expect(await delay.ended).toBe(false);
  expect(vi.getTimerCount()).toBe(0);
});
