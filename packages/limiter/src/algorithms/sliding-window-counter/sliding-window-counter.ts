import { LimiterError } from '../../errors.ts';
import {
  MAX_COUNT,
  NEVER,
  Outcome,
  TOLERATED_STEP_US,
  type Algorithm,
  type CompiledPolicy,
  type OptionValues,
  type PastCharge,
  type StatePacking,
} from '../algorithm.ts';
import {
  advertiseWindow,
  shareWindow,
  WINDOW_OPTIONS,
  windowAmounts,
  type CompiledWindow,
  type WindowNumbers,
} from '../window.ts';
import { chargeWindow, windowLeases } from '../window-lease.ts';

export interface CompiledCounter extends CompiledWindow {
  /** The previous window fades in steps of this many microseconds; it divides windowUs. limit * windowTicks < 2^53. */
  readonly tickUs: number;
}

export interface SlidingWindowCounterState {
  /** Windows since the clock's zero. */
  readonly index: number;
  readonly current: number;
  readonly previous: number;
}

/**
 * Weighs the previous window by how much of it still overlaps. Bound: at most quota * (1 + d / window) in any
 * interval of length d; this is an approximation and never called exact.
 */
export const slidingWindowCounterAlgorithm: Algorithm<
  'slidingWindowCounter',
  WindowNumbers,
  CompiledCounter,
  SlidingWindowCounterState
> = {
  name: 'slidingWindowCounter',

  decide: decideSlidingWindowCounter,
  absentAtUs: (state, numbers) => (state.index + 2) * numbers.windowUs,
  // Within a window, the weight of the one before only falls: what fitted when it was charged fits until the end.
  leases: windowLeases({
    countsAfterUs: ({ windowUs }) => windowUs,
    longestUs: ({ windowUs }) => windowUs / 4,
    charge: chargeWindow(decideSlidingWindowCounter),
    refund: refundSlidingWindowCounter,
  }),

  options: WINDOW_OPTIONS,
  compile: compileSlidingWindowCounter,
  amounts: windowAmounts,
  refund: refundSlidingWindowCounter,
  loosen: loosenCounter,
  share: shareWindow,
  advertise: advertiseWindow,

  rateId: () => '',
  packing: () => packing,
  redis: {
    number: 5,
    numbers: { limit: 1, windowUs: 1, tickUs: 1 },
    leastDoubles: 3,
    recordDoubles: 0,
    toDoubles: ({ index, current, previous }) => [index, current, previous],
    fromDoubles: ([index = 0, current = 0, previous = 0]) => ({ index, current, previous }),
  },
};

function decideSlidingWindowCounter(
  state: SlidingWindowCounterState | undefined,
  numbers: CompiledCounter,
  cost: number,
  nowUs: number,
  out: Outcome<SlidingWindowCounterState> = new Outcome(),
): Outcome<SlidingWindowCounterState> {
  const { limit, windowUs } = numbers;
  const seen = shift(state, windowUs, nowUs);
  const { index, current, previous } = seen;
  const weights = weigh(numbers, index, nowUs);
  const room = roomLeft(limit - current, previous, weights);
  const fits = cost <= room;
  const after = fits ? current + cost : current;
  out.allowed = fits;
  out.remaining = room - (fits ? cost : 0);
  out.retryAfterUs = fits ? 0 : retryAfterUs({ index, current, previous }, numbers, cost, nowUs);
  out.resetAfterUs =
    after > 0 ? (index + 2) * windowUs - nowUs : previous > 0 ? (index + 1) * windowUs - nowUs : 0;
  out.delayUs = 0;
  out.spent = fits && cost > 0 ? { index, current: after, previous } : undefined;
  out.carried = state !== undefined && state.index > index ? seen : undefined;
  return out;
}

/**
 * The stored counts as seen at `nowUs`. A later stored window means the clock stepped back: stay in it, or, after a
 * step that is not tolerated, count everything in this one.
 */
function shift(
  state: SlidingWindowCounterState | undefined,
  windowUs: number,
  nowUs: number,
): SlidingWindowCounterState {
  const index = Math.floor(nowUs / windowUs);
  if (state === undefined || state.index < index - 1) return { index, current: 0, previous: 0 };
  if (state.index === index - 1) return { index, current: 0, previous: state.current };
  if (state.index > index && state.index * windowUs - nowUs > Math.max(windowUs, TOLERATED_STEP_US)) {
    return { index, current: state.current + state.previous, previous: 0 };
  }
  return state;
}

