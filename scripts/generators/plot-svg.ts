// Bars with their names and values, readable on light and dark pages, and by programs that read aloud.

export interface Bar {
  readonly name: string;
  readonly value: number;
  readonly ours?: boolean;
  readonly note?: string;
}

export interface Plot {
  readonly title: string;
  readonly unit: string;
  readonly bars: readonly Bar[];
  readonly note?: string;
  /** Which run it shows. */
  readonly origin: string;
}

const WIDTH = 760;
const NAME_WIDTH = 330;
const BAR_WIDTH = 230;
const ROW_HEIGHT = 26;
const TOP = 38;
const LINE_HEIGHT = 17;
const MARGIN = 10;

/** A picture knows which colours its reader prefers, but not those of the page: so it brings its own ground. */
const STYLE = `
    .ground { fill: #ffffff } .text { fill: #1e293b } .faint { fill: #56637a } .bar { fill: #94a3b8 } .ours { fill: #2563eb }
    @media (prefers-color-scheme: dark) {
      .ground { fill: #0f172a } .text { fill: #e2e8f0 } .faint { fill: #a3b0c2 } .bar { fill: #64748b } .ours { fill: #60a5fa }
    }
  `;

export function svgOf(plot: Plot): string {
  const { title, bars, note } = plot;
  const rows = bars.flatMap((bar, at) => rowOf(plot, bar, TOP + at * ROW_HEIGHT));
  const lines = [...(note === undefined ? [] : [note]), plot.origin];
  const linesTop = TOP + bars.length * ROW_HEIGHT + LINE_HEIGHT;
  const height = linesTop + (lines.length - 1) * LINE_HEIGHT + MARGIN;
  return [
    `<svg xmlns="http://www.w3.org/2000/svg" width="${WIDTH}" height="${height}" viewBox="0 0 ${WIDTH} ${height}" font-family="system-ui, sans-serif" font-size="12" role="img" aria-labelledby="title description">`,
    `  <title id="title">${escaped(title)}</title>`,
    `  <desc id="description">${escaped(descriptionOf(plot))}</desc>`,
    `  <style>${STYLE}</style>`,
    `  <rect class="ground" width="${WIDTH}" height="${height}" rx="6"/>`,
    `  <text class="text" x="${MARGIN}" y="22" font-size="14" font-weight="bold">${escaped(title)}</text>`,
    ...rows,
    ...lines.map(
      (line, at) =>
        `  <text class="faint" x="${MARGIN}" y="${linesTop + at * LINE_HEIGHT}" font-size="11">${escaped(line)}</text>`,
    ),
    '</svg>',
    '',
  ].join('\n');
}

function rowOf({ bars, unit }: Plot, bar: Bar, y: number): readonly string[] {
  const most = Math.max(...bars.map(({ value }) => value));
  // What is nearly nothing stays visible.
  const length = Math.max(1, Math.round((bar.value / most) * BAR_WIDTH));
  const kind = bar.ours === true ? 'ours' : 'bar';
  return [
    `  <text class="text" x="${NAME_WIDTH - 8}" y="${y + 15}" text-anchor="end">${escaped(bar.name)}</text>`,
    `  <rect class="${kind}" x="${NAME_WIDTH}" y="${y + 2}" width="${length}" height="18"/>`,
    `  <text class="text" x="${NAME_WIDTH + length + 6}" y="${y + 15}">${escaped(labelOf(bar, unit))}</text>`,
  ];
}

/** The same as the picture, in words. */
function descriptionOf({ bars, unit, note, origin }: Plot): string {
  const values = bars.map((bar) => `${bar.name}: ${labelOf(bar, unit)}`).join('; ');
  return [`${values}.`, ...(note === undefined ? [] : [`${note}.`]), `${origin}.`].join(' ');
}

function labelOf({ value, note }: Bar, unit: string): string {
  return `${value.toLocaleString('en-US', { maximumFractionDigits: 6 })}${unit === '' ? '' : ` ${unit}`}${note === undefined ? '' : ` (${note})`}`;
}

function escaped(text: string): string {
  return text
    .replaceAll('&', '&amp;')
    .replaceAll('<', '&lt;')
    .replaceAll('>', '&gt;')
    .replaceAll('"', '&quot;');
}
