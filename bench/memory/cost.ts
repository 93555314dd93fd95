import type { Candidate } from './candidate.ts';
import type { Measured } from './scenario.ts';

export type Kind = 'sync' | 'awaited';

/** Nanoseconds of one decision; undefined when the candidate has no such call in this scenario. */
export type Cost = (measured: Measured, kind: Kind, candidate: Candidate) => number | undefined;

export const rawNs: Cost = ({ syncNs, awaitedNs }, kind, candidate) =>
  (kind === 'sync' ? syncNs : awaitedNs).get(candidate);

/** Without the cost of making the key. Never below the resolution, so that a ratio stays finite. */
export const netNs: Cost = (measured, kind, candidate) => {
  const raw = rawNs(measured, kind, candidate);
  return raw === undefined ? undefined : Math.max(raw - measured.generatorNs, 0.1);
};
