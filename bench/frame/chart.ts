/**
 * What one plot of docs/plots shows: figures of a report, as numbers. `npm run generate` draws it from the saved
 * results; the name of its file is the id.
 */
export interface Chart {
  readonly id: string;
  readonly title: string;
  readonly unit: string;
  readonly bars: readonly ChartBar[];
  /** What a reader has to know to read it, in one short line. */
  readonly note?: string;
}

export interface ChartBar {
  readonly name: string;
  readonly value: number;
  readonly ours?: boolean;
  /** Stands behind the value. */
  readonly note?: string;
}

/** Only bars that were measured: what could not be installed has no figure. */
export function chartOf(chart: Chart): Chart {
  const bars = chart.bars
    .filter(({ value }) => Number.isFinite(value))
    .map((bar) => ({ ...bar, value: chartValue(bar.value) }));
  return { ...chart, bars };
}

/** Three digits are more than two runs have in common. */
function chartValue(value: number): number {
  return Number(value.toPrecision(3));
}
