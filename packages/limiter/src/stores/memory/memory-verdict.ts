// What the embedded store says and keeps while it decides.
import { Outcome, type AnyState } from '../../algorithms/algorithm.ts';
import { LimiterError, show } from '../../errors.ts';
import type { Limit } from '../../limit.ts';
import type { StateTable } from './state-table.ts';

/** When to ask again where there is no place for a key. */
export const REFUSED_RETRY_US = 1_000_000;

/** An outcome that can say that it came from the overflow state. */
export class MemoryVerdict extends Outcome<AnyState> {
  overflow = false;
  /** How long the key stays blocked by its denials. */
  penaltyLeftUs = 0;
  penaltyBegan = false;
}

/** A limit of a check and what its algorithm said. */
export interface DecidedLimit {
  readonly limit: Limit;
  readonly outcome: MemoryVerdict;
}

/** A state on its way to where its key has its place. */
export interface PlacedState {
  readonly limit: Limit;
  readonly table: StateTable;
  readonly state: AnyState;
  readonly nowUs: number;
}

/** There is no place for the key, not even a shared one. */
export function refuse(verdict: MemoryVerdict): void {
  verdict.allowed = false;
  verdict.remaining = 0;
  verdict.retryAfterUs = REFUSED_RETRY_US;
}

const MAX_MAX_KEYS = 100_000_000;

export function requireMaxKeys(maxKeys: number): void {
  if (Number.isInteger(maxKeys) && maxKeys >= 1 && maxKeys <= MAX_MAX_KEYS) return;
  throw new LimiterError(
    'INVALID_OPTION',
    `maxKeys is ${show(maxKeys)}; expected an integer from 1 to ${MAX_MAX_KEYS}: plan about 120 bytes per key.`,
  );
}
