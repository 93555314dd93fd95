import type { DecisionSource } from '../decision.ts';
import { LimiterError, show, STORE_ERROR_CLASSES } from '../errors.ts';
import type { LimiterEvents } from '../events.ts';
import type { Limiter } from '../limiter.ts';
import { NAME_PATTERN } from '../policy.ts';
import type { NodeHealth } from '../stores/store.ts';
import type { Instruments, SeriesReading, Recorder } from './instruments.ts';
import { DURATION_BUCKETS_SECONDS, MAX_LABELS, METRICS, type LabelsOf } from './metric-table.ts';
import { StoreSeries } from './store-series.ts';

const DEFAULT_LIMITER_NAME = 'default';

/** Adds to the counters. */
type Counters = {
  readonly [
    Name in 'decisions' | 'penalties' | 'storeErrors' | 'nodeTransitions' | 'scriptReloads' | 'lateCharges'
  ]: Recorder<(typeof METRICS)[Name]>;
};

/** The limiters whose metrics go to one place, such as a registry. */
export class Collection {
  private readonly counters: Counters;
  private readonly time: Recorder<typeof METRICS.decisionDuration>;
  private readonly stores: StoreSeries;
  private readonly limiters = new Map<Limiter, string>();
  private readonly limiterLabels = new BoundedLabels(MAX_LABELS.limiter);
  private readonly policyLabels = new BoundedLabels(MAX_LABELS.policy);
  private readonly nodeLabels = new BoundedLabels(MAX_LABELS.node);

  constructor(instruments: Instruments) {
    this.counters = {
      decisions: instruments.counter(METRICS.decisions),
      penalties: instruments.counter(METRICS.penalties),
      storeErrors: instruments.counter(METRICS.storeErrors),
      nodeTransitions: instruments.counter(METRICS.nodeTransitions),
      scriptReloads: instruments.counter(METRICS.scriptReloads),
      lateCharges: instruments.counter(METRICS.lateCharges),
    };
    this.time = instruments.histogram(METRICS.decisionDuration, DURATION_BUCKETS_SECONDS);
    // Nobody has to act about a server that has left. Of the workers of one machine, the one that has lost a server is
    // the one to hear of.
    instruments.gauge(METRICS.nodeUp, { read: () => this.readNodes(), gone: 1, workers: 'min' });
    this.stores = new StoreSeries(instruments);
  }

  /** Counts what happens from now on; returns the function that stops. What was counted stays. */
  collect(limiter: Limiter, name: string = DEFAULT_LIMITER_NAME): () => void {
    this.requireNew(limiter, name);
    const label = this.limiterLabels.of(name);
    this.limiters.set(limiter, label);
    const stops = [
      this.recordDecisions(limiter, label),
      limiter.on('penalty', ({ policy }) =>
        this.counters.penalties({ limiter: label, policy: this.policyLabels.of(policy) }, 1),
      ),
      this.countErrors(limiter, label),
      ...this.countNodeEvents(limiter, label),
      this.stores.collect(limiter, label),
    ];
    return () => {
      for (const stop of stops) stop();
      this.limiters.delete(limiter);
    };
  }

  private recordDecisions(limiter: Limiter, label: string): () => void {
    const series = new DecisionSeries({
      count: this.counters.decisions,
      time: this.time,
      limiter: label,
      policyLabels: this.policyLabels,
    });
    return limiter.on('decision', (event) => series.record(event));
  }

  private countErrors(limiter: Limiter, label: string): () => void {
    const { storeErrors } = this.counters;
    // From zero: a rate needs the value before the first error, too.
    for (const [code, errorClass] of Object.entries(STORE_ERROR_CLASSES)) {
      storeErrors({ limiter: label, class: errorClass, code }, 0);
    }
    return limiter.on('undecided', ({ error }) => {
      storeErrors({ limiter: label, class: error.errorClass, code: error.code }, 1);
    });
  }

  private countNodeEvents(limiter: Limiter, label: string): readonly (() => void)[] {
    const { nodeTransitions, scriptReloads, lateCharges } = this.counters;
    const labelsOf = (name: string): { limiter: string; node: string } => ({
      limiter: label,
      node: this.nodeLabels.of(name),
    });
    return [
      limiter.on('nodeDown', ({ node }) => nodeTransitions({ ...labelsOf(node), to: 'down' }, 1)),
      limiter.on('nodeUp', ({ node }) => nodeTransitions({ ...labelsOf(node), to: 'up' }, 1)),
      limiter.on('nodeGone', ({ node }) => nodeTransitions({ ...labelsOf(node), to: 'gone' }, 1)),
      limiter.on('scriptReloaded', ({ node }) => scriptReloads(labelsOf(node), 1)),
      limiter.on('lateCharge', ({ refunded }) =>
        lateCharges({ limiter: label, refunded: String(refunded) }, 1),
      ),
    ];
  }

