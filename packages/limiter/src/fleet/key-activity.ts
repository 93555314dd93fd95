import type { Decision } from '../decision.ts';
import { KeySketch, mergeSketches, type SketchSnapshot } from './key-sketch.ts';

/** Which keys a process had to do with in the last minutes. */
export interface KeyActivitySnapshot {
  /** How long ago the counting began. */
  readonly windowMs: number;
  readonly busiest: SketchSnapshot;
  readonly denied: SketchSnapshot;
}

/** How many decisions a process has made since it started. */
export interface DecisionSums {
  readonly allowed: number;
  readonly denied: number;
  /** Those of both that the failure policy made. */
  readonly undecided: number;
}

/** Counters per sketch: a key with more than 1/256 of all decisions is surely among them. */
const CAPACITY = 256;
/** Longer keys are counted as all others, and never listed: a summary has a bound. */
const MAX_KEY_LENGTH = 512;
/** Counts begin anew so often; what is shown covers the current span and the last one. */
const SPAN_MS = 300_000;

interface CountingSpan {
  readonly startedMs: number;
  readonly busiest: KeySketch;
  readonly denied: KeySketch;
}

/** Listens to decisions, and keeps the busiest keys and those that are denied most. */
export class KeyActivity {
  private readonly nowMs: () => number;
  private current: CountingSpan;
  private last: CountingSpan | undefined;
  private allowed = 0;
  private denied = 0;
  private undecided = 0;

  /** `nowMs`: a clock that never steps back. */
  constructor(nowMs: () => number = () => performance.now()) {
    this.nowMs = nowMs;
    this.current = startSpan(nowMs());
  }

  readonly note = (decision: Decision): void => {
    if (decision.allowed) this.allowed += 1;
    else this.denied += 1;
    if (decision.degraded) this.undecided += 1;
    // Reading the clock costs more than the rest: the turn of a span may come a few decisions late.
    if (((this.allowed + this.denied) & 63) === 0) this.turn();
    const { busiest, denied } = this.current;
    for (const { policy, key, allowed } of decision.verdicts) {
      if (key.length > MAX_KEY_LENGTH) continue;
      busiest.add(policy, key);
      if (!allowed) denied.add(policy, key);
    }
  };

  sums(): DecisionSums {
    const { allowed, denied, undecided } = this;
    return { allowed, denied, undecided };
  }

  snapshot(most: number): KeyActivitySnapshot {
    this.turn();
    const spans = [this.current, ...(this.last === undefined ? [] : [this.last])];
    const startedMs = Math.min(...spans.map((span) => span.startedMs));
    return mergeActivities(
      spans.map(({ busiest, denied }) => ({
        windowMs: this.nowMs() - startedMs,
        busiest: busiest.snapshot(),
        denied: denied.snapshot(),
      })),
      most,
    );
  }

  private turn(): void {
    const nowMs = this.nowMs();
    const ageMs = nowMs - this.current.startedMs;
    if (ageMs < SPAN_MS) return;
    this.last = ageMs < 2 * SPAN_MS ? this.current : undefined;
    this.current = startSpan(nowMs);
  }
}

function startSpan(startedMs: number): CountingSpan {
  return { startedMs, busiest: new KeySketch(CAPACITY), denied: new KeySketch(CAPACITY) };
}

/** What several processes had to do with. */
export function mergeActivities(
  activities: readonly KeyActivitySnapshot[],
  most: number,
): KeyActivitySnapshot {
  return {
    windowMs: Math.max(0, ...activities.map(({ windowMs }) => windowMs)),
    busiest: mergeSketches(
      activities.map(({ busiest }) => busiest),
      most,
    ),
    denied: mergeSketches(
      activities.map(({ denied }) => denied),
      most,
    ),
  };
}
