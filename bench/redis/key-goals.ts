import type { Goal } from '../frame/suite.ts';
import type { Measured, Measurement } from './scenario.ts';
import { leaseId } from './key-contenders.ts';
import type { KeyResults } from './single-keys.ts';

const MOST_CALLS_PER_DECISION = 1 / 20;
/** Beyond what is admitted. */
const MOST_CALLS_OF_A_FLOOD_PER_SECOND = 1;
/** A slice may begin and end in the middle of a second. */
const CALLS_AT_THE_EDGE = 1;
const LOG_P95_MS = 1;

export function keyGoals(singleKeys: readonly KeyResults[], log: readonly Measured[]): readonly Goal[] {
  const of = (id: KeyResults['traffic']['id']): Measured['results'] | undefined =>
    singleKeys.find(({ traffic }) => traffic.id === id)?.results;
  return [fewCalls(of('hot')), noCallsForDenied(of('flood')), quickLog(log)];
}

function fewCalls(results: Measured['results'] | undefined): Goal {
  const calls = ofId(results, leaseId(true))?.callsPerDecision ?? Number.NaN;
  return {
    text: 'with leases at most one call to Redis for 20 decisions on a hot key',
    passed: calls <= MOST_CALLS_PER_DECISION,
    detail: `one for ${(1 / calls).toFixed(0)}`,
  };
}

function noCallsForDenied(results: Measured['results'] | undefined): Goal {
  const flooded = ofId(results, leaseId(false));
  const [calls, admitted] = [flooded?.callsPerSecond ?? Number.NaN, flooded?.admittedPerSecond ?? Number.NaN];
  return {
    text: 'a flood on one key costs Redis at most what the policy admits, and one call per second',
    passed: calls <= admitted + MOST_CALLS_OF_A_FLOOD_PER_SECOND + CALLS_AT_THE_EDGE,
    detail: `${calls.toFixed(1)} calls and ${admitted.toFixed(1)} admissions per second, of ${(flooded?.perSecond ?? Number.NaN).toFixed(0)} requests`,
  };
}

function quickLog(log: readonly Measured[]): Goal {
  const measured = log.flatMap(({ traffic, results }) =>
    [...results]
      .filter(([{ role }]) => role === 'ours')
      .map(([, { latencyUs }]) => ({ inFlight: traffic.inFlight, p95Ms: latencyUs.p95 / 1000 })),
  );
  return {
    text: `the sliding window log answers 95 of 100 decisions within ${LOG_P95_MS} ms`,
    passed: measured.length > 0 && measured.every(({ p95Ms }) => p95Ms < LOG_P95_MS),
    detail: measured
      .map(({ inFlight, p95Ms }) => `${p95Ms.toFixed(2)} ms at ${inFlight} in flight`)
      .join('; '),
  };
}

function ofId(results: Measured['results'] | undefined, id: string): Measurement | undefined {
  return [...(results ?? [])].find(([entrant]) => entrant.id === id)?.[1];
}
