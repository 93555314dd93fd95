import * as fc from 'fast-check';
import * as client from 'prom-client';
import { beforeEach, describe, expect, test } from 'vitest';
import { createLimiter, fixedWindow, memoryStore, type Limiter } from '../../../src/index.ts';
import { BoundedLabels } from '../../../src/metrics/collection.ts';
import { MAX_LABELS } from '../../../src/metrics/metric-table.ts';
import { collectMetrics } from '../../../src/metrics/prometheus.ts';
import { virtualClock } from '../../../src/testing/index.ts';
import { eventfulStore, node } from './eventful-store.ts';
import { exposed, only, stopTheStopwatch } from './exposition.ts';

const api = fixedWindow({ name: 'api', quota: 1_000_000, window: '1h' });

let registry: client.Registry;

beforeEach(() => {
  registry = new client.Registry();
});

/** The values of one label in all series of a metric, in order, each once. */
async function values(metric: string, label: string): Promise<readonly string[]> {
  const series = Object.keys(only(await exposed(registry), metric));
  return [...new Set(series.map((labels) => new RegExp(`\\b${label}="([^"]*)"`).exec(labels)?.[1] ?? ''))];
}

function names(prefix: string, count: number): readonly string[] {
  return Array.from({ length: count }, (_, at) => `${prefix}${at}`);
}

describe('labels are bounded', () => {
  test('policies: the first 200 by name, all others together as other', async () => {
    const limiter = createLimiter({ clock: virtualClock() });
    collectMetrics(limiter, { client, registry });
    const policies = names('policy-', MAX_LABELS.policy + 2).map((name) => named(name));

    for (const policy of [...policies, ...policies]) await limiter.check(policy.for('ann'));

    expect(MAX_LABELS.policy).toBe(200);
    expect(await values('spillgate_decisions_total', 'policy')).toEqual([...names('policy-', 200), 'other']);
    expect(only(await exposed(registry), 'spillgate_decisions_total')).toMatchObject({
      '{limiter="default",policy="policy-199",outcome="allowed",source="store"}': 2,
      '{limiter="default",policy="other",outcome="allowed",source="store"}': 4,
    });
  });

  test('policies: limiters of one registry share the bound', async () => {
    const [first, second] = [
      createLimiter({ clock: virtualClock() }),
      createLimiter({ clock: virtualClock() }),
    ];
    collectMetrics(first, { client, registry, name: 'first' });
    collectMetrics(second, { client, registry, name: 'second' });

    for (const name of names('policy-', MAX_LABELS.policy)) await first.check(named(name).for('ann'));
    await second.check(named('policy-7').for('ann'));
    await second.check(named('new').for('ann'));

    const series = Object.keys(only(await exposed(registry), 'spillgate_decisions_total'));
    expect(series.filter((labels) => labels.includes('"second"') && labels.includes('allowed'))).toEqual([
      '{limiter="second",policy="policy-7",outcome="allowed",source="store"}',
      '{limiter="second",policy="other",outcome="allowed",source="store"}',
    ]);
  });

  test('limiters: the first 50 by name', async () => {
    for (const name of names('limiter-', MAX_LABELS.limiter + 2)) {
      const limiter = createLimiter({ clock: virtualClock() });
      const stop = collectMetrics(limiter, { client, registry, name });
      await limiter.check(api.for('ann'));
      stop();
    }

    expect(MAX_LABELS.limiter).toBe(50);
    expect(await values('spillgate_decisions_total', 'limiter')).toEqual([...names('limiter-', 50), 'other']);
  });

  test('servers: the first 200 that something happened to, and 200 at a time that are shown', async () => {
    const clock = virtualClock();
    const store = eventfulStore(clock);
    collectMetrics(createLimiter({ clock, store }), { client, registry });

    for (const name of names('past-', MAX_LABELS.node + 1))
      store.happen({ type: 'scriptReloaded', node: name });
    store.nodes = [
      ...names('now-', MAX_LABELS.node).map((name) => node(name, 'up')),
      node('late', 'down'),
      node('later', 'up'),
    ];

    expect(MAX_LABELS.node).toBe(200);
    expect(await values('spillgate_script_reloads_total', 'node')).toEqual([...names('past-', 200), 'other']);
    expect(await values('spillgate_node_up', 'node')).toEqual([...names('now-', 200), 'other']);
    expect(only(await exposed(registry), 'spillgate_node_up')).toMatchObject({
      '{limiter="default",node="now-199"}': 1,
      '{limiter="default",node="other"}': 0,
    });
  });

  test('a text of more than 128 characters is other, and takes no place', () => {
    const labels = new BoundedLabels(1);

    expect(['x'.repeat(129), 'y'.repeat(128), 'z', 'y'.repeat(128)].map((text) => labels.of(text))).toEqual([
      'other',
      'y'.repeat(128),
      'other',
      'y'.repeat(128),
    ]);
  });
});

test("how long a text may be is the collector's choice", () => {
  const labels = new BoundedLabels(9, 3);

  expect(['abc', 'abcd'].map((text) => labels.of(text))).toEqual(['abc', 'other']);
});

describe('keys never become labels', () => {
  /** Everything a limiter can count: decided, denied, overflowed, failed over, rejected. */
  async function exposedAfter(keys: readonly string[]): Promise<string> {
    const own = new client.Registry();
    const clock = virtualClock();
    const small = createLimiter({ clock, store: memoryStore({ clock, maxKeys: 1 }) });
    const store = eventfulStore(clock);
    const limiters: readonly Limiter[] = [small, createLimiter({ clock, store })];
    for (const limiter of limiters) collectMetrics(limiter, { client, registry: own });
    stopTheStopwatch();

    for (const key of keys) {
      store.behaviour = 'answers';
      for (const limiter of limiters) await limiter.check(api.for(key));
      await small.check(api.for(key), { cost: 1_000_001 });
      store.behaviour = 'rejects';
      await limiters[1]?.check([api.for(key), other.for(key)]);
    }
    return own.metrics();
  }

  const other = fixedWindow({ name: 'second', quota: 1_000_000, window: '1h' });
  const hostile = fc.oneof(
    fc.string({ unit: 'binary', minLength: 1, maxLength: 300 }),
    fc.constantFrom(
      '"} 1\n',
      'a"b',
      '\\',
      '\n# HELP x',
      'other',
      '__proto__',
      'constructor',
      'le="1"',
      '\ud800',
      '\0',
    ),
  );

  test('whatever the keys are, what is exposed is the same as for plain ones', async () => {
    await fc.assert(
      fc.asyncProperty(fc.uniqueArray(hostile, { minLength: 1, maxLength: 5 }), async (keys) => {
        expect(await exposedAfter(keys)).toBe(await exposedAfter(names('user-', keys.length)));
      }),
      { numRuns: 100 },
    );
  });
});

function named(name: string): typeof api {
  return fixedWindow({ name, quota: 1_000_000, window: '1h' });
}
