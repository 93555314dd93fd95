import { describe, expect, test } from 'vitest';
import { createLimiter, memoryStore, type Limiter, type LimiterEvents } from '../../src/index.ts';
import { StoreLimiter } from '../../src/limiter.ts';
import { LocalFallback } from '../../src/apply-failure-policy.ts';
import { virtualClock, type VirtualClock } from '../../src/testing/index.ts';
import { TENS } from './policies.ts';
import { NETWORK_ERROR, remoteStore, type RemoteStore } from './remote-store.ts';

const [api] = TENS as [(typeof TENS)[number]];

interface Bench {
  readonly limiter: Limiter;
  readonly store: RemoteStore;
  readonly clock: VirtualClock;
  readonly errors: LimiterEvents['storeError'][];
  readonly recoveries: LimiterEvents['recovered'][];
}

function remote(): Bench {
  const clock = virtualClock();
  const store = remoteStore(clock);
  const limiter = createLimiter({ clock, store, deadlineMs: 60_000 });
  const errors: LimiterEvents['storeError'][] = [];
  const recoveries: LimiterEvents['recovered'][] = [];
  limiter.on('storeError', (event) => errors.push(event));
  limiter.on('recovered', (event) => recoveries.push(event));
  return { limiter, store, clock, errors, recoveries };
}

describe('health, while a store says that it is up', () => {
  test('is what the store says, as long as it decides', async () => {
    const { limiter, store } = remote();
    await limiter.check(api.for('ann'));

    expect(await limiter.health()).toEqual(await store.health());
  });

  test('is degraded while checks fail, and says how many and why', async () => {
    const { limiter, store, clock } = remote();
    store.behaviour = 'rejects';
    await limiter.check(api.for('ann'));
    clock.advance('2s');
    store.behaviour = 'says nonsense';
    await limiter.check(api.for('ann'));
    clock.advance(999.999);

    const { status, nodes } = await limiter.health();

    expect(status).toBe('degraded');
    expect(nodes).toEqual([
      { name: 'memory', status: 'up', detail: expect.any(String) },
      {
        name: 'limiter',
        status: 'degraded',
        detail:
          'the failure policy answered the last 2 calls: The store could not decide: it answered 0 verdicts for 1 limits',
      },
    ]);
  });

  test('is up again with the first check that the store decides', async () => {
    const { limiter, store } = remote();
    store.behaviour = 'rejects';
    await limiter.check(api.for('ann'));
    store.behaviour = 'answers';
    await limiter.check(api.for('ann'));

    expect((await limiter.health()).status).toBe('up');
  });

  test('is up again after a second without checks: whoever waits for it to send some must not wait for ever', async () => {
    const { limiter, store, clock } = remote();
    store.behaviour = 'rejects';
    await limiter.check(api.for('ann'));

    clock.advance('1s');

    expect((await limiter.health()).status).toBe('up');
  });

  test('does not hear of an abort, nor of a mistake', async () => {
    const { limiter, store } = remote();
    const controller = new AbortController();
    store.behaviour = 'hangs';
    const pending = limiter.check(api.for('ann'), { signal: controller.signal });
    controller.abort(new Error('the client went away'));
    await expect(pending).rejects.toThrow('the client went away');
    await expect(limiter.check(api.for('ann'), { cost: -1 })).rejects.toThrow('cost is -1');

    expect((await limiter.health()).status).toBe('up');
  });
});

describe('health, while a store says that it is not up', () => {
  test('is what the store says, which knows its servers', async () => {
    const { limiter, store } = remote();
    const said = {
      status: 'down',
      nodes: [{ name: 'redis', status: 'down', detail: 'down since noon' }],
    } as const;
    store.health = async () => said;
    store.behaviour = 'rejects';
    await limiter.check(api.for('ann'));

    expect(await limiter.health()).toEqual(said);
  });

  test.each([undefined, null])('is down if it says %s', async (said) => {
    const { limiter, store } = remote();
    store.health = async () => said as never;

    expect((await limiter.health()).status).toBe('down');
  });
});

describe('recovered', () => {
  test('comes once, however many checks the store decides at the same moment', async () => {
    const { limiter, store, recoveries } = remote();
    store.behaviour = 'rejects';
    await Promise.all([limiter.check(api.for('ann')), limiter.check(api.for('bob'))]);

    store.behaviour = 'answers';
    await Promise.all(['ann', 'bob', 'eve'].map((key) => limiter.check(api.for(key))));

    expect(recoveries).toEqual([{ node: 'store', afterMs: 0, failures: 2 }]);
  });

  test('comes once per outage, and counts each outage by itself', async () => {
    const { limiter, store, clock, recoveries } = remote();
    for (const failures of [1, 3]) {
      store.behaviour = 'rejects';
      for (let failure = 0; failure < failures; failure += 1) await limiter.check(api.for('ann'));
      clock.advance('1s');
      store.behaviour = 'answers';
      await limiter.check(api.for('ann'));
      await limiter.check(api.for('ann'));
    }

    expect(recoveries).toEqual([
      { node: 'store', afterMs: 1000, failures: 1 },
      { node: 'store', afterMs: 1000, failures: 3 },
    ]);
  });

  test('does not come from an abort, which neither starts nor ends an outage', async () => {
    const { limiter, store, errors, recoveries } = remote();
    store.behaviour = 'rejects';
    await limiter.check(api.for('ann'));
    const controller = new AbortController();
    store.behaviour = 'hangs';
    const pending = limiter.check(api.for('ann'), { signal: controller.signal });
    controller.abort(new Error('gone'));
    await expect(pending).rejects.toThrow('gone');

    expect(recoveries).toEqual([]);
    expect(errors.map(({ error }) => error.cause)).toEqual([NETWORK_ERROR]);
  });
});

describe('a fallback that is full', () => {
  test('says so in an event, and decides by the shared state', async () => {
    const clock = virtualClock();
    const store = remoteStore(clock);
    const fallback = new LocalFallback(memoryStore({ clock, maxKeys: 1 }), 1);
    const limiter = new StoreLimiter({
      store,
      fallback,
      failurePolicy: 'inMemoryFallback',
      deadlineMs: 1000,
      clock,
    });
    const overflows: LimiterEvents['overflow'][] = [];
    limiter.on('overflow', (event) => overflows.push(event));
    store.behaviour = 'rejects';

    await limiter.check(api.for('first'));
    clock.advance(1);
    await limiter.check(api.for('second'), { cost: 6 });
    const third = await limiter.check(api.for('third'), { cost: 6 });

    expect(overflows).toEqual([{ policy: 'bucket', key: 'second' }]);
    expect(third).toMatchObject({ allowed: false, remaining: 4, source: 'fallback' });
  });
});
