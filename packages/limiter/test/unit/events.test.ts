import { describe, expect, test, vi, type Mock } from 'vitest';
import {
  createLimiter,
  fixedWindow,
  memoryStore,
  type Limiter,
  type LimiterEvents,
} from '../../src/index.ts';
import { virtualClock, type VirtualClock } from '../../src/testing/index.ts';
import { NETWORK_ERROR, remoteStore, type RemoteStore } from './remote-store.ts';

const api = fixedWindow({ name: 'api', quota: 2, window: '1h' });
const other = fixedWindow({ name: 'other', quota: 2, window: '1h' });

/** Every event of a limiter, in the order they came. */
function recordEvents(limiter: Limiter): unknown[] {
  const seen: unknown[] = [];
  for (const event of ['decision', 'storeError', 'recovered', 'overflow'] as const) {
    limiter.on(event, (detail) => seen.push([event, detail]));
  }
  return seen;
}

/** The limiter's stopwatch shows these times, one after the other; with a virtual clock nobody else looks at it. */
function stopwatchShows(...timesMs: readonly number[]): Mock<() => number> {
  const now = vi.spyOn(performance, 'now');
  for (const timeMs of timesMs) now.mockReturnValueOnce(timeMs);
  return now;
}

describe('decision', () => {
  test('comes once per check, allowed or denied, with the decision, its cost and how long it took', async () => {
    const limiter = createLimiter({ clock: virtualClock() });
    const seen = recordEvents(limiter);
    stopwatchShows(100, 102.5, 200, 200.25, 300, 300);

    const decisions = [
      await limiter.check(api.for('ann'), { cost: 2 }),
      limiter.checkSync(api.for('ann')),
      await limiter.check([api.for('bob'), other.for('bob')], { cost: 0 }),
    ];

    expect(seen).toEqual([
      ['decision', { decision: decisions[0], cost: 2, tookMs: 2.5 }],
      ['decision', { decision: decisions[1], cost: 1, tookMs: 0.25 }],
      ['decision', { decision: decisions[2], cost: 0, tookMs: 0 }],
    ]);
    expect(decisions.map((decision) => decision.allowed)).toEqual([true, false, true]);
  });

  test('does not come for peek, forget, or a call that was a mistake', async () => {
    const limiter = createLimiter({ clock: virtualClock() });
    const seen = recordEvents(limiter);

    await limiter.peek(api.for('ann'));
    await limiter.forget(api.for('ann'));
    await expect(limiter.check(api.for('ann'), { cost: -1 })).rejects.toThrow('cost is -1');

    expect(seen).toEqual([]);
  });

  test('comes for decisions that the failure policy made', async () => {
    const { limiter, store } = remote();
    const seen = recordEvents(limiter);

    store.behaviour = 'rejects';
    const decision = await limiter.check(api.for('ann'));

    expect(seen.slice(1)).toEqual([['decision', { decision, cost: 1, tookMs: expect.any(Number) }]]);
    expect(decision.degraded).toBe(true);
  });

  test('says how long the caller waited for a store that did not answer', async () => {
    const clock = virtualClock();
    const store = remoteStore(clock);
    const limiter = createLimiter({ clock, store, deadlineMs: 20 });
    const waits: number[] = [];
    limiter.on('decision', ({ tookMs }) => waits.push(tookMs));

    store.behaviour = 'hangs';
    await limiter.check(api.for('ann'));

    expect(waits).toHaveLength(1);
    // A timer may fire a millisecond early.
    expect(waits[0]).toBeGreaterThanOrEqual(19);
  });

  test('has the cost as it was when the check was called', async () => {
    const { limiter } = remote();
    const costs: number[] = [];
    limiter.on('decision', ({ cost }) => costs.push(cost));
    const options = { cost: 2 };

    const pending = limiter.check(api.for('ann'), options);
    options.cost = 1;
    await pending;

    expect(costs).toEqual([2]);
  });

  test.each([
    { store: 'the embedded store', open: () => createLimiter({ clock: virtualClock() }), deadlines: 0 },
    { store: 'a store on the network', open: () => remote().limiter, deadlines: 2 },
  ])('is not timed where nobody listens, on $store', async ({ open, deadlines }) => {
    const limiter = open();
    const now = stopwatchShows();

    await limiter.check(api.for('ann'));
    limiter.on('decision', () => undefined);
    await limiter.peek(api.for('ann'));

    expect(now).toHaveBeenCalledTimes(deadlines);
  });

  test('does not come for a check that was under way before anybody listened', async () => {
    const { limiter } = remote();
    const pending = limiter.check(api.for('ann'));
    const seen = recordEvents(limiter);

    await pending;

    expect(seen).toEqual([]);
  });
});

