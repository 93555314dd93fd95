import type { AlgorithmName, AnyState } from '../../algorithms/index.ts';
import type { BucketState } from '../../algorithms/bucket.ts';
import type { FixedWindowState } from '../../algorithms/fixed-window.ts';
import type { SlidingWindowCounterState } from '../../algorithms/sliding-window-counter.ts';
import type { SlidingWindowLogState } from '../../algorithms/sliding-window-log.ts';

/**
 * How a state lies in memory: as plain doubles in one array per segment rather than as an object per key. A million
 * keys then cost the garbage collector nothing to walk.
 */
export interface StatePacking<State> {
  /** Doubles per state; 0 keeps the state object itself, for states of varying size. */
  readonly cells: number;
  read(cells: Float64Array, at: number): State;
  write(cells: Float64Array, at: number, state: State): void;
}

const bucketPacking: StatePacking<BucketState> = {
  cells: 4,
  read: (cells, at) => ({
    tatUs: cells[at] ?? 0,
    fraction: cells[at + 1] ?? 0,
    tokenUnits: cells[at + 2] ?? 0,
    drainUnits: cells[at + 3] ?? 0,
  }),
  write(cells, at, state) {
    cells[at] = state.tatUs;
    cells[at + 1] = state.fraction;
    cells[at + 2] = state.tokenUnits;
    cells[at + 3] = state.drainUnits;
  },
};

const fixedWindowPacking: StatePacking<FixedWindowState> = {
  cells: 2,
  read: (cells, at) => ({ startUs: cells[at] ?? 0, count: cells[at + 1] ?? 0 }),
  write(cells, at, state) {
    cells[at] = state.startUs;
    cells[at + 1] = state.count;
  },
};

const counterPacking: StatePacking<SlidingWindowCounterState> = {
  cells: 3,
  read: (cells, at) => ({ index: cells[at] ?? 0, current: cells[at + 1] ?? 0, previous: cells[at + 2] ?? 0 }),
  write(cells, at, state) {
    cells[at] = state.index;
    cells[at + 1] = state.current;
    cells[at + 2] = state.previous;
  },
};

const logPacking: StatePacking<SlidingWindowLogState> = {
  cells: 0,
  read: () => [0],
  write: () => undefined,
};

/** Methods are compared bivariantly, which lets one list hold the packing of every state. */
export const PACKINGS: Readonly<Record<AlgorithmName, StatePacking<AnyState>>> = {
  tokenBucket: bucketPacking,
  leakyBucket: bucketPacking,
  fixedWindow: fixedWindowPacking,
  slidingWindowLog: logPacking,
  slidingWindowCounter: counterPacking,
};
