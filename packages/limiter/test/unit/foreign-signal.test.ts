import { expect, test } from 'vitest';
import { createLimiter, tokenBucket } from '../../src/index.ts';
import { virtualClock } from '../../src/testing/index.ts';

const api = tokenBucket({ name: 'api', average: 10, period: '1s' });

/** As a sandbox hands it over: what it inherits from is not the `AbortSignal` of this realm. */
function foreign(signal: AbortSignal): AbortSignal {
  return {
    aborted: signal.aborted,
    reason: signal.reason,
    onabort: null,
    throwIfAborted: () => signal.throwIfAborted(),
    addEventListener: signal.addEventListener.bind(signal),
    removeEventListener: signal.removeEventListener.bind(signal),
    dispatchEvent: signal.dispatchEvent.bind(signal),
  };
}

test('a signal of another realm is a signal', async () => {
  const limiter = createLimiter({ clock: virtualClock() });
  const reason = new Error('too late');
  const [open, aborted] = [new AbortController().signal, AbortSignal.abort(reason)];

  expect((await limiter.check(api.for('ann'), { signal: foreign(open) })).remaining).toBe(9);
  await expect(limiter.check(api.for('ann'), { signal: foreign(aborted) })).rejects.toBe(reason);
});
