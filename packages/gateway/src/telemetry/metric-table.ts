import { BoundedLabels } from 'spillgate/internal';
import {
  type BackendHealth,
  type MetricReading,
  type ObservedGateway,
  MAX_LABEL_LENGTH,
  MAX_LABELS,
  type MetricRows,
  type LimitsSourceSnapshot,
  type MetricSources,
  CALL_BUCKETS_SECONDS,
} from './metric.ts';

/** The one table of the gateway's metrics: the registry and `docs/gateway-metrics.md` come from it. */
export const METRICS = {
  requests: {
    name: 'spillgate_gateway_requests_total',
    kind: 'counter',
    labels: ['outcome', 'status', 'protocol', 'rule'],
    help: 'Finished requests, including tunnels',
    read: ({ traffic }) => traffic.requests.map(({ labels, count }) => ({ labels, value: count })),
  },
  ownAnswers: {
    name: 'spillgate_gateway_own_answers_total',
    kind: 'counter',
    labels: ['reason'],
    help: 'Requests that the gateway answered itself, by reason',
    read: ({ traffic }) => [...traffic.ownAnswers].map(([reason, value]) => ({ labels: { reason }, value })),
  },
  shadowDenials: {
    name: 'spillgate_gateway_shadow_denials_total',
    kind: 'counter',
    labels: ['rule'],
    help: 'Requests that passed only because the rule or the policy against them is in shadow mode',
    read: ({ traffic }) => [...traffic.shadowDenials].map(([rule, value]) => ({ labels: { rule }, value })),
  },
  chargedCost: {
    name: 'spillgate_gateway_charged_cost_total',
    kind: 'counter',
    labels: ['rule', 'measured'],
    help: 'Cost of finished requests, as it was charged; of language models these are tokens. Requests that cost 1 are not in here',
    read: ({ traffic }) => traffic.chargedCosts,
  },
  settlements: {
    name: 'spillgate_gateway_settlements_total',
    kind: 'counter',
    labels: ['settlement'],
    help: 'Costs that were corrected when a request had ended, by how that went',
    values: ['settled', 'unchanged', 'expired', 'failed'],
  },
  requestDuration: {
    name: 'spillgate_gateway_request_duration_seconds',
    kind: 'histogram',
    labels: ['outcome'],
    help: 'Time from the arrival of a request to the end of its response, without tunnels',
    read: ({ traffic }) => [...traffic.durations].map(([outcome, tally]) => ({ labels: { outcome }, tally })),
  },
  upstreamDuration: {
    name: 'spillgate_gateway_upstream_duration_seconds',
    kind: 'histogram',
    labels: [],
    help: 'Time until the backend sent its response headers',
    read: ({ traffic }) => [{ labels: {}, tally: traffic.upstreamDurations }],
  },
  receivedBytes: {
    name: 'spillgate_gateway_received_bytes_total',
    kind: 'counter',
    labels: [],
    help: 'Body bytes received from clients',
    read: ({ traffic }) => traffic.receivedBytes,
  },
  sentBytes: {
    name: 'spillgate_gateway_sent_bytes_total',
    kind: 'counter',
    labels: [],
    help: 'Body bytes sent to clients',
    read: ({ traffic }) => traffic.sentBytes,
  },
  requestsInFlight: {
    name: 'spillgate_gateway_requests_in_flight',
    kind: 'gauge',
    labels: [],
    help: 'Requests in flight',
    read: ({ traffic }) => traffic.inFlight,
  },
  connections: {
    name: 'spillgate_gateway_connections',
    kind: 'gauge',
    labels: [],
    help: 'Open client connections',
    read: ({ traffic }) => traffic.connections,
  },
  connectionsOpened: {
    name: 'spillgate_gateway_connections_total',
    kind: 'counter',
    labels: [],
    help: 'Client connections accepted',
    read: ({ traffic }) => traffic.connectionsOpened,
  },
  usageEvents: {
    name: 'spillgate_gateway_usage_events_total',
    kind: 'counter',
    labels: ['event'],
    help: 'Usage events, by what became of them',
    values: ['sent', 'repeated', 'rejected', 'dropped'],
  },
  connectionsRefused: {
    name: 'spillgate_gateway_connections_refused_total',
    kind: 'counter',
    labels: ['bound'],
    help: 'Connections closed at once because too many were open, or because their address used up its budget, by the setting that limits them',
    values: ['max_connections', 'max_connections_per_address', 'max_overhead_per_address'],
  },
  connectionsCutOff: {
    name: 'spillgate_gateway_connections_cut_off_total',
    kind: 'counter',
    labels: ['overhead'],
    help: 'Connections cut off because their address sent too much that carries nothing (`server.max_overhead_per_address`)',
    values: ['smallPiece', 'controlFrame', 'cancelledRequest', 'malformedRequest', 'emptyByte'],
  },
  addressOddities: {
    name: 'spillgate_gateway_client_address_oddities_total',
    kind: 'counter',
    labels: ['oddity'],
    help: 'Requests that name their client in an unexpected way and are counted by the last trusted address',
    values: ['untrustedHeader', 'tooFewHops', 'junk', 'tooManyEntries'],
  },
  tunnels: {
    name: 'spillgate_gateway_tunnels',
    kind: 'gauge',
    labels: [],
    help: 'Open tunnels (WebSockets)',
    read: ({ traffic }) => traffic.tunnels,
  },
  tunnelsOpened: {
    name: 'spillgate_gateway_tunnels_total',
    kind: 'counter',
    labels: [],
    help: 'Tunnels opened',
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
    read: ({ gateway }) => ofBackends(gateway, ({ inFlight }) => inFlight),
  },
  serviceCalls: {
    name: 'spillgate_service_calls_total',
    kind: 'counter',
    labels: ['endpoint', 'status'],
    help: 'Calls of the decision service',
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
  },
  tokenKeyFetches: {
    name: 'spillgate_gateway_token_key_fetches_total',
    kind: 'counter',
    labels: ['fetch'],
    help: 'Questions to the URL of the keys that tokens are checked with',
  },
  externalLimits: {
    name: 'spillgate_gateway_external_limits_total',
    kind: 'counter',
    labels: ['step', 'reason'],
    help: 'Lookups of external limits, by the step that answered and why',
  },
  externalCalls: {
    name: 'spillgate_gateway_external_calls_total',
    kind: 'counter',
    labels: ['outcome'],
    help: 'Calls to the limits service, by how they ended',
  },
  externalCallDuration: {
    name: 'spillgate_gateway_external_call_duration_seconds',
    kind: 'histogram',
    labels: [],
    help: 'Duration of calls to the limits service',
    buckets: CALL_BUCKETS_SECONDS,
  },
  externalSharedCache: {
    name: 'spillgate_gateway_external_shared_cache_total',
    kind: 'counter',
    labels: ['operation', 'outcome'],
    help: 'Reads and writes of the shared cache of external limits',
  },
  externalBreakerChanges: {
    name: 'spillgate_gateway_external_breaker_changes_total',
    kind: 'counter',
    labels: ['scope', 'state'],
    help: 'Breakers of the limits service that opened and closed',
  },
  externalRefused: {
    name: 'spillgate_gateway_external_refused_total',
    kind: 'counter',
    labels: ['field'],
    help: 'Parts of answers from the limits service that were not followed',
  },
  externalChanges: {
    name: 'spillgate_gateway_external_changes_total',
    kind: 'counter',
    labels: ['change'],
    help: 'Changes of external limits, including delayed ones',
  },
  externalRefreshes: {
    name: 'spillgate_gateway_external_refreshes_total',
    kind: 'counter',
    labels: [],
    help: 'Answers of the limits service that were refreshed before they expired',
  },
  externalCallsInFlight: {
    name: 'spillgate_gateway_external_calls_in_flight',
    kind: 'gauge',
    labels: [],
    help: 'Calls to the limits service in flight',
    read: ofLimits(({ inFlight }) => inFlight),
  },
  externalCallsQueued: {
    name: 'spillgate_gateway_external_calls_queued',
    kind: 'gauge',
    labels: [],
    help: 'Calls to the limits service waiting for a slot',
    read: ofLimits(({ queued }) => queued),
  },
  externalCachedAnswers: {
    name: 'spillgate_gateway_external_cached_answers',
    kind: 'gauge',
    labels: [],
    help: 'Answers of the limits service cached in memory',
    read: ofLimits(({ entries }) => entries),
  },
  externalBreakers: {
    name: 'spillgate_gateway_external_breakers',
    kind: 'gauge',
    labels: [],
    help: 'Keys whose last call to the limits service failed',
    read: ofLimits(({ breakers }) => breakers),
  },
  externalOpenBreakers: {
    name: 'spillgate_gateway_external_open_breakers',
    kind: 'gauge',
    labels: [],
    help: 'Keys for which the limits service is not called because calls kept failing',
    read: ofLimits(({ openBreakers }) => openBreakers),
  },
  externalServiceSuspended: {
    name: 'spillgate_gateway_external_service_suspended',
    kind: 'gauge',
    labels: [],
    help: 'Whether the breaker of the limits service as a whole is open: 1, else 0',
    workers: 'max',
    read: ofLimits(({ globalBreaker }) => Number(globalBreaker !== 'closed')),
  },
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

function ofLimits(valueOf: (state: LimitsSourceSnapshot) => number) {
  return ({ gateway }: MetricSources): number | undefined => {
    const state = gateway?.limitsService();
    return state === undefined ? undefined : valueOf(state);
  };
}
