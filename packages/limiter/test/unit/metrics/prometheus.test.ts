import * as client from 'prom-client';
import { beforeEach, describe, expect, test } from 'vitest';
import {
  createLimiter,
  fixedWindow,
  LimiterError,
  memoryStore,
  type FailurePolicy,
  type Limiter,
} from '../../../src/index.ts';
import { DURATION_BUCKETS_SECONDS, METRICS } from '../../../src/metrics/metric-table.ts';
import { collectMetrics } from '../../../src/metrics/prometheus.ts';
import { virtualClock } from '../../../src/testing/index.ts';
import { eventfulStore, NO_LEASES, node, type EventfulStore } from './eventful-store.ts';
import { exposed, only, stopTheStopwatch } from './exposition.ts';

const blocking = fixedWindow({
  name: 'blocking',
  quota: 1,
  window: '1h',
  block: { after: 1, within: '1m', for: '1m' },
});
const api = fixedWindow({ name: 'api', quota: 2, window: '1h' });
const login = fixedWindow({ name: 'login', quota: 1, window: '1h' });

let registry: client.Registry;

beforeEach(() => {
  registry = new client.Registry();
});

function embedded(maxKeys: number = 100): Limiter {
  const clock = virtualClock();
  const limiter = createLimiter({ clock, store: memoryStore({ clock, maxKeys }) });
  collectMetrics(limiter, { client, registry });
  return limiter;
}

function remote(failurePolicy: FailurePolicy = 'inMemoryFallback'): {
  limiter: Limiter;
  store: EventfulStore;
} {
  const clock = virtualClock();
  const store = eventfulStore(clock);
  const limiter = createLimiter({ clock, store, failurePolicy });
  collectMetrics(limiter, { client, registry });
  return { limiter, store };
}

async function series(name: string): Promise<Readonly<Record<string, number>>> {
  return only(await exposed(registry), name);
}

