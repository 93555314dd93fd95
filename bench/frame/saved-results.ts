// bench/results: what the last run of a suite measured, for the plots of docs/benchmarks.md and for readers.

import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';

import { chartOf, type Chart } from './chart.ts';
import { renderReport } from './report.ts';
import type { Disturbance, Report } from './suite.ts';

const FOLDER = fileURLToPath(new URL('../../results', import.meta.url));

/** Where the figures come from, without which they mean nothing. */
export interface Origin {
  readonly suite: string;
  readonly command: string;
  readonly date: string;
  readonly machine: string;
  readonly quick: boolean;
}

export interface SavedResults extends Origin {
  readonly disturbance: Disturbance | null;
  readonly charts: readonly Chart[];
}

/** The files of one run, by name. */
export function filesOf(origin: Origin, report: Report): ReadonlyMap<string, string> {
  const saved: SavedResults = {
    ...origin,
    disturbance: report.disturbance ?? null,
    // Nothing of a chart may have been there to be measured.
    charts: (report.charts ?? []).map(chartOf).filter(({ bars }) => bars.length > 0),
  };
  const first = `The last saved run of \`${origin.command}\`, ${origin.date}${origin.quick ? ', a first impression and no result' : ''}.`;
  return new Map([
    [`${origin.suite}.json`, `${JSON.stringify(saved, undefined, 2)}\n`],
    [`${origin.suite}.md`, `${first}\n\n${renderReport(report, 'markdown')}\n`],
  ]);
}

/** Answers where they are. */
export function saveResults(origin: Origin, report: Report): string {
  mkdirSync(FOLDER, { recursive: true });
  for (const [name, text] of filesOf(origin, report)) writeFileSync(join(FOLDER, name), text);
  return `bench/results/${origin.suite}.json and .md`;
}
