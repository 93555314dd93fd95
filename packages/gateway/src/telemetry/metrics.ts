import client from 'prom-client';
import type { Limiter } from 'spillgate';
import { collectMetrics } from 'spillgate/prometheus';
import type { BackendHealth } from './backend-health.ts';
import { BoundedLabels } from './bounded-labels.ts';
import type { HistogramTally } from './histogram-tally.ts';
import { MAX_LABELS, METRICS, type Metric, type MetricName } from './metric-table.ts';
import { talliedClient } from './tallied-client.ts';
import { TrafficTally, type TrafficSummary } from './traffic-tally.ts';
import type { TrafficListener } from './traffic.ts';

/** What is read of a running gateway each time somebody asks for the metrics. */
export interface ObservedGateway {
  phase(): 'starting' | 'ready' | 'draining';
  live(): { readonly generation: number; readonly loadedAt: Date };
  lastReload(): { readonly outcome: string } | undefined;
  backends(): readonly BackendHealth[];
}

export interface Metrics {
  /** Hears of traffic; its numbers are read when the metrics are. */
  readonly traffic: TrafficListener;
  /** For prom-client's AggregatorRegistry, where there are workers. */
  readonly registry: client.Registry;
  readonly contentType: string;
  /** Everything, as Prometheus reads it. */
  readonly text: () => Promise<string>;
  /** Counts what a limiter does; returns the function that stops. */
  readonly collect: (limiter: Limiter, name?: string) => () => void;
  /** From now on this gateway's health and configuration are shown. */
  readonly observe: (gateway: ObservedGateway) => void;
  readonly reloaded: (result: 'applied' | 'unchanged' | 'refused') => void;
  /** The traffic so far in a few numbers. */
  readonly summary: () => TrafficSummary;
}

export interface MetricsParts {
  readonly version: string;
  /** Lines of the log that were lost so far. */
  readonly droppedLogLines?: () => number;
  /** Of the process: memory, CPU, event loop. Default: on. */
  readonly processMetrics?: boolean;
}

export function createMetrics({ version, droppedLogLines, processMetrics = true }: MetricsParts): Metrics {
  const registry = new client.Registry();
  const traffic = new TrafficTally();
  const reloads = { applied: 0, unchanged: 0, refused: 0 };
  let gateway: ObservedGateway | undefined;
  if (processMetrics) client.collectDefaultMetrics({ register: registry });
  for (const name of metricNames()) {
    const metric: Metric = METRICS[name];
    if (metric.kind === 'histogram') {
      registerTallied(registry, metric, () => histogramReadings(name, traffic));
    } else {
      registerNumbers(registry, metric, () =>
        readingsOf(name, { traffic, reloads, gateway, version, droppedLogLines }),
      );
    }
  }
  return {
    traffic,
    registry,
    contentType: registry.contentType,
    text: () => registry.metrics(),
    collect: (limiter, name) => collectMetrics(limiter, { client: talliedClient, registry, name }),
    observe(observed) {
      gateway = observed;
    },
    reloaded(result) {
      reloads[result] += 1;
    },
    summary: () => traffic.summary(),
  };
}

function metricNames(): readonly MetricName[] {
  // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- the keys of a constant
  return Object.keys(METRICS) as MetricName[];
}

interface Reading {
  readonly labels: Readonly<Record<string, string>>;
  readonly value: number;
}

interface Sources {
  readonly traffic: TrafficTally;
  readonly reloads: Readonly<Record<string, number>>;
  readonly gateway: ObservedGateway | undefined;
  readonly version: string;
  readonly droppedLogLines: (() => number) | undefined;
}

