/** Counts values by bucket. Nothing is made per value: every request passes here. */
export class HistogramTally {
  readonly bounds: readonly number[];
  /** One per bound and one above them all; not cumulated. */
  readonly counts: Float64Array;
  sum = 0;

  constructor(bounds: readonly number[]) {
    this.bounds = bounds;
    this.counts = new Float64Array(bounds.length + 1);
  }

  observe(value: number): void {
    const { bounds, counts } = this;
    let at = 0;
    while (at < bounds.length && value > (bounds[at] ?? Infinity)) at += 1;
    counts[at] = (counts[at] ?? 0) + 1;
    this.sum += value;
  }
}