describe('listeners', () => {
  test('stop hearing once they unsubscribe, and only they', async () => {
    const limiter = createLimiter({ clock: virtualClock() });
    const heard: string[] = [];
    const stopFirst = limiter.on('decision', () => heard.push('first'));
    limiter.on('decision', () => heard.push('second'));

    await limiter.check(api.for('ann'));
    stopFirst();
    stopFirst();
    await limiter.check(api.for('ann'));

    expect(heard).toEqual(['first', 'second', 'second']);
  });

  test('may unsubscribe while they are called', async () => {
    const limiter = createLimiter({ clock: virtualClock() });
    const heard: string[] = [];
    const stop = limiter.on('decision', () => {
      heard.push('once');
      stop();
    });
    limiter.on('decision', () => heard.push('always'));

    await limiter.check(api.for('ann'));
    await limiter.check(api.for('ann'));

    expect(heard).toEqual(['once', 'always', 'always']);
  });

  test('that listen twice are called twice, and each stop ends one of the two', async () => {
    const limiter = createLimiter({ clock: virtualClock() });
    const listener = vi.fn<() => void>();
    const stop = limiter.on('decision', listener);
    limiter.on('decision', listener);

    await limiter.check(api.for('ann'));
    stop();
    stop();
    await limiter.check(api.for('ann'));

    expect(listener).toHaveBeenCalledTimes(3);
  });

  test('that throw break neither the decision nor the other listeners, and are reported', async () => {
    const reported = vi.spyOn(console, 'error').mockImplementation(() => undefined);
    const limiter = createLimiter({ clock: virtualClock() });
    const failure = new Error('listener is broken');
    const heard: string[] = [];
    limiter.on('decision', () => {
      throw failure;
    });
    limiter.on('decision', () => heard.push('other'));

    const spent = await limiter.check(api.for('ann'));
    const decision = limiter.checkSync(api.for('ann'));

    expect([spent.allowed, decision.allowed, decision.remaining]).toEqual([true, true, 0]);
    expect(heard).toEqual(['other', 'other']);
    expect(reported.mock.calls).toEqual([
      [expect.stringContaining("'decision'"), failure],
      [expect.stringContaining("'decision'"), failure],
    ]);
  });

  test('that reject later are reported too, and end no process', async () => {
    const reported = vi.spyOn(console, 'error').mockImplementation(() => undefined);
    const limiter = createLimiter({ clock: virtualClock() });
    const failure = new Error('listener is broken');
    limiter.on('decision', async () => Promise.reject(failure));

    const decision = await limiter.check(api.for('ann'));
    // An unhandled rejection would be noticed by now, and fail the run.
    await new Promise(setImmediate);

    expect(decision.allowed).toBe(true);
    expect(reported.mock.calls).toEqual([[expect.stringContaining("'decision'"), failure]]);
  });

  test('that throw do not turn an outage into a rejection', async () => {
    vi.spyOn(console, 'error').mockImplementation(() => undefined);
    const { limiter, store } = remote();
    limiter.on('storeError', fail);
    limiter.on('recovered', fail);

    store.behaviour = 'rejects';
    const during = await limiter.check(api.for('ann'));
    store.behaviour = 'answers';
    const after = await limiter.check(api.for('ann'));

    expect([during.source, after.source]).toEqual(['fallback', 'store']);
  });
});

describe('storeError and recovered', () => {
  test('storeError comes once per outage, undecided with every failed call; both carry what the store said', async () => {
    const { limiter, store } = remote();
    const told: unknown[] = [];
    for (const event of ['storeError', 'undecided'] as const) {
      limiter.on(event, ({ error, ...rest }) =>
        told.push([event, error.code, error.message, error.cause, rest]),
      );
    }

    store.behaviour = 'rejects';
    await limiter.check(api.for('ann'));
    store.behaviour = 'throws';
    await limiter.peek(api.for('ann'));

    const said = [
      'STORE_UNAVAILABLE',
      'The store could not decide: connection reset',
      NETWORK_ERROR,
    ] as const;
    expect(told).toEqual([
      ['storeError', ...said, { node: 'store' }],
      ['undecided', ...said, {}],
      ['undecided', ...said, {}],
    ]);
  });

  test('recovered comes once per outage, and says how long it was and how many checks it met', async () => {
    const { limiter, store, clock } = remote();
    const recoveries: LimiterEvents['recovered'][] = [];
    limiter.on('recovered', (event) => recoveries.push(event));

    await limiter.check(api.for('ann'));
    store.behaviour = 'rejects';
    await limiter.check(api.for('ann'));
    clock.advance('1500ms');
    await limiter.check(api.for('ann'));
    clock.advance('1s');
    store.behaviour = 'answers';
    await limiter.check(api.for('ann'));
    await limiter.check(api.for('ann'));

    expect(recoveries).toEqual([{ node: 'store', afterMs: 2500, failures: 2 }]);
  });
});

describe('overflow', () => {
  test('says which new key shares the state of a full store, at most once per second', async () => {
    const clock = virtualClock();
    const limiter = createLimiter({ clock, store: memoryStore({ clock, maxKeys: 1 }) });
    const overflows: LimiterEvents['overflow'][] = [];
    limiter.on('overflow', (event) => overflows.push(event));

    await limiter.check(api.for('first'));
    await limiter.check(api.for('second'));
    await limiter.check(api.for('third'));
    clock.advance('999ms');
    await limiter.check(api.for('fourth'));
    clock.advance('1ms');
    await limiter.check(api.for('fifth'));
    await limiter.check(api.for('first'));

    expect(overflows).toEqual([
      { policy: 'api', key: 'second' },
      { policy: 'api', key: 'fifth' },
    ]);
  });

  test('names the limit that overflowed, wherever it stands in the check', async () => {
    const clock = virtualClock();
    const limiter = createLimiter({ clock, store: memoryStore({ clock, maxKeys: 1 }) });
    const overflows: LimiterEvents['overflow'][] = [];
    limiter.on('overflow', (event) => overflows.push(event));
    await limiter.check(api.for('own'));

    await limiter.check([api.for('own'), other.for('new')]);

    expect(overflows).toEqual([{ policy: 'other', key: 'new' }]);
  });
});

function remote(): { limiter: Limiter; store: RemoteStore; clock: VirtualClock } {
  const clock = virtualClock();
  const store = remoteStore(clock);
  return { limiter: createLimiter({ clock, store }), store, clock };
}

function fail(): void {
  throw new Error('listener is broken');
}
