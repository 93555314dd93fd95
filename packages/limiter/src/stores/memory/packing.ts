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
  /** The same object every time: a new one would be three allocations. Use it before the next read. */
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
  const read = { tatUs: 0, fraction: 0, tokenUnits, drainUnits };
  return {
    cells: 2,
    fits: (state) => state.tokenUnits === tokenUnits && state.drainUnits === drainUnits,
    read(cells, at) {
      read.tatUs = cells[at] ?? 0;
      read.fraction = cells[at + 1] ?? 0;
      return read;
    },
    write(cells, at, state) {
      cells[at] = state.tatUs;
      cells[at + 1] = state.fraction;
    },
  };
}

const fixedWindowRead = { startUs: 0, count: 0 };
const fixedWindowPacking: StatePacking<FixedWindowState> = {
  cells: 2,
  fits: () => true,
  read(cells, at) {
    fixedWindowRead.startUs = cells[at] ?? 0;
    fixedWindowRead.count = cells[at + 1] ?? 0;
    return fixedWindowRead;
  },
  write(cells, at, state) {
    cells[at] = state.startUs;
    cells[at + 1] = state.count;
  },
};

const counterRead = { index: 0, current: 0, previous: 0 };
const counterPacking: StatePacking<SlidingWindowCounterState> = {
  cells: 3,
  fits: () => true,
  read(cells, at) {
    counterRead.index = cells[at] ?? 0;
    counterRead.current = cells[at + 1] ?? 0;
    counterRead.previous = cells[at + 2] ?? 0;
    return counterRead;
  },
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
