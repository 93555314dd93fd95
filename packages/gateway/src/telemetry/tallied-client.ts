import client from 'prom-client';
import type { PrometheusClient, PrometheusConfiguration, PrometheusLabels } from 'spillgate/prometheus';
import { HistogramTally } from './histogram-tally.ts';

/**
 * What the library takes for `prom-client`. Its counters and histograms are plain numbers until someone reads them: recording in
 * prom-client itself makes a text of all labels for every observation, and there are two per decision.
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
  private readonly series = new SeriesTable(() => ({ value: 0 }));

  inc(labels: PrometheusLabels, amount: number): void {
    this.series.of(labels).value += amount;
  }

  async get(): Promise<object> {
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
