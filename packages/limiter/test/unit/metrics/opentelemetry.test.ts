import { metrics } from '@opentelemetry/api';
import { DataPointType, MeterProvider, MetricReader, type MetricData } from '@opentelemetry/sdk-metrics';
import * as client from 'prom-client';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { createLimiter, fixedWindow, LimiterError, type Limiter } from '../../../src/index.ts';
import { DURATION_BUCKETS_SECONDS, METRICS } from '../../../src/metrics/metric-table.ts';
import { collectMetrics, globalMeter, type OpenTelemetryMeter } from '../../../src/metrics/opentelemetry.ts';
import { collectMetrics as collectForPrometheus } from '../../../src/metrics/prometheus.ts';
import { virtualClock } from '../../../src/testing/index.ts';
import { eventfulStore, node, type EventfulStore } from './eventful-store.ts';
import { exposed, only } from './exposition.ts';

const api = fixedWindow({ name: 'api', quota: 2, window: '1h' });
const login = fixedWindow({
  name: 'login',
  quota: 1,
  window: '1h',
  block: { after: 1, within: '1m', for: '1m' },
});

/** A real SDK whose metrics are read when a test wants to. */
class Reader extends MetricReader {
  async read(): Promise<readonly MetricData[]> {
    const { resourceMetrics, errors } = await this.collect();
    if (errors.length > 0) throw new AggregateError(errors);
    return resourceMetrics.scopeMetrics.flatMap((scope) => scope.metrics);
  }

  protected async onForceFlush(): Promise<void> {}

  protected async onShutdown(): Promise<void> {}
}

let reader: Reader;
let provider: MeterProvider;
let meter: OpenTelemetryMeter;

beforeEach(() => {
  reader = new Reader();
  provider = new MeterProvider({ readers: [reader] });
  meter = provider.getMeter('spillgate');
});

afterEach(async () => {
  metrics.disable();
  await provider.shutdown();
});

function remote(): { limiter: Limiter; store: EventfulStore } {
  const clock = virtualClock();
  const store = eventfulStore(clock);
  return { limiter: createLimiter({ clock, store }), store };
}

/** The points of one metric: labels in alphabetical order, and the value, or the count of a histogram. */
async function points(name: string, from: Reader = reader): Promise<Readonly<Record<string, number>>> {
  const metric = (await from.read()).find(({ descriptor }) => descriptor.name === name);
  const all = (metric?.dataPoints ?? []).map(({ attributes, value }) => {
    const labels = Object.entries(attributes).map(([label, text]) => `${label}="${String(text)}"`);
    return [labels.toSorted().join(','), typeof value === 'number' ? value : value.count] as const;
  });
  return Object.fromEntries(all);
}

/** Something of everything. */
async function program({ limiter, store }: { limiter: Limiter; store: EventfulStore }): Promise<void> {
  const error = new LimiterError('STORE_UNAVAILABLE', 'gone');
  for (const key of ['ann', 'ann', 'ann', 'bob']) await limiter.check(api.for(key));
  for (let attempt = 0; attempt < 3; attempt += 1) await limiter.check(login.for('ann'));
  store.behaviour = 'rejects';
  await limiter.check(api.for('ann'));
  await limiter.peek(api.for('ann'));
  store.happen({ type: 'nodeDown', node: 'a:1', error });
  store.happen({ type: 'nodeUp', node: 'a:1', afterMs: 1 });
  store.happen({ type: 'scriptReloaded', node: 'a:1' });
  store.happen({ type: 'lateCharge', refunded: true });
  store.nodes = [node('a:1', 'up'), node('b:2', 'down')];
  store.counted = {
    calls: 3,
    leases: { granted: 9, returned: 2, expired: 1, outstanding: 4, clockBoundUs: 5, clockErrorUs: 6 },
  };
}

