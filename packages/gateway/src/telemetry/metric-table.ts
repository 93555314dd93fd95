/** Every label a metric may have, and what its values are. None of them is ever a key, a path or a host that a client sent. */
export const LABELS = {
  outcome:
    '`forwarded` (the backend answered), `refused` (a rule said no), `invalid` (the request was wrong), `failed` (the backend could not answer, or a bound of the gateway was met), `aborted` (the client went away)',
  status: '`1xx` to `5xx`; `none` if the client went away before there was one',
  protocol: '`HTTP/1.0`, `HTTP/1.1`, `HTTP/2.0` or `websocket`',
  rule: 'the name of the rule that matched; empty where none did',
  reason: 'why the gateway answered itself, such as `UPSTREAM_TIMEOUT`',
  bound: '`max_connections` or `max_connections_per_address`',
  oddity:
    '`untrustedHeader` (a forwarding header of somebody who is not trusted), `tooFewHops` (fewer entries than `trusted_hops`), `junk` (an entry that is no address), `tooManyEntries` (more trusted hops than are followed)',
  result: '`applied`, `unchanged` or `refused`',
  upstream: 'a server behind the gateway, as the configuration names it',
  version: 'the version of the gateway',
} as const;

export type LabelName = keyof typeof LABELS;

export interface Metric {
  readonly name: string;
  readonly kind: 'counter' | 'gauge' | 'histogram';
  readonly labels: readonly LabelName[];
  /** One sentence without a full stop. */
  readonly help: string;
  /** What several workers have together. */
  readonly workers: 'sum' | 'min' | 'max';
}

/** The one table of the gateway's metrics: the registry and `docs/gateway-metrics.md` come from it. */
export const METRICS = {
  requests: {
    name: 'spillgate_gateway_requests_total',
    kind: 'counter',
    labels: ['outcome', 'status', 'protocol', 'rule'],
    help: 'Requests that are over, tunnels included',
    workers: 'sum',
  },
  ownAnswers: {
    name: 'spillgate_gateway_own_answers_total',
    kind: 'counter',
    labels: ['reason'],
    help: 'Requests that the gateway answered itself, by reason',
    workers: 'sum',
  },
  requestDuration: {
    name: 'spillgate_gateway_request_duration_seconds',
    kind: 'histogram',
    labels: ['outcome'],
    help: 'Time from the arrival of a request to the end of its response; tunnels are left out',
    workers: 'sum',
  },
  upstreamDuration: {
    name: 'spillgate_gateway_upstream_duration_seconds',
    kind: 'histogram',
    labels: [],
    help: 'Time until the headers of the backend',
    workers: 'sum',
  },
  receivedBytes: {
    name: 'spillgate_gateway_received_bytes_total',
    kind: 'counter',
    labels: [],
    help: 'Bytes of bodies that clients sent',
    workers: 'sum',
  },
  sentBytes: {
    name: 'spillgate_gateway_sent_bytes_total',
    kind: 'counter',
    labels: [],
    help: 'Bytes of bodies that clients got',
    workers: 'sum',
  },
  requestsInFlight: {
    name: 'spillgate_gateway_requests_in_flight',
    kind: 'gauge',
    labels: [],
    help: 'Requests that have arrived and are not over',
    workers: 'sum',
  },
  connections: {
    name: 'spillgate_gateway_connections',
    kind: 'gauge',
    labels: [],
    help: 'Open connections of clients',
    workers: 'sum',
  },
  connectionsOpened: {
    name: 'spillgate_gateway_connections_total',
    kind: 'counter',
    labels: [],
    help: 'Connections that clients opened',
    workers: 'sum',
  },
  connectionsRefused: {
    name: 'spillgate_gateway_connections_refused_total',
    kind: 'counter',
    labels: ['bound'],
    help: 'Connections that were closed at once because too many were open, by the setting that says so',
    workers: 'sum',
  },
  addressOddities: {
    name: 'spillgate_gateway_client_address_oddities_total',
    kind: 'counter',
    labels: ['oddity'],
    help: 'Requests that name their client in an odd way, so that they are counted by the last address that is trusted',
    workers: 'sum',
  },
  tunnels: {
    name: 'spillgate_gateway_tunnels',
    kind: 'gauge',
    labels: [],
    help: 'Open tunnels (WebSockets)',
    workers: 'sum',
  },
  tunnelsOpened: {
    name: 'spillgate_gateway_tunnels_total',
    kind: 'counter',
    labels: [],
    help: 'Tunnels that were opened',
    workers: 'sum',
  },
  upstreamUp: {
    name: 'spillgate_gateway_upstream_up',
    kind: 'gauge',
    labels: ['upstream'],
    help: 'Whether a server behind the gateway gets requests: 1, or 0 while it is unhealthy',
    workers: 'min',
  },
  upstreamInFlight: {
    name: 'spillgate_gateway_upstream_requests_in_flight',
    kind: 'gauge',
    labels: ['upstream'],
    help: 'Requests that a server behind the gateway has not answered yet',
    workers: 'sum',
  },
  reloads: {
    name: 'spillgate_gateway_reloads_total',
    kind: 'counter',
    labels: ['result'],
    help: 'Configurations that were read again',
    workers: 'max',
  },
  lastReloadSuccessful: {
    name: 'spillgate_gateway_last_reload_successful',
    kind: 'gauge',
    labels: [],
    help: 'Whether the configuration that was read last is in use: 0 after one was refused, else 1',
    workers: 'min',
  },
  configGeneration: {
    name: 'spillgate_gateway_config_generation',
    kind: 'gauge',
    labels: [],
    help: 'How many configurations were taken into use; 1 is the one of the start',
    workers: 'max',
  },
  configLoaded: {
    name: 'spillgate_gateway_config_loaded_timestamp_seconds',
    kind: 'gauge',
    labels: [],
    help: 'When the configuration in use was taken into use, in seconds since 1970',
    workers: 'max',
  },
  ready: {
    name: 'spillgate_gateway_ready',
    kind: 'gauge',
    labels: [],
    help: 'Whether the gateway takes requests: 0 while it starts or drains, else 1',
    workers: 'min',
  },
  droppedLogLines: {
    name: 'spillgate_gateway_dropped_log_lines_total',
    kind: 'counter',
    labels: [],
    help: 'Lines of the log that were lost because nobody took them',
    workers: 'sum',
  },
  build: {
    name: 'spillgate_gateway_build_info',
    kind: 'gauge',
    labels: ['version'],
    help: 'Always 1',
    workers: 'max',
  },
} as const satisfies Readonly<Record<string, Metric>>;

export type MetricName = keyof typeof METRICS;

/** The most values of labels that a configuration can bring; what comes later is `other`. */
export const MAX_LABELS = { rule: 200, reason: 50, upstream: 256 } as const;

/** Upper bounds in seconds. */
export const DURATION_BUCKETS_SECONDS: readonly number[] = [
  0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30,
];
