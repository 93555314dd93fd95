import type { Awaitable } from '../frame/awaitable.ts';

/** Longer than any run: no window ends while we measure. */
export const DAY_SECONDS = 86_400;
/** Never reached: more than any run decides per key. */
export const AMPLE_LIMIT = 10_000_000;
/** Reached by the one request per key that is made before we measure. */
export const TIGHT_LIMIT = 1;

export interface Candidate {
  readonly id: string;
  readonly name: string;
  /** A reference decides nothing: it shows what a round trip costs. */
  readonly role: 'ours' | 'peer' | 'reference';
  /** Connects to the server on this port of 127.0.0.1. */
  readonly open: (port: number) => Promise<Subject>;
}

/** One limiter under measurement, on a connection of its own. */
export interface Subject {
  /** Decisions of a policy that nobody exhausts. */
  readonly ample: Awaitable;
  /** Decisions of a policy that admits one request per key and day. */
  readonly tight: Awaitable;
  readonly close: () => Promise<void>;
}
