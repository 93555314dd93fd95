import { Counter, Gauge, Histogram, type Registry } from 'prom-client';
import type { LimitsSourceObserver, LimitsSourceSnapshot, ObservedLimitsSource } from './limits-source.ts';

export interface LimitsMetrics {
  readonly observer: LimitsSourceObserver;
  /** From now on the gauges show this source: the one of the configuration in use. */
  readonly watch: (source: ObservedLimitsSource) => void;
}

const PREFIX = 'spillgate_gateway_external_';
const CALL_SECONDS = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10];

/** Counts what is kept as plain numbers while requests run, and becomes metrics when somebody reads them. */
class Tally<Label extends string> {
  private readonly counts = new Map<string, { readonly labels: Record<Label, string>; count: number }>();

  constructor(
    registry: Registry,
    metric: { readonly name: string; readonly help: string; readonly labels: readonly Label[] },
  ) {
    const { counts } = this;
    const counter: Counter<Label> = new Counter({
      name: PREFIX + metric.name,
      help: metric.help,
      labelNames: metric.labels,
      registers: [registry],
      collect() {
        counter.reset();
        for (const { labels, count } of counts.values()) counter.inc(labels, count);
      },
    });
  }

  /** The id is that of the labels: few, and known at compile time. */
  add(id: string, labels: () => Record<Label, string>): void {
    const known = this.counts.get(id);
    if (known === undefined) this.counts.set(id, { labels: labels(), count: 1 });
    else known.count += 1;
  }
}

/**
 * Metrics of external limits: where limits came from and why, calls to the service, caches and breakers.
 *
 * @example
 * const metrics = collectLimitsMetrics(registry);
 * const source = createLimitsSource({ config, log, observer: metrics.observer });
 * metrics.watch(source);
 */
export function collectLimitsMetrics(registry: Registry): LimitsMetrics {
  const tally = <Label extends string>(name: string, help: string, labels: readonly Label[]) =>
    new Tally(registry, { name, help, labels });
  const limits = tally('limits_total', 'Questions for limits, by the step that answered and why.', [
    'step',
    'reason',
  ]);
  const calls = tally('calls_total', 'Calls to the service, by how they ended.', ['outcome']);
  const cache = tally('shared_cache_total', 'Looks into the shared cache.', ['operation', 'outcome']);
  const breakers = tally('breaker_changes_total', 'Breakers that opened and closed.', ['scope', 'state']);
  const refused = tally('refused_total', 'Parts of answers that are not followed.', ['field']);
  const changes = tally('changes_total', 'Limits that changed, or had to wait for it.', ['change']);
  const refreshes = tally('refreshes_total', 'Answers that were asked for again before they ran out.', []);
  const duration = new Histogram({
    name: `${PREFIX}call_duration_seconds`,
    help: 'How long calls to the service took.',
    buckets: CALL_SECONDS,
    registers: [registry],
  });
  return {
    watch: gauges(registry),
    observer: {
      // Runs with every request.
      resolved: (step, reason) => limits.add(`${step}/${reason}`, () => ({ step, reason })),
      asked: (outcome, durationMs) => {
        calls.add(outcome, () => ({ outcome }));
        duration.observe(durationMs / 1000);
      },
      sharedCache: (operation, outcome) =>
        cache.add(`${operation}/${outcome}`, () => ({ operation, outcome })),
      breaker: (scope, state) => breakers.add(`${scope}/${state}`, () => ({ scope, state })),
      refused: (field) => refused.add(field, () => ({ field })),
      changed: (change) => changes.add(change, () => ({ change })),
      refreshed: () => refreshes.add('', () => ({})),
    },
  };
}

const GAUGES: readonly (readonly [
  name: string,
  help: string,
  read: (now: LimitsSourceSnapshot) => number,
])[] = [
  ['calls_in_flight', 'Calls to the service under way.', ({ inFlight }) => inFlight],
  ['calls_queued', 'Calls that wait for a slot.', ({ queued }) => queued],
  ['cached_answers', 'Answers in the memory of this process.', ({ entries }) => entries],
  ['breakers', 'Keys that failed since they last succeeded.', ({ breakers }) => breakers],
  ['open_breakers', 'Keys that are not asked for.', ({ openBreakers }) => openBreakers],
  [
    'service_suspended',
    '1 while the breaker of the service as a whole is open.',
    ({ globalBreaker }) => (globalBreaker === 'closed' ? 0 : 1),
  ],
];

function gauges(registry: Registry): LimitsMetrics['watch'] {
  let watched: ObservedLimitsSource | undefined;
  for (const [name, help, read] of GAUGES) {
    const gauge: Gauge = new Gauge({
      name: PREFIX + name,
      help,
      registers: [registry],
      collect() {
        if (watched !== undefined) gauge.set(read(watched.snapshot()));
      },
    });
  }
  return (source) => {
    watched = source;
  };
}
