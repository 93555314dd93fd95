import { expect, test } from 'vitest';

import { keyGoals } from './key-goals.ts';
import type { Entrant, Measured, Measurement } from './scenario.ts';
import type { KeyResults } from './single-keys.ts';

const MEASUREMENT: Measurement = {
  perSecond: 100_000,
  latencyUs: { p50: 100, p95: 900, p99: 2000 },
  node: { usPerDecision: 9, share: 0.9 },
  redis: { usPerDecision: 5, share: 0.5 },
  callsPerDecision: 0.01,
  callsPerSecond: 150,
  admittedPerSecond: 149,
};
const OURS: Entrant = { id: 'leases-false', name: 'Spillgate, no leases', role: 'ours' };
const LEASED: Entrant = { id: 'leases-true', name: 'Spillgate, leases: true', role: 'ours' };
const TRAFFIC = { title: 'a key', perSecond: 100, keyCount: 1 };

function singleKeys(flood: Partial<Measurement> = {}): readonly KeyResults[] {
  return [
    { traffic: { id: 'hot', ...TRAFFIC }, results: new Map([[LEASED, MEASUREMENT]]) },
    { traffic: { id: 'flood', ...TRAFFIC }, results: new Map([[OURS, { ...MEASUREMENT, ...flood }]]) },
  ];
}

function logOf(p95: number): Measured {
  return {
    traffic: { workload: 'log', arrival: 'steady', inFlight: 1 },
    results: new Map([[OURS, { ...MEASUREMENT, latencyUs: { p50: 1, p95, p99: p95 } }]]),
  };
}

test('the goals are met by few calls, by calls that are admitted, and by a quick log', () => {
  const goals = keyGoals(singleKeys(), [logOf(900)]);

  expect(goals.map(({ passed }) => passed)).toEqual([true, true, true]);
});

test('a flood that reaches Redis misses its goal', () => {
  const [, flood] = keyGoals(singleKeys({ callsPerSecond: 152 }), [logOf(900)]);

  expect(flood?.passed).toBe(false);
  expect(flood?.detail).toContain('152.0 calls and 149.0 admissions per second');
});

test('what was not measured meets no goal', () => {
  expect(keyGoals([], []).map(({ passed }) => passed)).toEqual([false, false, false]);
  expect(keyGoals(singleKeys(), [logOf(1001)]).at(-1)?.passed).toBe(false);
});
