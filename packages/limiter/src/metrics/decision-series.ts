import type { DecisionSource } from '../decision.ts';
import type { LimiterEvents } from '../events.ts';
import type { BoundedLabels } from './bounded-labels.ts';
import type { Recorder } from './instruments.ts';
import type { LabelsOf, METRICS } from './metric-table.ts';

export interface DecisionSeriesParts {
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
export class DecisionSeries {
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
