// What a metric is, which labels there are, and what metrics are read from each time someone asks for them.
import type { MetricValueWithName } from 'prom-client';

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
  /** What several workers have together. Default: the sum. */
  readonly workers?: 'sum' | 'min' | 'max';
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

/**
 * Every label a metric may have, and what its values are. None of them is ever a key, a path or a host that a client
 * sent.
 */
export const LABELS = {
  outcome:
    '`forwarded` (the backend answered), `answered` (by the gateway itself, as configured: a CORS preflight), `refused` (by a rule), `invalid` (a malformed request), `failed` (the backend did not answer, or a limit of the gateway was reached), `aborted` (the client disconnected). Of calls to the limits service: `answered`, or why not, such as `timeout`. Of the shared cache: `hit`, `stale`, `miss`, `stored`, `corrupt` or `failed`',
  status: '`1xx` to `5xx`; `none` if the client disconnected before there was one',
  protocol: '`HTTP/1.0`, `HTTP/1.1`, `HTTP/2.0` or `websocket`',
  rule: 'the name of the rule that matched; empty if none did',
  reason:
    'why the gateway answered itself, such as `UPSTREAM_TIMEOUT`. Of external limits: why they came from that step, such as `local` or `timeout`',
  bound: '`max_connections`, `max_connections_per_address` or `max_overhead_per_address`',
  overhead:
    'what used up the budget: `smallPiece` (DATA frames or chunks of a few bytes), `controlFrame` (PING, SETTINGS, PRIORITY), `cancelledRequest` (requests that the client began and broke off), `malformedRequest`, `emptyByte` (bytes that belong to no request)',
  oddity:
    '`untrustedHeader` (a forwarding header from an untrusted address), `tooFewHops` (fewer entries than `trusted_hops`), `junk` (an entry that is not an address), `tooManyEntries` (more trusted hops than are followed)',
  result: '`applied`, `unchanged` or `refused`',
  upstream: 'the upstream, as named in the configuration',
  version: 'the version of the gateway',
  step: 'where external limits came from: `cache`, `service`, `stale`, or `static` (the configured ones)',
  operation: '`read` or `write`',
  scope: '`key` or `global`',
  state: '`open` or `closed`',
  field: 'the part of an answer that is not followed: `backendUrl` or `failurePolicy`',
  kind: 'what was shown: `apiKey` or `token`',
  identification:
    '`accepted`, `unclear` (shown twice, or in two places), or why it was not accepted. Of API keys: `unknown`, `disabled`, `expired`. Of tokens: `malformed`, `algorithm`, `unknownKey`, `signature`, `issuer`, `audience`, `type`, `claims`, `notYetValid`, `expired`, `keysUnavailable`',
  fetch: '`changed`, `unchanged` or `failed`',
  event:
    '`sent`, `repeated` (not taken, and sent again later), `rejected` (refused for good) or `dropped` (more than `usage_events.max_queued` waited)',
  measured: '`exact`, or `estimated` (not all of it is known, such as the tokens of a stream that broke off)',
  settlement:
    '`settled`, `unchanged` (the estimate was right, or stands), `expired` (later than `settle.within`: nothing was given back) or `failed` (the store could not be reached)',
  endpoint: 'what the decision service was asked for, such as `check`; `unknown` for other paths',
  change: '`lower`, `higher`, `other`, or `held` (a raise soon after a cut, which is delayed)',
} as const;

/** Rows of the table of metrics. */
export type MetricRows = Readonly<
  Record<string, GatewayMetric & { readonly labels: readonly (keyof typeof LABELS)[] }>
>;

/** The most values of labels that a configuration can bring; what comes later is `other`. */
export const MAX_LABELS = { rule: 200, reason: 50, upstream: 256 } as const;
export const MAX_LABEL_LENGTH = 256;

/** Upper bounds of histograms. */
export const DURATION_BUCKETS_SECONDS: readonly number[] = [
  0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30,
];

export const CALL_BUCKETS_SECONDS: readonly number[] = [
  0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10,
];