test('what is exposed is what the table of metrics says: names, kinds, explanations and labels', async () => {
  const { limiter, store } = remote();
  store.nodes = [node('a:1', 'up')];
  store.happen({ type: 'nodeUp', node: 'a:1', afterMs: 1 });
  store.happen({ type: 'scriptReloaded', node: 'a:1' });
  store.happen({ type: 'lateCharge', refunded: true });
  for (let attempt = 0; attempt < 2; attempt += 1) await limiter.check(blocking.for('ann'));
  await limiter.check(api.for('ann'));

  const text = await registry.metrics();

  const described = [...text.matchAll(/^# HELP (\S+) (.*)\n# TYPE \S+ (\S+)\n\1\S*\{([^}]*)\}/gm)].map(
    ([, name, help, kind, labels = '']) => {
      const names = [...labels.matchAll(/(\w+)="/g)]
        .map(([, label]) => label)
        .filter((label) => label !== 'le');
      return { name, kind, labels: names, help };
    },
  );
  const byName = (a: { name?: string | undefined }, b: { name?: string | undefined }) =>
    String(a.name).localeCompare(String(b.name));
  expect(described.toSorted(byName)).toEqual(Object.values(METRICS).toSorted(byName));
});

describe('decisions', () => {
  test('are counted by policy and outcome, and both outcomes are there from the first', async () => {
    const limiter = embedded();

    await limiter.check(api.for('ann'));
    const first = await series('spillgate_decisions_total');
    limiter.checkSync(api.for('ann'));
    await limiter.check(api.for('ann'));
    await limiter.check(login.for('ann'));

    expect(first).toEqual({
      '{limiter="default",policy="api",outcome="allowed",source="store"}': 1,
      '{limiter="default",policy="api",outcome="denied",source="store"}': 0,
    });
    expect(await series('spillgate_decisions_total')).toEqual({
      '{limiter="default",policy="api",outcome="allowed",source="store"}': 2,
      '{limiter="default",policy="api",outcome="denied",source="store"}': 1,
      '{limiter="default",policy="login",outcome="allowed",source="store"}': 1,
      '{limiter="default",policy="login",outcome="denied",source="store"}': 0,
    });
  });

  test('about several limits count once, under the policy that speaks', async () => {
    const limiter = embedded();
    const limits = [api.for('ann'), login.for('ann')];

    await limiter.check(limits);
    await limiter.check(limits);

    expect(await series('spillgate_decisions_total')).toEqual({
      '{limiter="default",policy="login",outcome="allowed",source="store"}': 1,
      '{limiter="default",policy="login",outcome="denied",source="store"}': 1,
    });
  });

  test('count once whatever they cost, and a peek not at all', async () => {
    const limiter = embedded();

    await limiter.check(api.for('ann'), { cost: 2 });
    await limiter.peek(api.for('ann'));

    expect(Object.values(await series('spillgate_decisions_total'))).toEqual([1, 0]);
    expect(await series('spillgate_decision_duration_seconds_count')).toEqual({
      '{limiter="default",source="store"}': 1,
    });
  });

  test.each([
    ['inMemoryFallback', 'fallback', 'allowed'],
    ['passThrough', 'failurePolicy', 'allowed'],
    ['failClosed', 'failurePolicy', 'denied'],
  ] as const)(
    'of %s during an outage have the source %s and are %s',
    async (failurePolicy, source, outcome) => {
      const { limiter, store } = remote(failurePolicy);

      await limiter.check(api.for('ann'));
      store.behaviour = 'rejects';
      await limiter.check(api.for('ann'));

      const other = outcome === 'allowed' ? 'denied' : 'allowed';
      expect(await series('spillgate_decisions_total')).toEqual({
        '{limiter="default",policy="api",outcome="allowed",source="store"}': 1,
        '{limiter="default",policy="api",outcome="denied",source="store"}': 0,
        [`{limiter="default",policy="api",outcome="${outcome}",source="${source}"}`]: 1,
        [`{limiter="default",policy="api",outcome="${other}",source="${source}"}`]: 0,
      });
      expect(await series('spillgate_decision_duration_seconds_count')).toEqual({
        '{limiter="default",source="store"}': 1,
        [`{limiter="default",source="${source}"}`]: 1,
      });
    },
  );

  test('of a full store have the source overflow, every one of them', async () => {
    const limiter = embedded(1);

    for (const key of ['first', 'second', 'third']) await limiter.check(api.for(key));

    expect(await series('spillgate_decisions_total')).toMatchObject({
      '{limiter="default",policy="api",outcome="allowed",source="store"}': 1,
      '{limiter="default",policy="api",outcome="allowed",source="overflow"}': 2,
    });
  });
});

describe('durations', () => {
  test('are in seconds', async () => {
    const limiter = embedded();
    stopTheStopwatch(2.5);

    await limiter.check(api.for('ann'));
    await limiter.check(api.for('ann'));

    expect(await series('spillgate_decision_duration_seconds_sum')).toEqual({
      '{limiter="default",source="store"}': 0.005,
    });
    expect(await series('spillgate_decision_duration_seconds_count')).toEqual({
      '{limiter="default",source="store"}': 2,
    });
  });

  test('tell what met the default deadline from what missed it', async () => {
    const limiter = embedded();

    stopTheStopwatch(50);
    await limiter.check(api.for('ann'));
    stopTheStopwatch(50.1);
    await limiter.check(api.for('ann'));

    const buckets = await series('spillgate_decision_duration_seconds_bucket');
    const counts = DURATION_BUCKETS_SECONDS.map((le) => [
      le,
      buckets[
        `{le="${le < 0.0001 ? le.toFixed(6).replace(/0+$/, '') : le}",limiter="default",source="store"}`
      ],
    ]);
    expect(counts).toEqual(DURATION_BUCKETS_SECONDS.map((le) => [le, le < 0.05 ? 0 : le === 0.05 ? 1 : 2]));
  });
});

describe('errors of the store', () => {
  test('are there as zero before the first, one for each that a store can have', async () => {
    remote();

    expect(await series('spillgate_store_errors_total')).toEqual({
      '{limiter="default",class="transient",code="STORE_UNAVAILABLE"}': 0,
      '{limiter="default",class="transient",code="STORE_OVERLOADED"}': 0,
      '{limiter="default",class="transient",code="DEADLINE_EXCEEDED"}': 0,
      '{limiter="default",class="configuration",code="STORE_MISCONFIGURED"}': 0,
      '{limiter="default",class="configuration",code="CLIENT_MISSING"}': 0,
      '{limiter="default",class="state",code="STATE_INVALID"}': 0,
    });
  });

  test('are counted by class and code, those of a peek too', async () => {
    const { limiter, store } = remote();
    const failWith = (failure: LimiterError): void => {
      store.check = async () => {
        throw failure;
      };
    };

    store.behaviour = 'rejects';
    await limiter.check(api.for('ann'));
    await limiter.peek(api.for('ann'));
    failWith(new LimiterError('STORE_MISCONFIGURED', 'wrong password'));
    await limiter.check(api.for('ann'));
    failWith(new LimiterError('STATE_INVALID', 'not ours'));
    await limiter.check(api.for('ann'));

    expect(await series('spillgate_store_errors_total')).toMatchObject({
      '{limiter="default",class="transient",code="STORE_UNAVAILABLE"}': 2,
      '{limiter="default",class="transient",code="DEADLINE_EXCEEDED"}': 0,
      '{limiter="default",class="configuration",code="STORE_MISCONFIGURED"}': 1,
      '{limiter="default",class="state",code="STATE_INVALID"}': 1,
    });
  });
});

describe('servers of the store', () => {
  test('that are degraded are still asked, those that are down are not, and those that are gone are not shown', async () => {
    const { store } = remote();

    store.nodes = [node('a:1', 'up'), node('b:2', 'degraded'), node('c:3', 'down')];
    const before = await series('spillgate_node_up');
    store.nodes = [node('c:3', 'up')];
    const after = await series('spillgate_node_up');

    expect(before).toEqual({
      '{limiter="default",node="a:1"}': 1,
      '{limiter="default",node="b:2"}': 1,
      '{limiter="default",node="c:3"}': 0,
    });
    expect(after).toEqual({ '{limiter="default",node="c:3"}': 1 });
  });

  test('the embedded store is one, and always up', async () => {
    embedded();

    expect(await series('spillgate_node_up')).toEqual({ '{limiter="default",node="memory"}': 1 });
  });

  test('a closed limiter has none, and breaks no scrape', async () => {
    const limiter = embedded();
    await limiter.check(api.for('ann'));

    await limiter.close();

    expect(await series('spillgate_node_up')).toEqual({});
    expect(Object.values(await series('spillgate_decisions_total'))).toEqual([1, 0]);
  });

  test('transitions and reloads are counted for each', async () => {
    const { store } = remote();
    const error = new LimiterError('STORE_UNAVAILABLE', 'gone');

    store.happen({ type: 'nodeDown', node: 'a:1', error });
    store.happen({ type: 'nodeUp', node: 'a:1', afterMs: 5 });
    store.happen({ type: 'nodeDown', node: 'a:1', error });
    store.happen({ type: 'nodeGone', node: 'a:1', afterMs: 5 });
    store.happen({ type: 'scriptReloaded', node: 'b:2' });
    store.happen({ type: 'warning', node: 'b:2', message: 'evicts keys' });

    expect(await series('spillgate_node_transitions_total')).toEqual({
      '{limiter="default",node="a:1",to="down"}': 2,
      '{limiter="default",node="a:1",to="up"}': 1,
      '{limiter="default",node="a:1",to="gone"}': 1,
    });
    expect(await series('spillgate_script_reloads_total')).toEqual({ '{limiter="default",node="b:2"}': 1 });
  });
});

describe('calls and leases of the store', () => {
  const leases = {
    granted: 50,
    returned: 7,
    expired: 3,
    outstanding: 5,
    clockBoundUs: 900,
    clockErrorUs: 20,
  };
  const LEASED = 'spillgate_lease_tokens_total';

  test('are what the store counts', async () => {
    const { store } = remote();

    store.counted = { calls: 12, leases };

    expect(await series('spillgate_store_calls_total')).toEqual({ '{limiter="default"}': 12 });
    expect(await series(LEASED)).toEqual({
      '{limiter="default",fate="granted"}': 50,
      '{limiter="default",fate="returned"}': 7,
      '{limiter="default",fate="expired"}': 3,
    });
    expect(await series('spillgate_leased_tokens')).toEqual({ '{limiter="default"}': 5 });
    expect(await series('spillgate_lease_clock_bound_seconds')).toEqual({ '{limiter="default"}': 0.0009 });
    expect(await series('spillgate_lease_clock_error_seconds')).toEqual({ '{limiter="default"}': 0.00002 });
  });

  test('from before the collection are not counted, and those of a limiter that has left stay', async () => {
    const clock = virtualClock();
    const store = eventfulStore(clock);
    store.counted = { calls: 100, leases: { ...leases, granted: 500 } };
    const stop = collectMetrics(createLimiter({ clock, store }), { client, registry });
    store.counted = { calls: 110, leases: { ...leases, granted: 520 } };
    const during = await series('spillgate_store_calls_total');

    stop();
    store.counted = { calls: 999, leases: { ...leases, granted: 999 } };

    expect(during).toEqual({ '{limiter="default"}': 10 });
    expect(await series('spillgate_store_calls_total')).toEqual(during);
    expect((await series(LEASED))['{limiter="default",fate="granted"}']).toBe(20);
    expect(await series('spillgate_leased_tokens')).toEqual({});
  });

  test('of limiters of one name are shown together', async () => {
    const [one, other] = [remote(), remote()];

    one.store.counted = { calls: 1, leases };
    other.store.counted = { calls: 2, leases: { ...NO_LEASES, outstanding: 1, clockErrorUs: 1 } };

    expect(await series('spillgate_store_calls_total')).toEqual({ '{limiter="default"}': 3 });
    expect(await series('spillgate_leased_tokens')).toEqual({ '{limiter="default"}': 6 });
    expect(await series('spillgate_lease_clock_error_seconds')).toEqual({ '{limiter="default"}': 0.00002 });
  });

  test('an embedded store has none', async () => {
    embedded();

    expect(await series('spillgate_store_calls_total')).toEqual({});
    expect(await series('spillgate_leased_tokens')).toEqual({});
  });
});
