/** Every label a metric may have, and what its values are. None of them is ever a key. */
export const LABELS = {
  limiter: 'the `name` given to `collectMetrics()`; `default` without one',
  policy:
    'the name of the policy that the decision is about: the one that denied, else the one with the least left',
  outcome: '`allowed` or `denied`',
  source:
    '`store`; `lease` (tokens that the process holds, without asking the store); `denialCache` (a denial of the store that still holds, repeated without asking it); `overflow` (a full memory store, new keys share a state); `fallback` (local memory, while the store fails); `failurePolicy` (nothing was counted)',
  class:
    '`transient` (waiting helps), `configuration` (an operator has to act), `state` (a foreign value under one of our keys), `program`',
  code: 'the code of the error, as in [errors.md](errors.md)',
  node: 'a server, named as in `limiter.health()`: `host:port`, the name of its shard, `client` if you passed a client, or `memory`; only `spillgate_node_up` also has each `sentinel host:port` and `replica host:port`',
  to: '`up`, `down` or `gone`',
  fate: '`granted` (by the store), `returned` (unused, to the store), `expired` (their moment passed unused)',
  refunded: '`true` if the store has given back what it had taken, else `false`',
} as const;

export type LimiterLabel = keyof typeof LABELS;

export interface LimiterMetric {
  /** As Prometheus wants it: the unit, then `_total` for a counter. */
  readonly name: string;
  readonly kind: 'counter' | 'gauge' | 'histogram';
  readonly labels: readonly LimiterLabel[];
  /** One sentence without a full stop. */
  readonly help: string;
}

/** A value for each label of a metric. */
export type LabelsOf<Described extends LimiterMetric> = Readonly<Record<Described['labels'][number], string>>;

/** The one table of metrics: both entries register what it says, and `docs/metrics.md` is generated from it. */
export const METRICS = {
  decisions: {
    name: 'spillgate_decisions_total',
    kind: 'counter',
    labels: ['limiter', 'policy', 'outcome', 'source'],
    help: 'Decisions of check and checkSync, one per call however many limits it covers',
  },
  decisionDuration: {
    name: 'spillgate_decision_duration_seconds',
    kind: 'histogram',
    labels: ['limiter', 'source'],
    help: 'Time from calling check or checkSync to its decision',
  },
  penalties: {
    name: 'spillgate_penalties_total',
    kind: 'counter',
    labels: ['limiter', 'policy'],
    help: 'Blocks that began because a key was denied too often',
  },
  storeErrors: {
    name: 'spillgate_store_errors_total',
    kind: 'counter',
    labels: ['limiter', 'class', 'code'],
    help: 'Calls that the store failed to decide and the failure policy answered',
  },
  nodeUp: {
    name: 'spillgate_node_up',
    kind: 'gauge',
    labels: ['limiter', 'node'],
    help: 'Whether a server of the store is in use: 0 while its breaker is open or it has no connection, else 1',
  },
  nodeTransitions: {
    name: 'spillgate_node_transitions_total',
    kind: 'counter',
    labels: ['limiter', 'node', 'to'],
    help: 'How often the breaker of a server opened (down), closed (up), or the server was replaced while it was down (gone)',
  },
  scriptReloads: {
    name: 'spillgate_script_reloads_total',
    kind: 'counter',
    labels: ['limiter', 'node'],
    help: 'How often a server did not know the script and was sent it again: it was new, restarted or flushed',
  },
  lateCharges: {
    name: 'spillgate_late_charges_total',
    kind: 'counter',
    labels: ['limiter', 'refunded'],
    help: 'Checks that the store charged after the failure policy had answered them',
  },
  storeCalls: {
    name: 'spillgate_store_calls_total',
    kind: 'counter',
    labels: ['limiter'],
    help: 'Calls to Redis that decided, leased or gave back; divided by spillgate_decisions_total it is what a decision costs',
  },
  leaseTokens: {
    name: 'spillgate_lease_tokens_total',
    kind: 'counter',
    labels: ['limiter', 'fate'],
    help: 'Leased tokens by what became of them; those that are neither returned nor expired nor held were spent',
  },
  leasedTokens: {
    name: 'spillgate_leased_tokens',
    kind: 'gauge',
    labels: ['limiter'],
    help: 'Leased tokens that this process holds now',
  },
  leaseClockBound: {
    name: 'spillgate_lease_clock_bound_seconds',
    kind: 'gauge',
    labels: ['limiter'],
    help: 'By how much the time by which leases are decided may be ahead of the clock of Redis: a round trip and the drift since',
  },
  leaseClockError: {
    name: 'spillgate_lease_clock_error_seconds',
    kind: 'gauge',
    labels: ['limiter'],
    help: 'The most by which the clock of Redis was found ahead of that time: 0 unless it jumped',
  },
} as const;

/** The most values of labels that come from outside the library; what comes later is `other`. */
export const MAX_LABELS = { limiter: 50, policy: 200, node: 200 } as const;

/** Upper bounds: embedded memory needs microseconds, a network a millisecond, and the default deadline is 50 ms. */
export const DURATION_BUCKETS_SECONDS: readonly number[] = [
  0.00001, 0.000025, 0.00005, 0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1,
];

/** As OpenTelemetry wants a name: words between dots, and neither the unit nor the kind. */
export function openTelemetryName({ name }: LimiterMetric): string {
  return name.replace(/_total$|_seconds$/, '').replaceAll('_', '.');
}

/** The unit as OpenTelemetry writes it; undefined for what is merely counted. */
export function openTelemetryUnit({ name }: LimiterMetric): 's' | undefined {
  return name.endsWith('_seconds') ? 's' : undefined;
}
