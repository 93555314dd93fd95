import type { MetricValueWithName } from 'prom-client';

// What a metric is, and what metrics are read from each time someone asks for them.
/** One series of a metric. */
export interface MetricReading {
  readonly labels: MetricLabels;
  readonly value: number;
}

/** A metric as a registry gives it: the buckets of a histogram are series of their own. */
export interface MetricSeries {
  readonly name: string;
  readonly values: readonly {
    readonly metricName?: string | undefined;
    readonly labels: Readonly<Record<string, string | number | undefined>>;
    readonly value: number;
  }[];
}

export interface HistogramReading {
  readonly labels: MetricLabels;
  readonly tally: HistogramTally;
}

interface MetricBase {
  readonly name: string;
  readonly labels: readonly string[];
  /** One sentence without a full stop. */
  readonly help: string;
  /** What several workers have together. */
  readonly workers: 'sum' | 'min' | 'max';
}

/** Read when someone asks for the metrics, from what is counted anyway. */
interface ReadMetric extends MetricBase {
  readonly kind: 'counter' | 'gauge';
  readonly read: (from: MetricSources) => number | undefined | readonly MetricReading[];
}

interface ReadHistogram extends MetricBase {
  readonly kind: 'histogram';
  readonly read: (from: MetricSources) => readonly HistogramReading[];
}

/**
 * Moved by `count(name, ...labels)` where it happens: a row and that call are all that a counter of events needs. It
 * adds 1, and keeps every value of a label: sums, and labels that a configuration names, are read from the tally.
 */
interface CountedMetric extends MetricBase {
  readonly kind: 'counter';
  /** Values of its only label that are shown before they happen. */
  readonly values?: readonly string[];
}

/** Moved by `observe(name, value)`. */
interface ObservedHistogram extends MetricBase {
  readonly kind: 'histogram';
  readonly buckets: readonly number[];
}

export type GatewayMetric = ReadMetric | ReadHistogram | CountedMetric | ObservedHistogram;

/** The running gateway: its health and its configuration. */
export interface ObservedGateway {
  phase(): 'starting' | 'ready' | 'draining';
  live(): { readonly generation: number; readonly loadedAt: Date };
  lastReload(): { readonly outcome: string } | undefined;
  backends(): readonly BackendHealth[];
  /** Undefined without external limits. */
  limitsService(): LimitsSourceSnapshot | undefined;
}

/** What is known of one server behind the gateway. */
export interface BackendHealth {
  readonly origin: string;
  readonly healthy: boolean;
  readonly inFlight: number;
  readonly lastError: string | undefined;
}

/** The source of external limits in a few numbers. */
export interface LimitsSourceSnapshot {
  /** Calls to the service in flight, and those that wait for a slot. */
  readonly inFlight: number;
  readonly queued: number;
  /** Answers in the memory of this process. */
  readonly entries: number;
  readonly breakers: number;
  readonly openBreakers: number;
  readonly globalBreaker: 'closed' | 'open' | 'halfOpen';
}

/** The traffic since the start, as plain numbers. */
export interface TrafficNumbers {
  readonly inFlight: number;
  readonly connections: number;
  readonly connectionsOpened: number;
  readonly tunnels: number;
  readonly tunnelsOpened: number;
  readonly receivedBytes: number;
  readonly sentBytes: number;
  readonly requests: readonly { readonly labels: MetricLabels; readonly count: number }[];
  readonly ownAnswers: ReadonlyMap<string, number>;
  readonly shadowDenials: ReadonlyMap<string, number>;
  readonly chargedCosts: readonly MetricReading[];
  readonly durations: ReadonlyMap<string, HistogramTally>;
  readonly upstreamDurations: HistogramTally;
}

type MetricLabels = Readonly<Record<string, string>>;

export interface MetricSources {
  readonly traffic: TrafficNumbers;
  /** Undefined until it runs. */
  readonly gateway: ObservedGateway | undefined;
  readonly version: string;
  readonly droppedLogLines: () => number;
}

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
