import { BoundedLabels } from 'spillgate/internal';
import { EXTERNAL_METRICS } from './external-metrics.ts';
import type { BackendHealth, MetricReading, ObservedGateway } from './metric.ts';
import { MAX_LABEL_LENGTH, MAX_LABELS, type MetricRows } from './metric-labels.ts';

/** The one table of the gateway's metrics: the registry and `docs/gateway-metrics.md` come from it. */
export const METRICS = {
  requests: {
    name: 'spillgate_gateway_requests_total',
    kind: 'counter',
    labels: ['outcome', 'status', 'protocol', 'rule'],
    help: 'Finished requests, including tunnels',
    workers: 'sum',
    read: ({ traffic }) => traffic.requests.map(({ labels, count }) => ({ labels, value: count })),
  },
  ownAnswers: {
    name: 'spillgate_gateway_own_answers_total',
    kind: 'counter',
    labels: ['reason'],
    help: 'Requests that the gateway answered itself, by reason',
    workers: 'sum',
    read: ({ traffic }) => [...traffic.ownAnswers].map(([reason, value]) => ({ labels: { reason }, value })),
  },
  shadowDenials: {
    name: 'spillgate_gateway_shadow_denials_total',
    kind: 'counter',
    labels: ['rule'],
    help: 'Requests that passed only because the rule or the policy against them is in shadow mode',
    workers: 'sum',
    read: ({ traffic }) => [...traffic.shadowDenials].map(([rule, value]) => ({ labels: { rule }, value })),
  },
  chargedCost: {
    name: 'spillgate_gateway_charged_cost_total',
    kind: 'counter',
    labels: ['rule', 'measured'],
    help: 'Cost of finished requests, as it was charged; of language models these are tokens. Requests that cost 1 are not in here',
    workers: 'sum',
    read: ({ traffic }) => traffic.chargedCosts,
  },
  settlements: {
    name: 'spillgate_gateway_settlements_total',
    kind: 'counter',
    labels: ['settlement'],
    help: 'Costs that were corrected when a request had ended, by how that went',
    workers: 'sum',
    values: ['settled', 'unchanged', 'expired', 'failed'],
  },
  requestDuration: {
    name: 'spillgate_gateway_request_duration_seconds',
    kind: 'histogram',
    labels: ['outcome'],
    help: 'Time from the arrival of a request to the end of its response, without tunnels',
    workers: 'sum',
    read: ({ traffic }) => [...traffic.durations].map(([outcome, tally]) => ({ labels: { outcome }, tally })),
  },
  upstreamDuration: {
    name: 'spillgate_gateway_upstream_duration_seconds',
    kind: 'histogram',
    labels: [],
    help: 'Time until the backend sent its response headers',
    workers: 'sum',
    read: ({ traffic }) => [{ labels: {}, tally: traffic.upstreamDurations }],
  },
  receivedBytes: {
    name: 'spillgate_gateway_received_bytes_total',
    kind: 'counter',
    labels: [],
    help: 'Body bytes received from clients',
    workers: 'sum',
    read: ({ traffic }) => traffic.receivedBytes,
  },
  sentBytes: {
    name: 'spillgate_gateway_sent_bytes_total',
    kind: 'counter',
    labels: [],
    help: 'Body bytes sent to clients',
    workers: 'sum',
    read: ({ traffic }) => traffic.sentBytes,
  },
  requestsInFlight: {
    name: 'spillgate_gateway_requests_in_flight',
    kind: 'gauge',
    labels: [],
    help: 'Requests in flight',
    workers: 'sum',
    read: ({ traffic }) => traffic.inFlight,
  },
  connections: {
    name: 'spillgate_gateway_connections',
    kind: 'gauge',
    labels: [],
    help: 'Open client connections',
    workers: 'sum',
    read: ({ traffic }) => traffic.connections,
  },
  connectionsOpened: {
    name: 'spillgate_gateway_connections_total',
    kind: 'counter',
    labels: [],
    help: 'Client connections accepted',
    workers: 'sum',
    read: ({ traffic }) => traffic.connectionsOpened,
  },
  usageEvents: {
    name: 'spillgate_gateway_usage_events_total',
    kind: 'counter',
    labels: ['event'],
    help: 'Usage events, by what became of them',
    workers: 'sum',
    values: ['sent', 'repeated', 'rejected', 'dropped'],
  },
  connectionsRefused: {
    name: 'spillgate_gateway_connections_refused_total',
    kind: 'counter',
    labels: ['bound'],
    help: 'Connections closed at once because too many were open, or because their address used up its budget, by the setting that limits them',
    workers: 'sum',
    values: ['max_connections', 'max_connections_per_address', 'max_overhead_per_address'],
  },
  connectionsCutOff: {
    name: 'spillgate_gateway_connections_cut_off_total',
    kind: 'counter',
    labels: ['overhead'],
    help: 'Connections cut off because their address sent too much that carries nothing (`server.max_overhead_per_address`)',
    workers: 'sum',
    values: ['smallPiece', 'controlFrame', 'cancelledRequest', 'malformedRequest', 'emptyByte'],
  },
  addressOddities: {
    name: 'spillgate_gateway_client_address_oddities_total',
    kind: 'counter',
    labels: ['oddity'],
    help: 'Requests that name their client in an unexpected way and are counted by the last trusted address',
    workers: 'sum',
    values: ['untrustedHeader', 'tooFewHops', 'junk', 'tooManyEntries'],
  },
  tunnels: {
    name: 'spillgate_gateway_tunnels',
    kind: 'gauge',
    labels: [],
    help: 'Open tunnels (WebSockets)',
    workers: 'sum',
    read: ({ traffic }) => traffic.tunnels,
  },
  tunnelsOpened: {
    name: 'spillgate_gateway_tunnels_total',
    kind: 'counter',
    labels: [],
    help: 'Tunnels opened',
    workers: 'sum',
    read: ({ traffic }) => traffic.tunnelsOpened,
  },
  upstreamUp: {
    name: 'spillgate_gateway_upstream_up',
    kind: 'gauge',
    labels: ['upstream'],
    help: 'Whether an upstream gets requests: 1, or 0 while it is unhealthy',
    workers: 'min',
    read: ({ gateway }) => ofBackends(gateway, ({ healthy }) => Number(healthy)),
  },
  upstreamInFlight: {
    name: 'spillgate_gateway_upstream_requests_in_flight',
    kind: 'gauge',
    labels: ['upstream'],
    help: 'Requests that an upstream has not answered yet',
    workers: 'sum',
    read: ({ gateway }) => ofBackends(gateway, ({ inFlight }) => inFlight),
  },
  serviceCalls: {
    name: 'spillgate_service_calls_total',
    kind: 'counter',
    labels: ['endpoint', 'status'],
    help: 'Calls of the decision service',
    workers: 'sum',
  },
  reloads: {
    name: 'spillgate_gateway_reloads_total',
    kind: 'counter',
    labels: ['result'],
    help: 'Reloads of the configuration',
    workers: 'max',
    values: ['applied', 'unchanged', 'refused'],
  },
  lastReloadSuccessful: {
    name: 'spillgate_gateway_last_reload_successful',
    kind: 'gauge',
    labels: [],
    help: 'Whether the last configuration that was read is in use: 0 after a refused reload, else 1',
    workers: 'min',
    read: ({ gateway }) => gateway && Number(gateway.lastReload()?.outcome !== 'refused'),
  },
  configGeneration: {
    name: 'spillgate_gateway_config_generation',
    kind: 'gauge',
    labels: [],
    help: 'How many configurations have taken effect; the first one counts as 1',
    workers: 'max',
    read: ({ gateway }) => gateway?.live().generation,
  },
  configLoaded: {
    name: 'spillgate_gateway_config_loaded_timestamp_seconds',
    kind: 'gauge',
    labels: [],
    help: 'When the current configuration took effect, in seconds since 1970',
    workers: 'max',
    read: ({ gateway }) => gateway && gateway.live().loadedAt.getTime() / 1000,
  },
  ready: {
    name: 'spillgate_gateway_ready',
    kind: 'gauge',
    labels: [],
    help: 'Whether the gateway takes requests: 0 while it starts or drains, else 1',
    workers: 'min',
    read: ({ gateway }) => gateway && Number(gateway.phase() === 'ready'),
  },
  droppedLogLines: {
    name: 'spillgate_gateway_dropped_log_lines_total',
    kind: 'counter',
    labels: [],
    help: 'Log lines dropped because nothing read them fast enough',
    workers: 'sum',
    read: ({ droppedLogLines }) => droppedLogLines(),
  },
  build: {
    name: 'spillgate_gateway_build_info',
    kind: 'gauge',
    labels: ['version'],
    help: 'Always 1',
    workers: 'max',
    read: ({ version }) => [{ labels: { version }, value: 1 }],
  },
  identifications: {
    name: 'spillgate_gateway_identifications_total',
    kind: 'counter',
    labels: ['kind', 'identification'],
    help: 'API keys and tokens that requests showed, by what became of them',
    workers: 'sum',
  },
  tokenKeyFetches: {
    name: 'spillgate_gateway_token_key_fetches_total',
    kind: 'counter',
    labels: ['fetch'],
    help: 'Questions to the URL of the keys that tokens are checked with',
    workers: 'sum',
  },
  ...EXTERNAL_METRICS,
} as const satisfies MetricRows;

export type MetricName = keyof typeof METRICS;

type Table = typeof METRICS;

/** Metrics of a kind that are not read but moved where something happens. */
type MovedMetric<Kind> = {
  [Name in MetricName]: Table[Name] extends { read: unknown }
    ? never
    : Table[Name]['kind'] extends Kind
      ? Name
      : never;
}[MetricName];

export type CounterName = MovedMetric<'counter'>;
export type HistogramName = MovedMetric<'histogram'>;

/** One value per label, in the order of the table. */
export type LabelValues<Name extends MetricName> = TextsFor<Table[Name]['labels']>;

type TextsFor<Labels extends readonly unknown[]> = { readonly [At in keyof Labels]: string };

/** Fresh labels each time: servers that are gone must not take the place of those that are here. */
function ofBackends(
  gateway: ObservedGateway | undefined,
  valueOf: (backend: BackendHealth) => number,
): readonly MetricReading[] {
  const upstreams = new BoundedLabels(MAX_LABELS.upstream, MAX_LABEL_LENGTH);
  return (gateway?.backends() ?? []).map((backend) => ({
    labels: { upstream: upstreams.of(backend.origin) },
    value: valueOf(backend),
  }));
}