  /** The servers of all limiters. Limiters of one name share them: a server is down if it is for one of them. */
  private async readNodes(): Promise<readonly SeriesReading<typeof METRICS.nodeUp>[]> {
    const readings = new Map<string, SeriesReading<typeof METRICS.nodeUp>>();
    // Not the labels of the counters: servers that are gone must not take the place of those that are here.
    const nodeLabels = new BoundedLabels(MAX_LABELS.node);
    await Promise.all(
      [...this.limiters].map(async ([limiter, label]) => {
        for (const { name, status } of await nodesOf(limiter)) {
          const node = nodeLabels.of(name);
          const series = `${label} ${node}`;
          const isDown = status === 'down' || readings.get(series)?.value === 0;
          readings.set(series, { labels: { limiter: label, node }, value: isDown ? 0 : 1 });
        }
      }),
    );
    return [...readings.values()];
  }

  private requireNew(limiter: unknown, name: unknown): void {
    if (!isLimiter(limiter)) {
      invalid(`collectMetrics() got ${show(limiter)}; expected what createLimiter() returns.`);
    }
    if (typeof name !== 'string' || !NAME_PATTERN.test(name)) {
      invalid(
        `name is ${show(name)}; expected 1 to 64 letters, digits, '_', '-' or '.', or nothing for '${DEFAULT_LIMITER_NAME}'.`,
      );
    }
    if (this.limiters.has(limiter)) {
      invalid('This limiter is collected here already; stop that first: every decision would count twice.');
    }
  }
}

/** A closed limiter has no servers, and nothing that became of a limiter may break the metrics of the others. */
async function nodesOf(limiter: Limiter): Promise<readonly NodeHealth[]> {
  try {
    return (await limiter.health()).nodes;
  } catch {
    return [];
  }
}

function isLimiter(value: unknown): value is Limiter {
  return hasMethods(value, ['on', 'health', 'statistics']);
}

/** Whether a foreign value offers what is going to be called. */
export function hasMethods(value: unknown, names: readonly string[]): boolean {
  const isObject = (typeof value === 'object' && value !== null) || typeof value === 'function';
  return isObject && names.every((name) => typeof Reflect.get(value, name) === 'function');
}

export function invalid(message: string): never {
  throw new LimiterError('INVALID_OPTION', message);
}

interface DecisionSeriesParts {
  readonly count: Recorder<typeof METRICS.decisions>;
  readonly time: Recorder<typeof METRICS.decisionDuration>;
  readonly limiter: string;
  readonly policyLabels: BoundedLabels;
}

/** The labels of the series that one policy has from one source. Made once: every request passes here. */
interface SeriesLabels {
  readonly allowed: LabelsOf<typeof METRICS.decisions>;
  readonly denied: LabelsOf<typeof METRICS.decisions>;
  readonly duration: LabelsOf<typeof METRICS.decisionDuration>;
}

/** Counts and times the decisions of one limiter. */
class DecisionSeries {
  private readonly parts: DecisionSeriesParts;
  /** By policy label, then by source: as many as the labels allow. */
  private readonly known = new Map<string, Map<DecisionSource, SeriesLabels>>();

  constructor(parts: DecisionSeriesParts) {
    this.parts = parts;
  }

  record({ decision, tookMs }: LimiterEvents['decision']): void {
    const { count, time } = this.parts;
    const { allowed, denied, duration } = this.seriesOf(decision.policy, decision.source);
    count(decision.allowed ? allowed : denied, 1);
    time(duration, tookMs / 1000);
  }

  private seriesOf(name: string, source: DecisionSource): SeriesLabels {
    const { count, limiter, policyLabels } = this.parts;
    const policy = policyLabels.of(name);
    const bySource = this.known.get(policy) ?? new Map<DecisionSource, SeriesLabels>();
    const known = bySource.get(source);
    if (known !== undefined) return known;
    const series: SeriesLabels = {
      allowed: { limiter, policy, outcome: 'allowed', source },
      denied: { limiter, policy, outcome: 'denied', source },
      duration: { limiter, source },
    };
    this.known.set(policy, bySource.set(source, series));
    // Both from zero: a rate needs the value before the first denial, too.
    count(series.allowed, 0);
    count(series.denied, 0);
    return series;
  }
}

/** What stands for everything past the bounds. */
const OTHER_LABEL = 'other';
const MAX_LABEL_LENGTH = 128;

/**
 * The values of one label: the first `max` as they are, every later one and every long one as `other`. A program that
 * makes up names as it goes would otherwise fill the memory of the metrics backend.
 */
export class BoundedLabels {
  private readonly max: number;
  private readonly maxLength: number;
  private readonly known = new Set<string>();

  constructor(max: number, maxLength: number = MAX_LABEL_LENGTH) {
    this.max = max;
    this.maxLength = maxLength;
  }

  of(value: string): string {
    if (this.known.has(value)) return value;
    if (this.known.size >= this.max || value.length > this.maxLength) return OTHER_LABEL;
    this.known.add(value);
    return value;
  }
}
