import { z } from 'zod';
import type { MetricSeries } from '../../telemetry/metric.ts';
import { METRICS } from '../../telemetry/metric-table.ts';
import type { GatewayControl } from '../control.ts';
import { backend, node } from '../schemas.ts';

const counter = () => z.number().min(0);

const requests = z.strictObject({
  allowed: counter().meta({
    description: 'The backend answered, or the gateway itself, as it is configured to.',
  }),
  denied: counter().meta({ description: 'A rule said no.' }),
  failed: counter().meta({ description: 'The backend did not answer, or a bound of the gateway was met.' }),
  invalid: counter().meta({ description: 'The request itself was wrong.' }),
  aborted: counter().meta({ description: 'The client went away.' }),
  shadowDenied: counter().meta({
    description: 'Of the others: those that passed only thanks to shadow mode.',
  }),
});

const histogram = z.strictObject({
  bounds: z.array(z.number()).meta({ description: 'Upper bounds in seconds; one more count is above them.' }),
  counts: z.array(z.number()),
});

/** Numbers since the start of the gateway: whoever wants a rate compares two samples. */
export const liveSample = z.strictObject({
  at: z.number().meta({ description: 'Milliseconds since 1970.' }),
  startedAt: z.number(),
  version: z.string(),
  phase: z.enum(['starting', 'ready', 'draining']),
  generation: z.int(),
  requests,
  rules: z.array(requests.extend({ rule: z.string() })),
  policies: z.array(z.strictObject({ policy: z.string(), allowed: counter(), denied: counter() })),
  latency: histogram.meta({ description: 'Whole requests.' }),
  decisionLatency: histogram.meta({ description: 'Decisions alone.' }),
  decisions: counter(),
  degraded: counter().meta({ description: 'Decisions that the store did not make, though it should have.' }),
  storeCalls: counter(),
  leases: z.strictObject({ granted: counter(), returned: counter(), expired: counter(), held: counter() }),
  store: z.strictObject({ status: node.shape.status, nodes: z.array(node) }),
  backends: z.array(backend),
  inFlight: counter(),
  connections: counter(),
  tunnels: counter(),
});

export type LiveSample = z.infer<typeof liveSample>;
type Requests = z.infer<typeof requests>;
type Histogram = z.infer<typeof histogram>;

/** Of the library, whose table of metrics is its own. */
const LIBRARY = {
  decisions: 'spillgate_decisions_total',
  decisionDuration: 'spillgate_decision_duration_seconds',
  storeCalls: 'spillgate_store_calls_total',
  leaseTokens: 'spillgate_lease_tokens_total',
  leasedTokens: 'spillgate_leased_tokens',
} as const;

const READ: readonly string[] = [
  METRICS.requests.name,
  METRICS.shadowDenials.name,
  METRICS.requestDuration.name,
  METRICS.requestsInFlight.name,
  METRICS.connections.name,
  METRICS.tunnels.name,
  ...Object.values(LIBRARY),
];

interface SampledGateway {
  readonly control: GatewayControl;
  readonly metrics: { readonly read: (names: readonly string[]) => Promise<readonly MetricSeries[]> };
  readonly version: string;
}

/** Reads the metrics that a page shows; with several workers, their sum. */
export function liveSampler({ control, metrics, version }: SampledGateway): () => Promise<LiveSample> {
  return async () => {
    const [series, store] = await Promise.all([metrics.read(READ), control.limiter().health()]);
    const found = new SeriesByName(series);
    const rules = requestsByRule(found);
    const decisions = found.of(LIBRARY.decisions);
    return {
      // The wall clock: it is shown, and compared with that of the page.
      at: Date.now(),
      startedAt: control.startedAt.getTime(),
      version,
      phase: control.phase(),
      generation: control.live().generation,
      requests: totalOf([...rules.values()]),
      rules: [...rules].map(([rule, counts]) => ({ rule, ...counts })),
      policies: decisionsByPolicy(decisions),
      latency: histogramOf(found.of(METRICS.requestDuration.name)),
      decisionLatency: histogramOf(found.of(LIBRARY.decisionDuration)),
      decisions: sumOf(decisions),
      degraded: sumOf(decisions.filter(({ labels }) => DEGRADED.has(labels['source']))),
      storeCalls: sumOf(found.of(LIBRARY.storeCalls)),
      leases: leasesOf(found),
      store: { status: store.status, nodes: [...store.nodes] },
      backends: [...control.backends()],
      inFlight: sumOf(found.of(METRICS.requestsInFlight.name)),
      connections: sumOf(found.of(METRICS.connections.name)),
      tunnels: sumOf(found.of(METRICS.tunnels.name)),
    };
  };
}