describe('instruments', () => {
  test('have the names, units and kinds that OpenTelemetry asks for', async () => {
    const subject = remote();
    collectMetrics(subject.limiter, { meter });
    await program(subject);

    const described = (await reader.read()).map(({ descriptor, dataPointType }) => [
      descriptor.name,
      [DataPointType[dataPointType], descriptor.unit],
    ]);

    expect(Object.fromEntries(described)).toEqual({
      'spillgate.decisions': ['SUM', ''],
      'spillgate.lease.clock.bound': ['GAUGE', 's'],
      'spillgate.lease.clock.error': ['GAUGE', 's'],
      'spillgate.lease.tokens': ['SUM', ''],
      'spillgate.leased.tokens': ['GAUGE', ''],
      'spillgate.penalties': ['SUM', ''],
      'spillgate.store.calls': ['SUM', ''],
      'spillgate.decision.duration': ['HISTOGRAM', 's'],
      'spillgate.store.errors': ['SUM', ''],
      'spillgate.node.up': ['GAUGE', ''],
      'spillgate.node.transitions': ['SUM', ''],
      'spillgate.script.reloads': ['SUM', ''],
      'spillgate.late.charges': ['SUM', ''],
    });
  });

  test('are explained as in the table, and the histogram has its buckets', async () => {
    const subject = remote();
    collectMetrics(subject.limiter, { meter });
    await program(subject);

    const all = await reader.read();

    const explanations = all.map(({ descriptor }) => descriptor.description);
    expect(explanations.toSorted()).toEqual(
      Object.values(METRICS)
        .map(({ help }) => help)
        .toSorted(),
    );
    const [point] = all.flatMap((metric) =>
      metric.dataPointType === DataPointType.HISTOGRAM ? metric.dataPoints : [],
    );
    expect(point?.value.buckets.boundaries).toEqual(DURATION_BUCKETS_SECONDS);
    expect(point?.value.sum).toBeLessThan(1);
  });

  test.each([
    ['spillgate.decisions', 'spillgate_decisions_total'],
    ['spillgate.decision.duration', 'spillgate_decision_duration_seconds_count'],
    ['spillgate.penalties', 'spillgate_penalties_total'],
    ['spillgate.store.errors', 'spillgate_store_errors_total'],
    ['spillgate.node.up', 'spillgate_node_up'],
    ['spillgate.node.transitions', 'spillgate_node_transitions_total'],
    ['spillgate.script.reloads', 'spillgate_script_reloads_total'],
    ['spillgate.store.calls', 'spillgate_store_calls_total'],
    ['spillgate.lease.tokens', 'spillgate_lease_tokens_total'],
    ['spillgate.leased.tokens', 'spillgate_leased_tokens'],
    ['spillgate.lease.clock.bound', 'spillgate_lease_clock_bound_seconds'],
    ['spillgate.lease.clock.error', 'spillgate_lease_clock_error_seconds'],
  ])('%s has the same attributes and values as %s', async (name, prometheusName) => {
    const subject = remote();
    const registry = new client.Registry();
    collectMetrics(subject.limiter, { meter, name: 'edge' });
    collectForPrometheus(subject.limiter, { client, registry, name: 'edge' });
    await program(subject);

    const sorted = Object.entries(only(await exposed(registry), prometheusName)).map(([labels, value]) => [
      labels.slice(1, -1).split(',').toSorted().join(','),
      value,
    ]);

    expect(sorted).not.toEqual([]);
    expect(await points(name)).toEqual(Object.fromEntries(sorted));
  });
});

test('two limiters on one meter are told apart by their names, and stopping one leaves the other', async () => {
  const [edge, jobs] = [remote(), remote()];
  const stop = collectMetrics(edge.limiter, { meter, name: 'edge' });
  collectMetrics(jobs.limiter, { meter, name: 'jobs' });
  edge.store.nodes = [node('a:1', 'up')];
  jobs.store.nodes = [node('a:1', 'down')];

  await edge.limiter.check(api.for('ann'));
  const before = await points('spillgate.node.up');
  stop();
  await edge.limiter.check(api.for('ann'));
  await jobs.limiter.check(api.for('ann'));

  expect(before).toEqual({ 'limiter="edge",node="a:1"': 1, 'limiter="jobs",node="a:1"': 0 });
  expect(await points('spillgate.decisions')).toMatchObject({
    'limiter="edge",outcome="allowed",policy="api",source="store"': 1,
    'limiter="jobs",outcome="allowed",policy="api",source="store"': 1,
  });
});

test('a server that failed and was replaced is not down for ever, whoever reads', async () => {
  const { limiter, store } = remote();
  const [first, second] = [new Reader(), new Reader()];
  const both = new MeterProvider({ readers: [first, second] });
  collectMetrics(limiter, { meter: both.getMeter('spillgate') });
  const seenBy = async (by: Reader) => points('spillgate.node.up', by);

  store.nodes = [node('old:1', 'down')];
  const before = [await seenBy(first), await seenBy(second)];
  store.nodes = [node('new:2', 'up')];
  const after = [await seenBy(first), await seenBy(second)];
  store.nodes = [node('old:1', 'down')];
  const again = await seenBy(first);

  const failed = { 'limiter="default",node="old:1"': 0 };
  const replaced = { 'limiter="default",node="old:1"': 1, 'limiter="default",node="new:2"': 1 };
  expect(before).toEqual([failed, failed]);
  expect(after).toEqual([replaced, replaced]);
  expect(again).toEqual({ ...replaced, ...failed });
});

test('a limiter that is collected twice on one meter is a mistake', () => {
  const { limiter } = remote();
  collectMetrics(limiter, { meter });

  expect(() => collectMetrics(limiter, { meter })).toThrow('collected here already');
});

describe('the global meter', () => {
  test('is the one that the application has set up', async () => {
    metrics.setGlobalMeterProvider(provider);
    const global = await globalMeter();
    const { limiter } = remote();
    if (global !== undefined) collectMetrics(limiter, { meter: global });

    await limiter.check(api.for('ann'));

    expect(global).toBe(provider.getMeter('spillgate'));
    expect(await points('spillgate.decision.duration')).toEqual({ 'limiter="default",source="store"': 1 });
  });

  test('takes everything and keeps nothing where the application has set up none', async () => {
    const global = await globalMeter();
    const { limiter } = remote();
    if (global !== undefined) collectMetrics(limiter, { meter: global });

    expect(global).toBeDefined();
    expect((await limiter.check(api.for('ann'))).allowed).toBe(true);
  });
});
