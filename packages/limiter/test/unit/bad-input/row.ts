import type { ErrorCode, Limiter, Policy } from '../../../src/index.ts';
import type { VirtualClock } from '../../../src/testing/index.ts';

/** A mistake, the code it gets, and what its message has to name. */
interface Mistake {
  readonly what: string;
  readonly code: ErrorCode;
  readonly mentions: Mentions;
}

/** The offending value as it is shown, what would be accepted, and what to do. */
export type Mentions = readonly [value: string, bound: string, fix: string];

/** A mistake in a definition or an option: it throws at once. */
export interface ThrownMistake extends Mistake {
  readonly run: () => unknown;
}

/** A mistake in a call of a limiter: it rejects, and spends nothing. */
export interface RejectedMistake extends Mistake {
  readonly run: (bench: Bench) => Promise<unknown>;
}

export interface Bench {
  readonly limiter: Limiter;
  readonly policy: Policy;
  readonly clock: VirtualClock;
}

/** Lets a test hand over what the types forbid, as callers without types can. */
export function untyped(value: unknown): never {
  return value as never;
}