/** The series of a counter or a gauge. */
function readingsOf(name: MetricName, sources: Sources): readonly Reading[] {
  const { traffic, reloads, version, droppedLogLines } = sources;
  switch (name) {
    case 'requests':
      return traffic.requests.map(({ labels, count }) => ({ labels, value: count }));
    case 'ownAnswers':
      return [...traffic.ownAnswers].map(([reason, value]) => ({ labels: { reason }, value }));
    case 'reloads':
      return Object.entries(reloads).map(([result, value]) => ({ labels: { result }, value }));
    case 'receivedBytes':
      return one(traffic.receivedBytes);
    case 'sentBytes':
      return one(traffic.sentBytes);
    case 'requestsInFlight':
      return one(traffic.inFlight);
    case 'connections':
      return one(traffic.connections);
    case 'connectionsOpened':
      return one(traffic.connectionsOpened);
    case 'connectionsRefused':
      return Object.entries(traffic.connectionsRefused).map(([bound, value]) => ({
        labels: { bound },
        value,
      }));
    case 'addressOddities':
      return Object.entries(traffic.addressOddities).map(([oddity, value]) => ({
        labels: { oddity },
        value,
      }));
    case 'tunnels':
      return one(traffic.tunnels);
    case 'tunnelsOpened':
      return one(traffic.tunnelsOpened);
    case 'droppedLogLines':
      return one(droppedLogLines?.() ?? 0);
    case 'build':
      return [{ labels: { version }, value: 1 }];
    default:
      return sources.gateway === undefined ? [] : gatewayReadings(name, sources.gateway);
  }
}

function gatewayReadings(name: MetricName, gateway: ObservedGateway): readonly Reading[] {
  switch (name) {
    case 'upstreamUp':
      return backendReadings(gateway, ({ healthy }) => Number(healthy));
    case 'upstreamInFlight':
      return backendReadings(gateway, ({ inFlight }) => inFlight);
    case 'lastReloadSuccessful':
      return one(Number(gateway.lastReload()?.outcome !== 'refused'));
    case 'configGeneration':
      return one(gateway.live().generation);
    case 'configLoaded':
      return one(gateway.live().loadedAt.getTime() / 1000);
    case 'ready':
      return one(Number(gateway.phase() === 'ready'));
    default:
      return [];
  }
}

/** Fresh labels each time: servers that are gone must not take the place of those that are here. */
function backendReadings(
  gateway: ObservedGateway,
  valueOf: (backend: BackendHealth) => number,
): readonly Reading[] {
  const upstreams = new BoundedLabels(MAX_LABELS.upstream);
  return gateway
    .backends()
    .map((backend) => ({ labels: { upstream: upstreams.of(backend.origin) }, value: valueOf(backend) }));
}

function one(value: number): readonly Reading[] {
  return [{ labels: {}, value }];
}

interface TalliedSeries {
  readonly labels: Readonly<Record<string, string>>;
  readonly tally: HistogramTally;
}

function histogramReadings(name: MetricName, traffic: TrafficTally): readonly TalliedSeries[] {
  if (name === 'upstreamDuration') return [{ labels: {}, tally: traffic.upstreamDurations }];
  return [...traffic.durations].map(([outcome, tally]) => ({ labels: { outcome }, tally }));
}

function registerNumbers(registry: client.Registry, metric: Metric, read: () => readonly Reading[]): void {
  const { name, help, labels, workers, kind } = metric;
  const configuration = { name, help, labelNames: [...labels], registers: [], aggregator: workers };
  if (kind === 'counter') {
    const counter = new client.Counter({
      ...configuration,
      collect() {
        this.reset();
        for (const reading of read()) counter.inc(reading.labels, reading.value);
      },
    });
    registry.registerMetric(counter);
    return;
  }
  const gauge = new client.Gauge({
    ...configuration,
    collect() {
      this.reset();
      for (const reading of read()) gauge.set(reading.labels, reading.value);
    },
  });
  registry.registerMetric(gauge);
}

/** A histogram whose numbers are counted elsewhere: what a registry asks of a metric, as it makes one itself to aggregate. */
function registerTallied(
  registry: client.Registry,
  { name, help, workers }: Metric,
  read: () => readonly TalliedSeries[],
): void {
  const described = { name, help, type: 'histogram', aggregator: workers };
  const get = (): Promise<object> =>
    Promise.resolve({
      ...described,
      values: read().flatMap(({ labels, tally }) => tally.values(name, labels)),
    });
  // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- the declared type is a union of classes, of which only this much is used
  registry.registerMetric({ ...described, get } as unknown as client.Histogram);
}