interface PreviousWeight {
  /** Ticks of the window that have not passed yet: the weight of the previous window, 1..windowTicks. */
  readonly leftTicks: number;
  readonly windowTicks: number;
}

function weigh(numbers: CompiledCounter, index: number, nowUs: number): PreviousWeight {
  const windowTicks = numbers.windowUs / numbers.tickUs;
  // Before the window starts (a clock that stepped back) nothing has passed. Rounding down keeps the weight up.
  const passedUs = Math.max(0, nowUs - index * numbers.windowUs);
  return { leftTicks: windowTicks - Math.floor(passedUs / numbers.tickUs), windowTicks };
}

/** spare - ceil(previous * leftTicks / windowTicks), at least 0, without a product above limit * windowTicks. */
function roomLeft(spare: number, previous: number, { leftTicks, windowTicks }: PreviousWeight): number {
  if (spare <= 0) return 0;
  if (previous === 0) return spare;
  if (leftTicks > Math.floor((spare * windowTicks) / previous)) return 0;
  return spare - Math.ceil((previous * leftTicks) / windowTicks);
}

function retryAfterUs(
  state: SlidingWindowCounterState,
  numbers: CompiledCounter,
  cost: number,
  nowUs: number,
): number {
  const { limit, windowUs, tickUs } = numbers;
  if (cost > limit) return NEVER;
  const windowTicks = windowUs / tickUs;
  const spare = limit - state.current - cost;
  // Either the previous window fades enough within this one, or this one has to become the previous and fade.
  const [startUs, fading, room] =
    spare >= 0
      ? [state.index * windowUs, state.previous, spare]
      : [(state.index + 1) * windowUs, state.current, limit - cost];
  const passedTicks = Math.max(0, windowTicks - Math.floor((room * windowTicks) / fading));
  return startUs + passedTicks * tickUs - nowUs;
}

function compileSlidingWindowCounter({
  quota,
  window,
}: OptionValues<WindowNumbers>): CompiledPolicy<CompiledCounter> {
  // limit * ticks has to stay an exact integer: let the previous window fade in coarser steps where it would not.
  let tickUs = 1;
  while ((quota * window) / tickUs > MAX_COUNT && window % (tickUs * 10) === 0) tickUs *= 10;
  if ((quota * window) / tickUs > MAX_COUNT) {
    throw new LimiterError(
      'INVALID_POLICY',
      `quota is ${quota} in a window of ${window} us, too large to weigh exactly (quota * window / ${tickUs} us is above ${MAX_COUNT}): lower the quota, use a rounder window such as whole seconds, or use tokenBucket().`,
    );
  }
  return { numbers: { limit: quota, windowUs: window, tickUs }, stateId: `/${window}` };
}

function refundSlidingWindowCounter(
  state: SlidingWindowCounterState,
  { windowUs }: CompiledCounter,
  { cost, absentAtUs }: PastCharge,
): SlidingWindowCounterState {
  const { index, current, previous } = state;
  const reservedIndex = absentAtUs / windowUs - 2;
  if (index === reservedIndex && current >= cost) return { index, current: current - cost, previous };
  if (index === reservedIndex + 1 && previous >= cost) return { index, current, previous: previous - cost };
  return state;
}

/** limit * ticks stays exact. */
function loosenCounter(numbers: CompiledCounter, units: number): CompiledCounter {
  const { limit, windowUs, tickUs } = numbers;
  return { ...numbers, limit: Math.min(Math.floor(MAX_COUNT / (windowUs / tickUs)), limit + units) };
}

const read = { index: 0, current: 0, previous: 0 };
const packing: StatePacking<SlidingWindowCounterState> = {
  cells: 3,
  fits: () => true,
  read(cells, at) {
    read.index = cells[at] ?? 0;
    read.current = cells[at + 1] ?? 0;
    read.previous = cells[at + 2] ?? 0;
    return read;
  },
  write(cells, at, state) {
    cells[at] = state.index;
    cells[at + 1] = state.current;
    cells[at + 2] = state.previous;
  },
};
