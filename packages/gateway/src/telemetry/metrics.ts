import client from 'prom-client';
import type { Limiter } from 'spillgate';
import {
  collectMetrics,
  type PrometheusClient,
  type PrometheusConfiguration,
  type PrometheusLabels,
} from 'spillgate/prometheus';
import { METRICS, type MetricName } from './metric-table.ts';
import {
  type HistogramReading,
  type GatewayMetric,
  type MetricReading,
  type MetricSeries,
  type ObservedGateway,
  HistogramTally,
} from './metric.ts';
import { TrafficTally } from './traffic-tally.ts';
import type { FinishedRequest } from './traffic.ts';

export interface Metrics {
  /** Hears of traffic, and of everything else that is counted; its numbers are read when the metrics are. */
  readonly traffic: TrafficTally;
  /** For prom-client's AggregatorRegistry, where there are workers. */
  readonly registry: client.Registry;
  /** Everything, as Prometheus reads it. */
  readonly text: () => Promise<string>;
  /** The series of single metrics, by name; nothing for names that there are not. */
  readonly read: (names: readonly string[]) => Promise<readonly MetricSeries[]>;
  /** Counts what a limiter does; returns the function that stops. */
  readonly collect: (limiter: Limiter, name?: string) => () => void;
  /** From now on this gateway's health and configuration are shown. */
  readonly observe: (gateway: ObservedGateway) => void;
}

interface MetricsParts {
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
  const traffic = new TrafficTally(onFinished);
  let gateway: ObservedGateway | undefined;
  if (processMetrics) client.collectDefaultMetrics({ register: registry });
  for (const key of metricNames()) {
    const metric: GatewayMetric = METRICS[key];
    const sources = () => ({ traffic, gateway, version, droppedLogLines });
    if (metric.kind === 'histogram') {
      registerHistogram(registry, metric, () =>
        'read' in metric ? metric.read(sources()) : traffic.observed(key),
      );
    } else {
      registerNumbers(registry, metric, () =>
        'read' in metric ? readingsOf(metric.read(sources())) : traffic.counted(key),
      );
    }
  }
  return {
    traffic,
    registry,
    text: () => registry.metrics(),
    read: async (names) =>
      Promise.all(
        names.flatMap((name) => registry.getSingleMetric(name) ?? []).map(async (metric) => metric.get()),
      ),
    collect: (limiter, name) => collectMetrics(limiter, { client: talliedClient, registry, name }),
    observe(observed) {
      gateway = observed;
    },
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
  const { name, help, labels, workers: aggregator = 'sum', kind } = metric;
  const configuration = { name, help, labelNames: [...labels], registers: [], aggregator };
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

/**
 * A histogram whose numbers are counted elsewhere: what a registry asks of a metric, as it makes one itself to
 * aggregate.
 */
function registerHistogram(
  registry: client.Registry,
  { name, help, workers = 'sum' }: GatewayMetric,
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

/**
 * What the library takes for `prom-client`. Its counters and histograms are plain numbers until someone reads them:
 * recording in prom-client itself makes a text of all labels for every observation, and there are two per decision.
 */
export const talliedClient: PrometheusClient = {
  get Counter() {
    return TalliedCounter;
  },
  Gauge: client.Gauge,
  get Histogram() {
    return TalliedHistogram;
  },
  register: client.register,
};

/** One set of labels and what was recorded under it. */
class SeriesTable<Recorded> {
  private readonly make: () => Recorded;
  /** The library uses one object per set of labels where it matters; others are found by their content. */
  private readonly byObject = new WeakMap<PrometheusLabels, Recorded>();
  private readonly byContent = new Map<
    string,
    { readonly labels: PrometheusLabels; readonly recorded: Recorded }
  >();

  constructor(make: () => Recorded) {
    this.make = make;
  }

  of(labels: PrometheusLabels): Recorded {
    const known = this.byObject.get(labels);
    if (known !== undefined) return known;
    const content = JSON.stringify(labels, Object.keys(labels).toSorted());
    const { recorded } = this.byContent.get(content) ?? { recorded: this.make() };
    this.byContent.set(content, { labels, recorded });
    this.byObject.set(labels, recorded);
    return recorded;
  }

  all(): readonly { readonly labels: PrometheusLabels; readonly recorded: Recorded }[] {
    return [...this.byContent.values()];
  }
}

/** What a registry asks of a metric. */
class TalliedMetric {
  readonly name: string;
  readonly help: string;
  readonly aggregator = 'sum';

  constructor({ name, help }: PrometheusConfiguration) {
    this.name = name;
    this.help = help;
  }
}

class TalliedCounter extends TalliedMetric {
  readonly type = 'counter';
  private readonly collect: (() => Promise<void>) | undefined;
  private series = new SeriesTable(() => ({ value: 0 }));

  constructor(configuration: PrometheusConfiguration) {
    super(configuration);
    this.collect = configuration.collect;
  }

  inc(labels: PrometheusLabels, amount: number): void {
    this.series.of(labels).value += amount;
  }

  reset(): void {
    this.series = new SeriesTable(() => ({ value: 0 }));
  }

  async get(): Promise<object> {
    await this.collect?.();
    const { name, help, type, aggregator } = this;
    const values = this.series.all().map(({ labels, recorded: { value } }) => ({ labels, value }));
    return { name, help, type, aggregator, values };
  }
}

class TalliedHistogram extends TalliedMetric {
  readonly type = 'histogram';
  private readonly series: SeriesTable<HistogramTally>;

  constructor(configuration: PrometheusConfiguration) {
    super(configuration);
    const { buckets = [] } = configuration;
    this.series = new SeriesTable(() => new HistogramTally(buckets));
  }

  observe(labels: PrometheusLabels, value: number): void {
    this.series.of(labels).observe(value);
  }

  async get(): Promise<object> {
    const { name, help, type, aggregator } = this;
    const values = this.series.all().flatMap(({ labels, recorded }) => recorded.values(name, labels));
    return { name, help, type, aggregator, values };
  }
}
