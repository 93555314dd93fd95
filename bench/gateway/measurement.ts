import { median } from '../frame/rounds.ts';
import type { Candidate } from './candidate.ts';

export interface Measurement {
  readonly candidate: Candidate;
  readonly perSecond: number;
  /** One per round. */
  readonly cpuUsPerRequest: readonly number[];
  readonly helperUsPerRequest: readonly number[];
  readonly p50Us: number;
  readonly p99Us: number;
}

/** Processor time of all processes that a request needs, except the backend and the load. */
export function togetherUs({ cpuUsPerRequest, helperUsPerRequest }: Measurement): number {
  return median(togetherByRound({ cpuUsPerRequest, helperUsPerRequest }));
}

/** One per round. */
export function togetherByRound({
  cpuUsPerRequest,
  helperUsPerRequest,
}: Pick<Measurement, 'cpuUsPerRequest' | 'helperUsPerRequest'>): readonly number[] {
  return cpuUsPerRequest.map((us, round) => us + (helperUsPerRequest[round] ?? 0));
}
