import { readFileSync } from 'node:fs';
import { expect, test } from 'vitest';

import { benchmarkPlots, plotsOf } from './benchmark-plots.ts';

const RESULTS = {
  command: 'npm run bench -- redis',
  date: '2026-11-18',
  quick: false,
  disturbance: { kept: 100, disturbed: 2 },
  charts: [
    {
      id: 'redis-script',
      title: 'Time & money',
      unit: 'us',
      bars: [
        { name: 'loop <nothing>', value: 3 },
        { name: 'token bucket', value: 4500, ours: true, note: 'of 32' },
      ],
      note: 'Lower is better',
    },
  ],
};

function svgOfRun(run: Partial<typeof RESULTS> = {}): string {
  return plotsOf(JSON.stringify({ ...RESULTS, ...run }))[0]?.content ?? '';
}

test('every chart of the saved results is a plot with its id as name', () => {
  expect(plotsOf(JSON.stringify(RESULTS)).map(({ path }) => path)).toEqual(['docs/plots/redis-script.svg']);
});

test('a plot says in words what it shows', () => {
  const svg = svgOfRun();

  expect(svg).toContain('<title id="title">Time &amp; money</title>');
  expect(svg).toContain(
    '<desc id="description">loop &lt;nothing&gt;: 3 us; token bucket: 4,500 us (of 32). Lower is better. ',
  );
});

test('a plot says which run it shows, and how quiet the machine was', () => {
  expect(svgOfRun()).toContain(
    'npm run bench -- redis, 2026-11-18, quiet machine (2 of 100 slices disturbed)',
  );
  expect(svgOfRun({ disturbance: { kept: 100, disturbed: 60 } })).toContain('busy machine (60 of 100');
  expect(svgOfRun({ quick: true })).toContain('a quick run: a first impression');
});

test('the longest bar fills the width, and what is nearly nothing stays visible', () => {
  const [least, most] = [...svgOfRun().matchAll(/class="(?:bar|ours)" .*width="(\d+)"/g)].map(([, width]) =>
    Number(width),
  );

  expect(least).toBe(1);
  expect(most).toBe(230);
});

test('docs/benchmarks.md shows every plot', () => {
  const page = readFileSync('docs/benchmarks.md', 'utf8');

  for (const { path } of benchmarkPlots(process.cwd())) expect(page).toContain(path.slice('docs/'.length));
});