const DEGRADED: ReadonlySet<unknown> = new Set(['fallback', 'failurePolicy']);

type Series = MetricSeries['values'];

class SeriesByName {
  private readonly byName: ReadonlyMap<string, Series>;

  constructor(metrics: readonly MetricSeries[]) {
    this.byName = new Map(metrics.map(({ name, values }) => [name, values]));
  }

  of(name: string): Series {
    return this.byName.get(name) ?? [];
  }
}

const FIELD_OF: ReadonlyMap<string, keyof Requests> = new Map([
  ['forwarded', 'allowed'],
  ['answered', 'allowed'],
  ['refused', 'denied'],
  ['failed', 'failed'],
  ['invalid', 'invalid'],
  ['aborted', 'aborted'],
]);

function requestsByRule(found: SeriesByName): ReadonlyMap<string, Requests> {
  const rules = new Map<string, Requests>();
  const add = (rule: string, field: keyof Requests | undefined, value: number): void => {
    if (field === undefined) return;
    const counts = rules.get(rule) ?? noRequests();
    counts[field] += value;
    rules.set(rule, counts);
  };
  for (const { labels, value } of found.of(METRICS.requests.name)) {
    add(String(labels['rule']), FIELD_OF.get(String(labels['outcome'])), value);
  }
  for (const { labels, value } of found.of(METRICS.shadowDenials.name)) {
    add(String(labels['rule']), 'shadowDenied', value);
  }
  return rules;
}

function noRequests(): Requests {
  return { allowed: 0, denied: 0, failed: 0, invalid: 0, aborted: 0, shadowDenied: 0 };
}

function totalOf(all: readonly Requests[]): Requests {
  return all.reduce(
    (sum, each) => ({
      allowed: sum.allowed + each.allowed,
      denied: sum.denied + each.denied,
      failed: sum.failed + each.failed,
      invalid: sum.invalid + each.invalid,
      aborted: sum.aborted + each.aborted,
      shadowDenied: sum.shadowDenied + each.shadowDenied,
    }),
    noRequests(),
  );
}

function decisionsByPolicy(decisions: Series): LiveSample['policies'] {
  const byPolicy = new Map<string, LiveSample['policies'][number]>();
  for (const { labels, value } of decisions) {
    const policy = String(labels['policy']);
    const counts = byPolicy.get(policy) ?? { policy, allowed: 0, denied: 0 };
    counts[labels['outcome'] === 'denied' ? 'denied' : 'allowed'] += value;
    byPolicy.set(policy, counts);
  }
  return [...byPolicy.values()];
}

function leasesOf(found: SeriesByName): LiveSample['leases'] {
  const tokens = found.of(LIBRARY.leaseTokens);
  const ofFate = (fate: string): number => sumOf(tokens.filter(({ labels }) => labels['fate'] === fate));
  return {
    granted: ofFate('granted'),
    returned: ofFate('returned'),
    expired: ofFate('expired'),
    held: sumOf(found.of(LIBRARY.leasedTokens)),
  };
}

function sumOf(series: Series): number {
  return series.reduce((sum, { value }) => sum + value, 0);
}

/** Prometheus cumulates buckets, each with its own labels; here they are counted apart, and all labels together. */
function histogramOf(series: Series): Histogram {
  const upTo = new Map<number, number>();
  for (const { labels, metricName = '', value } of series) {
    const { le } = labels;
    if (le === undefined || !metricName.endsWith('_bucket')) continue;
    const bound = le === '+Inf' ? Infinity : Number(le);
    upTo.set(bound, (upTo.get(bound) ?? 0) + value);
  }
  const all = [...upTo].toSorted(([one], [other]) => one - other);
  return {
    bounds: all.map(([bound]) => bound).filter((bound) => bound !== Infinity),
    counts: all.map(([, count], at) => count - (all[at - 1]?.[1] ?? 0)),
  };
}
