import type { VNode } from 'preact';
import { useEffect, useRef } from 'preact/hooks';
import UPlot from 'uplot';
import { useObservable } from '../observable.ts';
import { theme } from '../theme.ts';

export interface ChartSeries {
  readonly label: string;
  /** A custom property of the theme, such as `--allowed`. */
  readonly colour: string;
  readonly values: readonly (number | null)[];
  readonly fill?: boolean;
}

interface TimeChartProps {
  /** What it shows, for those who do not see it. */
  readonly label: string;
  /** Milliseconds since 1970. */
  readonly times: readonly number[];
  readonly series: readonly ChartSeries[];
  readonly height: number;
  readonly format: (value: number) => string;
}

/** As long as there is little to show, it is not spread over the whole width. */
const SHORTEST_WINDOW_S = 60;

/** Lines over the last five minutes. */
export function TimeChart({ label, times, series, height, format }: TimeChartProps): VNode {
  const place = useRef<HTMLDivElement>(null);
  const plot = useRef<UPlot>(undefined);
  const shown = useObservable(theme);
  const seconds = times.map((at) => at / 1000);
  const rows: UPlot.AlignedData = [seconds, ...series.map(({ values }) => [...values])];

  useEffect(() => {
    const parent = place.current;
    if (parent === null) return undefined;
    const made = new UPlot(optionsOf({ width: parent.clientWidth, height, series, format }), rows, parent);
    plot.current = made;
    const sizes = new ResizeObserver(() => made.setSize({ width: parent.clientWidth, height }));
    sizes.observe(parent);
    return () => {
      sizes.disconnect();
      made.destroy();
    };
    // The rest is handed over below, without building it all again.
  }, [shown, height]);

  useEffect(() => plot.current?.setData(rows));

  return <div class="chart" role="img" aria-label={label} ref={place} />;
}

type Drawn = Pick<TimeChartProps, 'height' | 'series' | 'format'> & { readonly width: number };

function optionsOf({ width, height, series, format }: Drawn): UPlot.Options {
  const style = getComputedStyle(document.documentElement);
  const colour = (name: string): string => style.getPropertyValue(name).trim();
  const axis = {
    stroke: colour('--muted'),
    font: `12px ${colour('--font')}`,
    grid: { stroke: colour('--grid'), width: 1 },
    ticks: { show: false },
  };
  return {
    width,
    height,
    cursor: { y: false, drag: { x: false, y: false }, points: { size: 6 } },
    legend: { show: false },
    padding: [10, 12, 0, 0],
    scales: {
      x: { range: (_, min, max) => [Math.min(min, max - SHORTEST_WINDOW_S), max] },
      y: { range: (_, __, max) => [0, Math.max(1e-9, max * 1.12) || 1] },
    },
    axes: [
      { ...axis, grid: { show: false }, size: 28, space: 80, values: (_, ticks) => ticks.map(clock) },
      { ...axis, size: 52, space: 34, values: (_, ticks) => ticks.map((value) => format(value)) },
    ],
    series: [
      {},
      ...series.map((each) => ({
        label: each.label,
        stroke: colour(each.colour),
        width: 1.75,
        points: { show: false },
        ...(each.fill === true ? { fill: `${colour(each.colour)}1c` } : {}),
      })),
    ],
  };
}

const CLOCK = new Intl.DateTimeFormat('en-GB', { hour: '2-digit', minute: '2-digit', second: '2-digit' });

function clock(seconds: number): string {
  return CLOCK.format(seconds * 1000);
}
