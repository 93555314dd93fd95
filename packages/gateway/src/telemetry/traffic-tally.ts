import { BoundedLabels } from 'spillgate/internal';
import {
  DURATION_BUCKETS_SECONDS,
  MAX_LABEL_LENGTH,
  MAX_LABELS,
  HistogramTally,
  type TrafficNumbers,
  type HistogramReading,
  type GatewayMetric,
  type MetricReading,
} from './metric.ts';
import {
  type CounterName,
  type LabelValues,
  METRICS,
  type HistogramName,
  type MetricName,
} from './metric-table.ts';
import type { FinishedRequest, RequestOutcome, TrafficListener } from './traffic.ts';

const OUTCOMES: readonly RequestOutcome[] = [
  'forwarded',
  'answered',
  'refused',
  'invalid',
  'failed',
  'aborted',
];
const PROTOCOLS: readonly FinishedRequest['protocol'][] = ['HTTP/1.0', 'HTTP/1.1', 'HTTP/2.0', 'websocket'];
const STATUS_CLASSES = ['none', '1xx', '2xx', '3xx', '4xx', '5xx'] as const;
const NO_RULE = '';

/** The traffic since the start. */
export interface TrafficSummary {
  readonly requests: Readonly<Record<RequestOutcome, number>>;
  /** The same by rule; the empty name is for requests that no rule matched. */
  readonly rules: readonly {
    readonly rule: string;
    readonly requests: Readonly<Record<RequestOutcome, number>>;
  }[];
  readonly requestsInFlight: number;
  readonly connections: number;
  readonly tunnels: number;
  readonly receivedBytes: number;
  readonly sentBytes: number;
}

/** The requests of one rule with one outcome, status class and protocol. */
interface RequestSeries {
  readonly outcome: RequestOutcome;
  readonly rule: string;
  readonly labels: Readonly<Record<'outcome' | 'status' | 'protocol' | 'rule', string>>;
  count: number;
}

/**
 * The metrics of the table that are moved by name. Plain numbers, which become metrics only when someone asks for them.
 */
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

/**
 * Counts traffic in plain numbers, which are read when someone asks for the metrics: recording in prom-client itself
 * costs a hash of all labels for every observation.
 */
export class TrafficTally extends MovedMetrics implements TrafficListener, TrafficNumbers {
  inFlight = 0;
  connections = 0;
  connectionsOpened = 0;
  tunnels = 0;
  tunnelsOpened = 0;
  receivedBytes = 0;
  sentBytes = 0;
  readonly requests: RequestSeries[] = [];
  readonly ownAnswers = new Map<string, number>();
  readonly shadowDenials = new Map<string, number>();
  private readonly costs = { exact: new Map<string, number>(), estimated: new Map<string, number>() };
  readonly durations: ReadonlyMap<RequestOutcome, HistogramTally>;
  readonly upstreamDurations = new HistogramTally(DURATION_BUCKETS_SECONDS);
  /** By rule, then by place in a table of outcomes, status classes and protocols. */
  private readonly byRule = new Map<string, (RequestSeries | undefined)[]>();
  private readonly ruleLabels = new BoundedLabels(MAX_LABELS.rule, MAX_LABEL_LENGTH);
  private readonly reasonLabels = new BoundedLabels(MAX_LABELS.reason, MAX_LABEL_LENGTH);

  private readonly onFinished: readonly ((request: FinishedRequest) => void)[];

  /**
   * `onFinished` hears of finished requests only. Nobody else listens to traffic, so nothing can be lost on the way
   * here.
   */
  constructor(onFinished: readonly ((request: FinishedRequest) => void)[] = []) {
    super();
    this.onFinished = onFinished;
    this.durations = new Map(
      OUTCOMES.map((outcome) => [outcome, new HistogramTally(DURATION_BUCKETS_SECONDS)]),
    );
  }

  started(): void {
    this.inFlight += 1;
  }

