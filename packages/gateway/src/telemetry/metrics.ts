import client from 'prom-client';
import type { Limiter } from 'spillgate';
import { collectMetrics } from 'spillgate/prometheus';
import type { HistogramReading, GatewayMetric, MetricReading, ObservedGateway } from './metric.ts';
import { METRICS, type MetricName } from './metric-table.ts';
import { MovedMetrics } from './moved-metrics.ts';
import { talliedClient } from './tallied-client.ts';
import { TrafficTally, type TrafficSummary } from './traffic-tally.ts';
import type { FinishedRequest, TrafficListener } from './traffic.ts';

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
  /** Moves counters and histograms that are not about traffic. */
  readonly moved: MovedMetrics;
  /** The traffic so far in a few numbers. */
  readonly summary: () => TrafficSummary;
}

export interface MetricsParts {
  readonly version: string;
  /** Lines of the log that were lost so far. */
  readonly droppedLogLines?: () => number;
  /** Each hears of every request that is over. */
  readonly onFinished?: readonly ((request: FinishedRequest) => void)[];
  /** Of the process: memory, CPU, event loop. Default: on. */
  readonly processMetrics?: boolean;
}

export function createMetrics(parts: MetricsParts): Metrics {
  const { version, droppedLogLines = () => 0, onFinished, processMetrics = true } = parts;
  const registry = new client.Registry();
  const moved = new MovedMetrics();
  const traffic = new TrafficTally(moved, onFinished);
  let gateway: ObservedGateway | undefined;
  if (processMetrics) client.collectDefaultMetrics({ register: registry });
  for (const key of metricNames()) {
    const metric: GatewayMetric = METRICS[key];
    const sources = () => ({ traffic, gateway, version, droppedLogLines });
    if (metric.kind === 'histogram') {
      registerHistogram(registry, metric, () =>
        'read' in metric ? metric.read(sources()) : moved.observed(key),
      );
    } else {
      registerNumbers(registry, metric, () =>
        'read' in metric ? readingsOf(metric.read(sources())) : moved.counted(key),
      );
    }
  }
  return {
    traffic,
    moved,
    registry,
    contentType: registry.contentType,
    text: () => registry.metrics(),
    collect: (limiter, name) => collectMetrics(limiter, { client: talliedClient, registry, name }),
    observe(observed) {
      gateway = observed;
    },
    summary: () => traffic.summary(),
  };
}

function metricNames(): readonly MetricName[] {
  // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- the keys of a constant
  return Object.keys(METRICS) as MetricName[];
}

function readingsOf(value: number | undefined | readonly MetricReading[]): readonly MetricReading[] {
  if (value === undefined) return [];
  return typeof value === 'number' ? [{ labels: {}, value }] : value;
}

function registerNumbers(
  registry: client.Registry,
  metric: GatewayMetric,
  read: () => readonly MetricReading[],
): void {
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
function registerHistogram(
  registry: client.Registry,
  { name, help, workers }: GatewayMetric,
  read: () => readonly HistogramReading[],
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
