// The plots of docs/benchmarks.md, from what the suites saved in bench/results.
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';

import { svgOf, type Plot } from './plot-svg.ts';

const RESULTS = 'bench/results';
/** Of a run whose slices other programs hardly touched. */
const QUIET_SHARE = 0.05;

interface PlotFile {
  /** Relative to the repository. */
  readonly path: string;
  readonly content: string;
}

/** One file per chart of each suite that has saved results. */
export function benchmarkPlots(root: string): readonly PlotFile[] {
  const folder = join(root, RESULTS);
  if (!existsSync(folder)) return [];
  const suites = readdirSync(folder).filter((name) => name.endsWith('.json'));
  return suites.toSorted().flatMap((name) => plotsOf(readFileSync(join(root, RESULTS, name), 'utf8')));
}

interface ResultsFile {
  readonly command: string;
  readonly date: string;
  readonly quick: boolean;
  readonly disturbance: { readonly kept: number; readonly disturbed: number } | null;
  readonly charts: readonly (Omit<Plot, 'origin'> & { readonly id: string })[];
}

export function plotsOf(text: string): readonly PlotFile[] {
  // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- bench/frame/saved-results.ts wrote it
  const results = JSON.parse(text) as ResultsFile;
  const origin = originOf(results);
  return results.charts.map((chart) => ({
    path: `docs/plots/${chart.id}.svg`,
    content: svgOf({ ...chart, origin }),
  }));
}

/** Under every plot: nobody has to look up which run it shows, and how good that was. */
function originOf({ command, date, quick, disturbance }: ResultsFile): string {
  const parts = [command, date];
  if (quick) parts.push('a quick run: a first impression');
  if (disturbance !== null) {
    const { kept, disturbed } = disturbance;
    const quiet = disturbed <= QUIET_SHARE * kept;
    parts.push(`${quiet ? 'quiet' : 'busy'} machine (${disturbed} of ${kept} slices disturbed)`);
  }
  return parts.join(', ');
}
