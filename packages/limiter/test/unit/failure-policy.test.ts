import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest';
import {
  createLimiter,
  DEFAULT_DEADLINE_MS,
  LimiterError,
  memoryStore,
  type FailurePolicy,
  type Limiter,
  type LimiterOptions,
  type Store,
} from '../../src/index.ts';
import { virtualClock, type VirtualClock } from '../../src/testing/index.ts';
import { TENS } from './policies.ts';
import { NETWORK_ERROR, remoteStore, type RemoteStore } from './remote-store.ts';

const [api, queue] = TENS as [(typeof TENS)[number], (typeof TENS)[number]];

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

describe.each(['rejects', 'throws', 'says nonsense'] as const)('when the store %s', (behaviour) => {
  test('passThrough allows everything, and says that nobody counted', async () => {
    const { limiter, store } = remote({ failurePolicy: 'passThrough' });
    store.behaviour = behaviour;

    const decisions = await Promise.all(
      Array.from({ length: 20 }, () => limiter.check(api.for('ann'), { cost: 10 })),
    );

    expect(new Set(decisions.map((decision) => decision.allowed))).toEqual(new Set([true]));
    expect(decisions[0]).toMatchObject({
      degraded: true,
      source: 'failurePolicy',
      delayMs: 0,
      retryAfterMs: 0,
    });
  });

  test('failClosed denies everything, tells when to come back, and does not look like a denial', async () => {
    const { limiter, store } = remote({ failurePolicy: 'failClosed' });
    store.behaviour = behaviour;

    const decision = await limiter.check([api.for('ann'), queue.for('ann')]);

    expect(decision).toMatchObject({ allowed: false, degraded: true, source: 'failurePolicy', remaining: 0 });
    expect(decision.retryAfterMs).toBe(1000);
    expect(decision.verdicts.map((verdict) => verdict.policy)).toEqual(['bucket', 'queue']);
  });

  test('inMemoryFallback is the default and decides by the same policy, here', async () => {
    const { limiter, store } = remote();
    store.behaviour = behaviour;

    const decisions = [];
    for (let request = 0; request < 12; request += 1) decisions.push(await limiter.check(api.for('ann')));

    expect(decisions.map((decision) => decision.remaining)).toEqual([9, 8, 7, 6, 5, 4, 3, 2, 1, 0, 0, 0]);
    expect(decisions.filter((decision) => decision.allowed)).toHaveLength(10);
    expect(decisions[11]).toMatchObject({
      allowed: false,
      degraded: true,
      source: 'fallback',
      retryAfterMs: 6000,
    });
  });

  test('the decision and the event carry the same error as their cause', async () => {
    const { limiter, store, errors } = remote();
    store.behaviour = behaviour;

    const { cause } = await limiter.check(api.for('ann'));

    expect(cause).toBeInstanceOf(LimiterError);
    expect(cause).toBe(errors[0]);
    expect(errors.map((error) => error.code)).toEqual(['STORE_UNAVAILABLE']);
  });
});

describe('inMemoryFallback', () => {
  test('admits all or none of several limits', async () => {
    const { limiter, store } = remote();
    store.behaviour = 'rejects';
    await limiter.check(api.for('ann'), { cost: 10 });

    const denied = await limiter.check([queue.for('ann'), api.for('ann')]);

    expect(denied).toMatchObject({ allowed: false, policy: 'bucket', source: 'fallback' });
    expect((await limiter.peek(queue.for('ann'))).remaining).toBe(10);
  });

  test('peek looks at the fallback and spends nothing there', async () => {
    const { limiter, store } = remote();
    store.behaviour = 'rejects';
    await limiter.check(api.for('ann'), { cost: 3 });

    const looks = [await limiter.peek(api.for('ann')), await limiter.peek(api.for('ann'))];

    expect(looks.map((look) => look.remaining)).toEqual([7, 7]);
    expect(looks[0]).toMatchObject({ source: 'fallback', degraded: true });
  });

  test('recovery needs no restart: the next answer of the store counts, and its state was kept', async () => {
    const { limiter, store } = remote();
    await limiter.check(api.for('ann'), { cost: 4 });
    store.behaviour = 'rejects';
    await limiter.check(api.for('ann'), { cost: 9 });

    store.behaviour = 'answers';
    const decision = await limiter.check(api.for('ann'));

    expect(decision).toMatchObject({ source: 'store', degraded: false, remaining: 5, cause: undefined });
  });

  test('forget forgets in the store and in the fallback', async () => {
    const { limiter, store } = remote();
    await limiter.check(api.for('ann'), { cost: 10 });
    store.behaviour = 'rejects';
    await limiter.check(api.for('ann'), { cost: 10 });

    await limiter.forget(api.for('ann'));

    expect((await limiter.peek(api.for('ann'))).remaining).toBe(10);
    store.behaviour = 'answers';
    expect((await limiter.peek(api.for('ann'))).remaining).toBe(10);
  });

  test('one failed check does not take the next one away from the store', async () => {
    const { limiter, store } = remote();
    store.behaviour = 'rejects';
    await limiter.check(api.for('ann'));
    store.behaviour = 'answers';

    const next = await limiter.check(api.for('bob'));

    expect(next.source).toBe('store');
    expect(store.calls).toEqual(['check', 'check']);
  });
});

