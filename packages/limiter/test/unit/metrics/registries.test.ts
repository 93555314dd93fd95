import * as client from 'prom-client';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { createLimiter, fixedWindow, type Limiter } from '../../../src/index.ts';
import { METRICS } from '../../../src/metrics/metric-table.ts';
import { collectMetrics } from '../../../src/metrics/prometheus.ts';
import { virtualClock } from '../../../src/testing/index.ts';
import { eventfulStore, node, type EventfulStore } from './eventful-store.ts';
import { exposed, only } from './exposition.ts';

const api = fixedWindow({ name: 'api', quota: 100, window: '1h' });

let registry: client.Registry;

beforeEach(() => {
  registry = new client.Registry();
});

afterEach(() => {
  client.register.clear();
});

function remote(): { limiter: Limiter; store: EventfulStore } {
  const clock = virtualClock();
  const store = eventfulStore(clock);
  return { limiter: createLimiter({ clock, store }), store };
}

async function allowed(from: client.Registry = registry): Promise<Readonly<Record<string, number>>> {
  const series = Object.entries(only(await exposed(from), 'spillgate_decisions_total'));
  return Object.fromEntries(
    series.flatMap(([labels, value]) => {
      const limiter = /limiter="([^"]*)".*outcome="allowed"/.exec(labels)?.[1];
      return limiter === undefined ? [] : [[limiter, value]];
    }),
  );
}

test('without a registry the metrics are in the default one', async () => {
  const { limiter } = remote();
  collectMetrics(limiter, { client });

  await limiter.check(api.for('ann'));

  expect(await allowed(client.register)).toEqual({ default: 1 });
});

test('two limiters with names are told apart', async () => {
  const [edge, jobs] = [remote(), remote()];
  collectMetrics(edge.limiter, { client, registry, name: 'edge' });
  collectMetrics(jobs.limiter, { client, registry, name: 'jobs' });

  await edge.limiter.check(api.for('ann'));
  await jobs.limiter.check(api.for('ann'));
  await jobs.limiter.check(api.for('ann'));

  expect(await allowed()).toEqual({ edge: 1, jobs: 2 });
});

test('two limiters of one name are counted together, and a server is down if it is for one of them', async () => {
  const [first, second] = [remote(), remote()];
  collectMetrics(first.limiter, { client, registry });
  collectMetrics(second.limiter, { client, registry });
  await first.limiter.check(api.for('ann'));
  await second.limiter.check(api.for('ann'));
  const up = async () => only(await exposed(registry), 'spillgate_node_up');

  first.store.nodes = [node('a:1', 'down'), node('b:2', 'up')];
  second.store.nodes = [node('a:1', 'up'), node('b:2', 'down')];

  expect(await allowed()).toEqual({ default: 2 });
  expect(await up()).toEqual({ '{limiter="default",node="a:1"}': 0, '{limiter="default",node="b:2"}': 0 });
});

test('of several workers, the one that has lost a server is heard', async () => {
  const [first, second] = [remote(), remote()];
  const other = new client.Registry();
  collectMetrics(first.limiter, { client, registry });
  collectMetrics(second.limiter, { client, registry: other });
  first.store.nodes = [node('a:1', 'down')];
  second.store.nodes = [node('a:1', 'up')];

  const workers = [await registry.getMetricsAsJSON(), await other.getMetricsAsJSON()];
  const aggregated = client.AggregatorRegistry.aggregate(workers);

  expect(only(await exposed(aggregated), 'spillgate_node_up')).toEqual({
    '{limiter="default",node="a:1"}': 0,
  });
});

test('stopping ends the counting of that limiter only, keeps what was counted, and forgets its servers', async () => {
  const [edge, jobs] = [remote(), remote()];
  const stop = collectMetrics(edge.limiter, { client, registry, name: 'edge' });
  collectMetrics(jobs.limiter, { client, registry, name: 'jobs' });
  edge.store.nodes = [node('a:1', 'up')];
  jobs.store.nodes = [node('a:1', 'up')];
  await edge.limiter.check(api.for('ann'));

  stop();
  stop();
  const before = await exposed(registry);
  await edge.limiter.check(api.for('ann'));
  edge.store.behaviour = 'rejects';
  await edge.limiter.check(api.for('ann'));
  edge.store.happen({ type: 'scriptReloaded', node: 'a:1' });
  edge.store.happen({ type: 'nodeUp', node: 'a:1', afterMs: 1 });
  const after = await exposed(registry);
  await jobs.limiter.check(api.for('ann'));

  expect(after).toEqual(before);
  expect(await allowed()).toEqual({ edge: 1, jobs: 1 });
  expect(only(after, 'spillgate_node_up')).toEqual({ '{limiter="jobs",node="a:1"}': 1 });
});

test('after a stop the same limiter can be collected again, and its counts go on', async () => {
  const { limiter } = remote();
  const stop = collectMetrics(limiter, { client, registry });
  await limiter.check(api.for('ann'));
  stop();

  collectMetrics(limiter, { client, registry });
  stop();
  await limiter.check(api.for('ann'));

  expect(await allowed()).toEqual({ default: 2 });
});

test('a limiter that is collected twice is a mistake, which leaves the first collection alone', async () => {
  const { limiter } = remote();
  collectMetrics(limiter, { client, registry });

  expect(() => collectMetrics(limiter, { client, registry, name: 'again' })).toThrow(
    'This limiter is collected here already; stop that first: every decision would count twice.',
  );
  await limiter.check(api.for('ann'));

  expect(await allowed()).toEqual({ default: 1 });
});

test('one limiter may be collected in two registries', async () => {
  const { limiter } = remote();
  const other = new client.Registry();
  collectMetrics(limiter, { client, registry });
  collectMetrics(limiter, { client, registry: other });

  await limiter.check(api.for('ann'));

  expect([await allowed(registry), await allowed(other)]).toEqual([{ default: 1 }, { default: 1 }]);
});

test('a registry that was cleared starts from nothing', async () => {
  const { limiter } = remote();
  collectMetrics(limiter, { client, registry });
  await limiter.check(api.for('ann'));

  registry.clear();
  collectMetrics(limiter, { client, registry });
  await limiter.check(api.for('ann'));

  expect(await allowed()).toEqual({ default: 1 });
});

test('a registry that resets its metrics goes on from zero', async () => {
  const { limiter } = remote();
  collectMetrics(limiter, { client, registry });
  await limiter.check(api.for('ann'));

  registry.resetMetrics();
  await limiter.check(api.for('ann'));

  expect(await allowed()).toEqual({ default: 1 });
});

test.each(Object.values(METRICS).map(({ name }) => [name]))(
  'a foreign metric named %s is a mistake, and nothing is registered',
  (name) => {
    const { limiter } = remote();
    const foreign = new client.Gauge({ name, help: 'not ours', registers: [registry] });

    expect(() => collectMetrics(limiter, { client, registry })).toThrow(
      `The registry has another metric ${name} already: use a registry of its own, or remove that one.`,
    );

    expect(registry.getMetricsAsArray()).toEqual([foreign]);
  },
);

test('a registry of the OpenMetrics format has the same names', async () => {
  const { limiter } = remote();
  const open = new client.Registry<client.OpenMetricsContentType>();
  open.setContentType(client.openMetricsContentType);
  collectMetrics(limiter, { client, registry: open });

  await limiter.check(api.for('ann'));
  const first = await open.metrics();
  const second = await open.metrics();

  expect(first).toContain(
    'spillgate_decisions_total{limiter="default",policy="api",outcome="allowed",source="store"} 1\n',
  );
  expect(second).toBe(first);
});
