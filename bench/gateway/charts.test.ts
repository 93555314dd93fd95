import { expect, test } from 'vitest';

import type { Candidate } from './candidate.ts';
import { gatewayCharts } from './charts.ts';
import { togetherUs, type Measurement } from './measurement.ts';
import { workersCores } from './suite.ts';

function measured(candidate: Omit<Candidate, 'command'>): Measurement {
  return {
    candidate: { ...candidate, command: () => [] },
    perSecond: 1000,
    cpuUsPerRequest: [70, 60, 80],
    helperUsPerRequest: [10, 30, 12],
    p50Us: 500,
    p99Us: 900,
  };
}

const REDIS = measured({ id: 'spillgate-redis', name: 'Spillgate', role: 'ours', limits: 'Redis' });

test('what a proxy asks takes processor time too: rounds are added up before the median', () => {
  expect(togetherUs(REDIS)).toBe(90);
});

test('what could not be installed has no bar', () => {
  const charts = gatewayCharts([REDIS], []);

  const bars = charts.find(({ id }) => id === 'gateway-redis')?.bars;

  expect(bars).toEqual([{ name: 'Spillgate', value: 90, ours: true }]);
});

test('the load keeps away from the cores of the workers where there are enough', () => {
  expect(workersCores(2)).toEqual({ proxy: '0,1', others: '0,1' });
  expect(workersCores(4)).toEqual({ proxy: '0,1', others: '2,3' });
});