describe('whatever a store fails with', () => {
  test.each([
    ['nothing', undefined, 'undefined'],
    ['a text', 'down', '"down"'],
    ['a symbol', Symbol('down'), 'a symbol'],
    ['an object without a prototype', Object.create(null), 'an object'],
    ['a message of several lines', new Error('down\r\nfor\u2028maintenance'), 'down for maintenance'],
  ])('%s: the failure policy answers, and the cause is one line', async (_, failure: unknown, shown) => {
    const { limiter, store, errors } = remote();
    store.check = vi.fn<Store['check']>().mockRejectedValue(failure);

    const decision = await limiter.check(api.for('ann'));

    expect(decision).toMatchObject({ allowed: true, degraded: true, source: 'fallback', remaining: 9 });
    expect(decision.cause).toMatchObject({ code: 'STORE_UNAVAILABLE', cause: failure });
    expect(errors.map((error) => error.message)).toEqual([`The store could not decide: ${shown}`]);
  });
});

describe('a store that decides at once', () => {
  test.each([
    ['passThrough', true],
    ['failClosed', false],
  ] as const)('and throws is an outage, which %s answers', async (failurePolicy, allowed) => {
    const { limiter, store, failure } = breakable(failurePolicy);

    store.checkSync = () => {
      throw failure;
    };
    const during = [limiter.checkSync(api.for('ann')), await limiter.check(api.for('ann'))];

    expect(during.map((decision) => decision.allowed)).toEqual([allowed, allowed]);
    for (const decision of during) {
      expect(decision).toMatchObject({ degraded: true, source: 'failurePolicy', cause: { cause: failure } });
    }
  });

  test('decides again as soon as it can, and says how long it could not', async () => {
    const { limiter, store, clock, failure } = breakable('passThrough');
    const recoveries: unknown[] = [];
    limiter.on('recovered', (event) => recoveries.push(event));
    const checkSync = store.checkSync.bind(store);
    store.checkSync = () => {
      throw failure;
    };
    await limiter.check(api.for('ann'));
    clock.advance('1s');

    store.checkSync = checkSync;
    const after = await limiter.check(api.for('ann'));

    expect(after).toMatchObject({ source: 'store', degraded: false, remaining: 9 });
    expect(recoveries).toEqual([{ node: 'store', afterMs: 1000, failures: 1 }]);
  });

  function breakable(failurePolicy: FailurePolicy) {
    const clock = virtualClock();
    const store = memoryStore({ clock });
    return {
      limiter: createLimiter({ clock, store, failurePolicy }),
      store,
      clock,
      failure: new Error('disk'),
    };
  }
});

describe('health of a store that cannot be reached', () => {
  test.each([
    ['rejects', () => Promise.reject(NETWORK_ERROR), 'connection reset'],
    ['hangs', () => new Promise<never>(() => undefined), 'did not answer within 1 ms'],
  ])('is down when it %s, and says why', async (_, health, reason) => {
    const { limiter, store } = remote({ deadlineMs: 1 });
    store.health = health;

    expect(await limiter.health()).toEqual({
      status: 'down',
      nodes: [{ name: 'store', status: 'down', detail: expect.stringContaining(reason) }],
    });
  });
});

describe('forget cannot be answered by a failure policy', () => {
  test('it rejects with what the store said', async () => {
    const { limiter, store } = remote();
    store.forget = () => Promise.reject(NETWORK_ERROR);

    await expect(limiter.forget(api.for('ann'))).rejects.toMatchObject({
      code: 'STORE_UNAVAILABLE',
      cause: NETWORK_ERROR,
    });
  });

  test('it waits no longer than the deadline', async () => {
    const { limiter, store } = remote({ deadlineMs: 1 });
    store.forget = () => new Promise(() => undefined);

    await expect(limiter.forget(api.for('ann'))).rejects.toMatchObject({ code: 'DEADLINE_EXCEEDED' });
  });
});

