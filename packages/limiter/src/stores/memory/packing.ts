import type { AnyState } from '../../algorithms/index.ts';
import type { BucketNumbers, BucketState } from '../../algorithms/bucket.ts';
import type { FixedWindowState } from '../../algorithms/fixed-window.ts';
import type { SlidingWindowCounterState } from '../../algorithms/sliding-window-counter.ts';
import type { SlidingWindowLogState } from '../../algorithms/sliding-window-log.ts';
import type { Plan } from '../../limit.ts';

/**
 * How a state lies in a row of the table: as plain doubles rather than as an object per key, so that a million keys cost
 * the garbage collector nothing to walk. What does not fit is kept as the object it is, beside the row.
 */
export interface StatePacking<State> {
  /** Doubles per state. */
  readonly cells: number;
  fits(state: State): boolean;
  read(cells: Float64Array, at: number): State;
  write(cells: Float64Array, at: number, state: State): void;
}

/** Methods are compared bivariantly, which lets one function return the packing of every state. */
export function packingFor(plan: Plan): StatePacking<AnyState> {
  const { numbers } = plan;
  if ('tokenUnits' in numbers) return bucketPacking(numbers);
  if ('stampUs' in numbers) return logPacking;
  return 'tickUs' in numbers ? counterPacking : fixedWindowPacking;
}

/** Nearly all keys of a policy have its own rate; only a key with other numbers keeps its rate with it. */
function bucketPacking({ tokenUnits, drainUnits }: BucketNumbers): StatePacking<BucketState> {
  return {
    cells: 2,
    fits: (state) => state.tokenUnits === tokenUnits && state.drainUnits === drainUnits,
    read: (cells, at) => ({ tatUs: cells[at] ?? 0, fraction: cells[at + 1] ?? 0, tokenUnits, drainUnits }),
    write(cells, at, state) {
      cells[at] = state.tatUs;
      cells[at + 1] = state.fraction;
    },
  };
}

const fixedWindowPacking: StatePacking<FixedWindowState> = {
  cells: 2,
  fits: () => true,
  read: (cells, at) => ({ startUs: cells[at] ?? 0, count: cells[at + 1] ?? 0 }),
  write(cells, at, state) {
    cells[at] = state.startUs;
    cells[at + 1] = state.count;
  },
};

const counterPacking: StatePacking<SlidingWindowCounterState> = {
  cells: 3,
  fits: () => true,
  read: (cells, at) => ({ index: cells[at] ?? 0, current: cells[at + 1] ?? 0, previous: cells[at + 2] ?? 0 }),
  write(cells, at, state) {
    cells[at] = state.index;
    cells[at + 1] = state.current;
    cells[at + 2] = state.previous;
  },
};

const logPacking: StatePacking<SlidingWindowLogState> = {
  cells: 0,
  fits: () => false,
  read: () => [0],
  write: () => undefined,
};
