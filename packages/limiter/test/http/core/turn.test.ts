import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { turnAfter } from '../../../src/http/index.ts';

beforeEach(() => void vi.useFakeTimers());
afterEach(() => void vi.useRealTimers());

const DAY_MS = 86_400_000;

test.each([0.001, 1, 1500.5, 40 * DAY_MS, 100 * DAY_MS])(
  'a turn in %d ms comes then and not before',
  async (delayMs) => {
    const came = vi.fn<(come: boolean) => void>();
    void turnAfter(delayMs).comes.then(came);

    await vi.advanceTimersByTimeAsync(Math.ceil(delayMs) - 1);
    expect(came).not.toHaveBeenCalled();
    await vi.advanceTimersByTimeAsync(1);

    expect(came).toHaveBeenCalledExactlyOnceWith(true);
    expect(vi.getTimerCount()).toBe(0);
  },
);

test('a turn that is called off never comes and leaves no timer', async () => {
  const turn = turnAfter(100 * DAY_MS);
  await vi.advanceTimersByTimeAsync(30 * DAY_MS);

  turn.callOff();

  expect(await turn.comes).toBe(false);
  expect(vi.getTimerCount()).toBe(0);
});
