import { HistogramTally } from './histogram-tally.ts';
import type { HistogramReading, GatewayMetric, MetricReading } from './metric.ts';
import {
  METRICS,
  type CounterName,
  type HistogramName,
  type LabelValues,
  type MetricName,
} from './metric-table.ts';

/** The metrics of the table that are moved by name. Plain numbers, which become metrics only when someone asks for them. */
export class MovedMetrics {
  private readonly counts = new Map<MetricName, Map<string, CountedSeries>>();
  private readonly histograms = new Map<MetricName, HistogramTally>();

  constructor() {
    for (const [key, metric] of Object.entries<GatewayMetric>(METRICS)) {
      // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- the keys of a constant
      const name = key as MetricName;
      if ('buckets' in metric) this.histograms.set(name, new HistogramTally(metric.buckets));
      if (metric.kind === 'counter' && !('read' in metric)) {
        const { values = [] } = metric;
        this.counts.set(name, new Map(values.map((value) => [value, { values: [value], count: 0 }])));
      }
    }
  }

  count<Name extends CounterName>(metric: Name, ...labels: LabelValues<Name>): void {
    // Few series, all known at compile time: no text of a client is ever a label.
    const id = labels.join('/');
    const series = this.counts.get(metric)?.get(id);
    if (series === undefined) this.counts.get(metric)?.set(id, { values: labels, count: 1 });
    else series.count += 1;
  }

  observe(metric: HistogramName, value: number): void {
    this.histograms.get(metric)?.observe(value);
  }

  counted(name: MetricName): readonly MetricReading[] {
    const { labels } = METRICS[name];
    return [...(this.counts.get(name)?.values() ?? [])].map(({ values, count }) => ({
      labels: Object.fromEntries(labels.map((label, at) => [label, values[at] ?? ''])),
      value: count,
    }));
  }

  observed(name: MetricName): readonly HistogramReading[] {
    const tally = this.histograms.get(name);
    return tally === undefined ? [] : [{ labels: {}, tally }];
  }
}

interface CountedSeries {
  readonly values: readonly string[];
  count: number;
}
