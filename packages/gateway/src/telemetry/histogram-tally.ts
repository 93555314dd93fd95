import type { MetricValueWithName } from 'prom-client';

/** Counts values by bucket. Nothing is made per value: every request passes here. */
export class HistogramTally {
  readonly bounds: readonly number[];
  /** One per bound and one above them all; not cumulated. */
  readonly counts: Float64Array;
  sum = 0;

  constructor(bounds: readonly number[]) {
    this.bounds = bounds;
    this.counts = new Float64Array(bounds.length + 1);
  }

  observe(value: number): void {
    const { bounds, counts } = this;
    let at = 0;
    while (at < bounds.length && value > (bounds[at] ?? Infinity)) at += 1;
    counts[at] = (counts[at] ?? 0) + 1;
    this.sum += value;
  }

  /** As Prometheus has them: buckets cumulated, then the sum and the count. */
  values(name: string, labels: Readonly<Record<string, string>>): readonly MetricValueWithName<string>[] {
    let total = 0;
    const buckets = [...this.counts].map((count, at) => {
      total += count;
      return {
        metricName: `${name}_bucket`,
        labels: { le: this.bounds[at] ?? '+Inf', ...labels },
        value: total,
      };
    });
    return [
      ...buckets,
      { metricName: `${name}_sum`, labels, value: this.sum },
      { metricName: `${name}_count`, labels, value: total },
    ];
  }
}
