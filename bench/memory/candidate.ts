import type { Awaitable } from '../frame/awaitable.ts';

/** Longer than any run: no window ends and no token comes back while we measure. */
export const WINDOW_MS: number = 86_400_000;

/** Room for every key of every scenario, with as much again to spare. */
export const MAX_KEYS = 2_000_000;

export interface Candidate {
  readonly id: string;
  readonly name: string;
  readonly ours: boolean;
  /** The synchronous call as a reader knows it; absent when there is none. */
  readonly syncCall?: string;
  readonly awaitedCall: string;
  /** Set when the awaited call answers a denial by waiting for its turn, which cannot be measured as a decision. */
  readonly awaitedCallWaits?: true;
  /** A new, empty store that allows `limit` per key and window. */
  readonly open: (limit: number) => Subject;
}

/** One store under measurement. */
export interface Subject {
  readonly decideSync?: (key: string) => boolean;
  readonly awaited: Awaitable;
  /** Drops all state. Gets every key once, for stores that can only forget key by key. */
  readonly close: (keys: Iterable<string>) => void | Promise<void>;
}
