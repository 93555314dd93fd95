import { describe, expect, test, vi } from 'vitest';
import { createLimiter, type LimiterError, type Limiter, type LimiterOptions } from '../../src/index.ts';
import { virtualClock, type VirtualClock } from '../../src/testing/index.ts';
import { TENS } from './policies.ts';
import { NETWORK_ERROR, remoteStore, type RemoteStore } from './remote-store.ts';

const [api] = TENS as [(typeof TENS)[number]];

interface Bench {
  readonly limiter: Limiter;
  readonly store: RemoteStore;
  readonly clock: VirtualClock;
  readonly errors: LimiterError[];
}

function remote(options: LimiterOptions = {}): Bench {
  const clock = virtualClock();
  const store = remoteStore(clock);
  const limiter = createLimiter({ clock, store, ...options });
  const errors: LimiterError[] = [];
  limiter.on('storeError', ({ error }) => errors.push(error));
  return { limiter, store, clock, errors };
}

describe('an abort signal', () => {
  test('ends the wait: the call rejects with the reason, and the store is not blamed', async () => {
    const { limiter, store, errors } = remote({ deadlineMs: 60_000 });
    const controller = new AbortController();
    const reason = new Error('the client went away');
    store.behaviour = 'hangs';

    const pending = limiter.check(api.for('ann'), { signal: controller.signal });
    controller.abort(reason);

    await expect(pending).rejects.toBe(reason);
    expect(errors).toEqual([]);
  });

  test.each(['check', 'peek'] as const)(
    'that is already aborted keeps %s away from the store',
    async (call) => {
      const { limiter, store, errors } = remote();
      const signal = AbortSignal.abort('no longer needed');

      await expect(limiter[call](api.for('ann'), { signal })).rejects.toBe('no longer needed');

      expect(store.calls).toEqual([]);
      expect(errors).toEqual([]);
    },
  );

  test('that is already aborted spends nothing in memory, and checkSync throws its reason', async () => {
    const limiter = createLimiter({ clock: virtualClock() });
    const reason = new Error('too late');
    const signal = AbortSignal.abort(reason);

    expect(() => limiter.checkSync(api.for('ann'), { signal })).toThrow(reason);
    await expect(limiter.check(api.for('ann'), { signal })).rejects.toBe(reason);

    expect((await limiter.peek(api.for('ann'))).remaining).toBe(10);
  });

  test('of another realm counts as well', async () => {
    const limiter = createLimiter({ clock: virtualClock() });
    const reason = new Error('too late');
    // What it inherits from is not the AbortSignal of this realm.
    const foreign = (signal: AbortSignal): AbortSignal => ({
      aborted: signal.aborted,
      reason: signal.reason,
      onabort: null,
      throwIfAborted: () => signal.throwIfAborted(),
      addEventListener: signal.addEventListener.bind(signal),
      removeEventListener: signal.removeEventListener.bind(signal),
      dispatchEvent: signal.dispatchEvent.bind(signal),
    });
    const [open, aborted] = [new AbortController().signal, AbortSignal.abort(reason)];

    expect((await limiter.check(api.for('ann'), { signal: foreign(open) })).allowed).toBe(true);
    await expect(limiter.check(api.for('ann'), { signal: foreign(aborted) })).rejects.toBe(reason);
  });

  test('that aborts while the store fails wins: there is nobody left to answer', async () => {
    const { limiter, store, errors } = remote();
    const controller = new AbortController();
    store.check = () => {
      controller.abort(new Error('gone'));
      return Promise.reject(NETWORK_ERROR);
    };

    await expect(limiter.check(api.for('ann'), { signal: controller.signal })).rejects.toThrow('gone');

    expect(errors).toEqual([]);
  });

  test('that aborts after the answer changes nothing, and is no longer listened to', async () => {
    const { limiter } = remote();
    const controller = new AbortController();
    const removed = vi.spyOn(controller.signal, 'removeEventListener');

    const decision = await limiter.check(api.for('ann'), { signal: controller.signal });
    controller.abort();

    expect(decision.allowed).toBe(true);
    expect(removed).toHaveBeenCalledOnce();
  });
});
