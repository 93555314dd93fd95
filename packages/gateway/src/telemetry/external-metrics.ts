import type { LimitsSourceSnapshot, MetricSources } from './metric.ts';
import { CALL_BUCKETS_SECONDS, type MetricRows } from './metric-labels.ts';

/** The rows of `METRICS` that tell of external limits and of the service they come from. */
export const EXTERNAL_METRICS = {
  externalLimits: {
    name: 'spillgate_gateway_external_limits_total',
    kind: 'counter',
    labels: ['step', 'reason'],
    help: 'Lookups of external limits, by the step that answered and why',
    workers: 'sum',
  },
  externalCalls: {
    name: 'spillgate_gateway_external_calls_total',
    kind: 'counter',
    labels: ['outcome'],
    help: 'Calls to the limits service, by how they ended',
    workers: 'sum',
  },
  externalCallDuration: {
    name: 'spillgate_gateway_external_call_duration_seconds',
    kind: 'histogram',
    labels: [],
    help: 'Duration of calls to the limits service',
    workers: 'sum',
    buckets: CALL_BUCKETS_SECONDS,
  },
  externalSharedCache: {
    name: 'spillgate_gateway_external_shared_cache_total',
    kind: 'counter',
    labels: ['operation', 'outcome'],
    help: 'Reads and writes of the shared cache of external limits',
    workers: 'sum',
  },
  externalBreakerChanges: {
    name: 'spillgate_gateway_external_breaker_changes_total',
    kind: 'counter',
    labels: ['scope', 'state'],
    help: 'Breakers of the limits service that opened and closed',
    workers: 'sum',
  },
  externalRefused: {
    name: 'spillgate_gateway_external_refused_total',
    kind: 'counter',
    labels: ['field'],
    help: 'Parts of answers from the limits service that were not followed',
    workers: 'sum',
  },
  externalChanges: {
    name: 'spillgate_gateway_external_changes_total',
    kind: 'counter',
    labels: ['change'],
    help: 'Changes of external limits, including delayed ones',
    workers: 'sum',
  },
  externalRefreshes: {
    name: 'spillgate_gateway_external_refreshes_total',
    kind: 'counter',
    labels: [],
    help: 'Answers of the limits service that were refreshed before they expired',
    workers: 'sum',
  },
  externalCallsInFlight: {
    name: 'spillgate_gateway_external_calls_in_flight',
    kind: 'gauge',
    labels: [],
    help: 'Calls to the limits service in flight',
    workers: 'sum',
    read: ofLimits(({ inFlight }) => inFlight),
  },
  externalCallsQueued: {
    name: 'spillgate_gateway_external_calls_queued',
    kind: 'gauge',
    labels: [],
    help: 'Calls to the limits service waiting for a slot',
    workers: 'sum',
    read: ofLimits(({ queued }) => queued),
  },
  externalCachedAnswers: {
    name: 'spillgate_gateway_external_cached_answers',
    kind: 'gauge',
    labels: [],
    help: 'Answers of the limits service cached in memory',
    workers: 'sum',
    read: ofLimits(({ entries }) => entries),
  },
  externalBreakers: {
    name: 'spillgate_gateway_external_breakers',
    kind: 'gauge',
    labels: [],
    help: 'Keys whose last call to the limits service failed',
    workers: 'sum',
    read: ofLimits(({ breakers }) => breakers),
  },
  externalOpenBreakers: {
    name: 'spillgate_gateway_external_open_breakers',
    kind: 'gauge',
    labels: [],
    help: 'Keys for which the limits service is not called because calls kept failing',
    workers: 'sum',
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

function ofLimits(valueOf: (state: LimitsSourceSnapshot) => number) {
  return ({ gateway }: MetricSources): number | undefined => {
    const state = gateway?.limitsService();
    return state === undefined ? undefined : valueOf(state);
  };
}
