import type { GatewayMetric } from './metric.ts';

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