  finished(request: FinishedRequest): void {
    const { outcome, protocol, durationMs, upstreamMs, reason } = request;
    this.inFlight -= 1;
    const series = this.seriesOf(request);
    series.count += 1;
    if (request.shadowDenied) add(this.shadowDenials, series.rule);
    if (request.cost !== undefined) this.countCost(series.rule, request.cost);
    this.receivedBytes += request.bytesReceived;
    this.sentBytes += request.bytesSent;
    if (protocol !== 'websocket') this.durations.get(outcome)?.observe(durationMs / 1000);
    if (upstreamMs !== undefined) this.upstreamDurations.observe(upstreamMs / 1000);
    if (reason !== undefined) this.countReason(reason);
    for (const hear of this.onFinished) hear(request);
  }

  connectionOpened(): void {
    this.connections += 1;
    this.connectionsOpened += 1;
  }

  connectionClosed(): void {
    this.connections -= 1;
  }

  tunnelOpened(): void {
    this.tunnels += 1;
    this.tunnelsOpened += 1;
  }

  tunnelClosed(): void {
    this.tunnels -= 1;
  }

  summary(): TrafficSummary {
    const rules = new Map<string, Record<RequestOutcome, number>>();
    const requests = noRequests();
    for (const { outcome, rule, count } of this.requests) {
      const ofRule = rules.get(rule) ?? noRequests();
      ofRule[outcome] += count;
      requests[outcome] += count;
      rules.set(rule, ofRule);
    }
    const { inFlight: requestsInFlight, connections, tunnels, receivedBytes, sentBytes } = this;
    return {
      requests,
      rules: [...rules].map(([rule, counts]) => ({ rule, requests: counts })),
      requestsInFlight,
      connections,
      tunnels,
      receivedBytes,
      sentBytes,
    };
  }

  get chargedCosts(): readonly MetricReading[] {
    return (['exact', 'estimated'] as const).flatMap((measured) =>
      [...this.costs[measured]].map(([rule, value]) => ({ labels: { rule, measured }, value })),
    );
  }

  private countCost(rule: string, { cost, estimated }: NonNullable<FinishedRequest['cost']>): void {
    const sums = this.costs[estimated ? 'estimated' : 'exact'];
    sums.set(rule, (sums.get(rule) ?? 0) + cost);
  }

  private countReason(reason: string): void {
    add(this.ownAnswers, this.reasonLabels.of(reason));
  }

  private seriesOf({ outcome, status, protocol, rule = NO_RULE }: FinishedRequest): RequestSeries {
    const ruleLabel = rule === NO_RULE ? NO_RULE : this.ruleLabels.of(rule);
    const table = this.byRule.get(ruleLabel) ?? this.addRule(ruleLabel);
    const classAt = statusClassAt(status);
    const at =
      (OUTCOMES.indexOf(outcome) * STATUS_CLASSES.length + classAt) * PROTOCOLS.length +
      PROTOCOLS.indexOf(protocol);
    const known = table[at];
    if (known !== undefined) return known;
    const labels = { outcome, status: STATUS_CLASSES[classAt] ?? 'none', protocol, rule: ruleLabel };
    const series: RequestSeries = { outcome, rule: ruleLabel, labels, count: 0 };
    table[at] = series;
    this.requests.push(series);
    return series;
  }

  private addRule(rule: string): (RequestSeries | undefined)[] {
    const table: (RequestSeries | undefined)[] = [];
    this.byRule.set(rule, table);
    return table;
  }
}

function add(counts: Map<string, number>, label: string): void {
  counts.set(label, (counts.get(label) ?? 0) + 1);
}

function noRequests(): Record<RequestOutcome, number> {
  return { forwarded: 0, answered: 0, refused: 0, invalid: 0, failed: 0, aborted: 0 };
}

/** A place in `STATUS_CLASSES`. */
function statusClassAt(status: number | undefined): number {
  if (status === undefined || status < 100 || status > 599) return 0;
  return Math.floor(status / 100);
}
