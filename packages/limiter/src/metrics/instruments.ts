import type { LabelsOf, LimiterMetric } from './metric-table.ts';

/** Adds to one series of a counter, or puts a value into one of a histogram. */
export type Recorder<Described extends LimiterMetric> = (labels: LabelsOf<Described>, value: number) => void;

/** One series of a metric that is read. */
export interface SeriesReading<Described extends LimiterMetric> {
  readonly labels: LabelsOf<Described>;
  readonly value: number;
}

/** What a metrics library has to offer. */
export interface Instruments {
  counter<Counter extends LimiterMetric>(metric: Counter): Recorder<Counter>;
  /** A counter that somebody else counts, from zero. */
  readCounter<Counter extends LimiterMetric>(
    metric: Counter,
    read: () => Promise<readonly SeriesReading<Counter>[]>,
  ): void;
  histogram<Histogram extends LimiterMetric>(
    metric: Histogram,
    buckets: readonly number[],
  ): Recorder<Histogram>;
  gauge<Gauge extends LimiterMetric>(metric: Gauge, source: GaugeSource<Gauge>): void;
}

/** Where the values of a gauge come from, each time they are read. */
export interface GaugeSource<Gauge extends LimiterMetric> {
  readonly read: () => Promise<readonly SeriesReading<Gauge>[]>;
  /** What a series that is not read any more shows where it cannot be removed. */
  readonly gone: number;
  /** What the workers of one machine show together. */
  readonly workers: 'min' | 'max' | 'sum';
}
