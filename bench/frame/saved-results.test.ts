import { expect, test } from 'vitest';

import { filesOf } from './saved-results.ts';
import type { Report } from './suite.ts';

const ORIGIN = {
  suite: 'redis',
  command: 'npm run bench -- redis',
  date: '2026-11-18',
  machine: 'Node v20.19.0, 2 cores.',
  quick: false,
};

const REPORT: Report = {
  title: 'Redis',
  facts: ['One fact.'],
  tables: [{ title: 'Table', columns: [{ title: 'name', align: 'left' }], rows: [['ours']] }],
  goals: [],
  charts: [
    {
      id: 'redis-script',
      title: 'Time',
      unit: 'us',
      bars: [
        { name: 'ours', value: 4.5678, ours: true },
        { name: 'could not be installed', value: Number.NaN },
      ],
    },
  ],
  disturbance: { kept: 10, disturbed: 1, repeated: 2 },
};

test('a run is saved with where it comes from, and with how far it was disturbed', () => {
  const saved: unknown = JSON.parse(filesOf(ORIGIN, REPORT).get('redis.json') ?? '');

  expect(saved).toMatchObject({ ...ORIGIN, disturbance: { kept: 10, disturbed: 1, repeated: 2 } });
});

test('only what was measured is drawn, in three digits', () => {
  const saved: unknown = JSON.parse(filesOf(ORIGIN, REPORT).get('redis.json') ?? '');

  expect(saved).toMatchObject({ charts: [{ bars: [{ name: 'ours', value: 4.57, ours: true }] }] });
  expect(saved).not.toHaveProperty('charts[0].bars[1]');
});

test('a chart of which nothing was measured is not saved', () => {
  const charts = [
    { id: 'service', title: 'Time', unit: 'us', bars: [{ name: 'absent', value: Number.NaN }] },
  ];

  const saved: unknown = JSON.parse(filesOf(ORIGIN, { ...REPORT, charts }).get('redis.json') ?? '');

  expect(saved).toMatchObject({ charts: [] });
});

test('the tables say which command made them, and whether it was a quick one', () => {
  const full = filesOf(ORIGIN, REPORT).get('redis.md') ?? '';
  const quick = filesOf({ ...ORIGIN, quick: true }, REPORT).get('redis.md') ?? '';

  expect(full).toContain('`npm run bench -- redis`, 2026-11-18.');
  expect(full).toContain('| ours |');
  expect(quick).toContain('a first impression and no result');
});