describe('a mistake is no outage', () => {
  test('it rejects, reaches no store, and emits no storeError', async () => {
    const { limiter, store, errors } = remote();

    await expect(limiter.check(api.for('ann'), { cost: 0.5 })).rejects.toMatchObject({
      code: 'INVALID_COST',
    });

    expect(store.calls).toEqual([]);
    expect(errors).toEqual([]);
  });
});

describe('deadline', () => {
  beforeEach(() => {
    vi.useFakeTimers();
  });
  afterEach(() => {
    vi.useRealTimers();
  });

  test('a store that hangs is waited for until the deadline, and not longer', async () => {
    const { limiter, store, errors } = remote({ deadlineMs: 20 });
    store.behaviour = 'hangs';
    let decided = false;

    const pending = limiter.check(api.for('ann')).finally(() => {
      decided = true;
    });
    await vi.advanceTimersByTimeAsync(19);
    const early = decided;
    await vi.advanceTimersByTimeAsync(1);
    const decision = await pending;

    expect(early).toBe(false);
    expect(decision).toMatchObject({ allowed: true, source: 'fallback', degraded: true, remaining: 9 });
    expect(errors.map((error) => error.code)).toEqual(['DEADLINE_EXCEEDED']);
    expect(errors[0]?.message).toContain('20 ms');
    expect(decision.cause).toBe(errors[0]);
  });

  test(`is ${DEFAULT_DEADLINE_MS} ms unless told otherwise, for peek as well`, async () => {
    const { limiter, store, errors } = remote();
    store.behaviour = 'hangs';

    const pending = limiter.peek(api.for('ann'));
    await vi.advanceTimersByTimeAsync(DEFAULT_DEADLINE_MS);

    expect((await pending).source).toBe('fallback');
    expect(errors.map((error) => error.message)).toEqual([expect.stringContaining('50 ms')]);
  });

  test('keeps the process alive while the store is asked, and no longer', async () => {
    vi.useRealTimers();
    const { limiter, store } = remote({ deadlineMs: 60_000 });
    const timers = (): number => process.getActiveResourcesInfo().filter((name) => name === 'Timeout').length;
    const before = timers();

    const pending = limiter.check(api.for('ann'));
    const whileAsked = timers() - before;
    await pending;
    const afterAnswer = timers() - before;
    store.behaviour = 'rejects';
    await limiter.check(api.for('ann'));

    expect([whileAsked, afterAnswer, timers() - before]).toEqual([1, 0, 0]);
  });

  test('each call has the whole of it, however many are waiting already', async () => {
    const { limiter, store } = remote({ deadlineMs: 20 });
    store.behaviour = 'hangs';
    const started = Date.now();
    const took: number[] = [];
    const ask = (): Promise<unknown> =>
      limiter.check(api.for('ann')).then(() => took.push(Date.now() - started));

    const calls = [ask()];
    for (let turn = 0; turn < 3; turn += 1) {
      await vi.advanceTimersByTimeAsync(7);
      calls.push(ask());
    }
    await vi.advanceTimersByTimeAsync(100);
    await Promise.all(calls);

    expect(took).toEqual([20, 27, 34, 41]);
  });

  test('is the same for a call after the store has been quiet for longer than it', async () => {
    const { limiter, store } = remote({ deadlineMs: 20 });
    await limiter.check(api.for('ann'));
    await vi.advanceTimersByTimeAsync(15);
    store.behaviour = 'hangs';
    const started = Date.now();

    const pending = limiter.check(api.for('ann')).then(() => Date.now() - started);
    await vi.advanceTimersByTimeAsync(100);

    expect(await pending).toBe(20);
  });

  test('an answer that comes too late changes nothing any more', async () => {
    const { limiter, store, errors } = remote({ deadlineMs: 10, failurePolicy: 'failClosed' });
    const check = store.check.bind(store);
    let answer: (() => void) | undefined;
    store.check = async (limits, cost) => {
      await new Promise<void>((resolve) => {
        answer = resolve;
      });
      return check(limits, cost);
    };

    const pending = limiter.check(api.for('ann'));
    await vi.advanceTimersByTimeAsync(10);
    answer?.();
    await vi.runAllTimersAsync();

    expect(await pending).toMatchObject({ allowed: false, source: 'failurePolicy' });
    expect(errors).toHaveLength(1);
  });
});
