import type { Duration } from '../../duration.ts';
import { NEVER, Outcome, TOLERATED_STEP_US, type Algorithm, type PastCharge } from '../algorithm.ts';
import {
  advertiseWindow,
  COUNT_PACKING,
  loosenQuota,
  shareWindow,
  WINDOW_OPTIONS,
  windowAmounts,
  type CompiledWindow,
  type CountState,
  type WindowNumbers,
} from '../window.ts';
import { chargeWindow, windowLeases } from '../window-lease.ts';

export interface FixedWindowNumbers extends WindowNumbers {
  /** Shifts the window edges, from 0 to less than `window`. Default: 0, edges at multiples of `window` since 1970. */
  readonly offset?: Duration | undefined;
}

export interface CompiledFixedWindow extends CompiledWindow {
  /** Windows start at offsetUs + k * windowUs since the clock's zero. */
  readonly offsetUs: number;
}

/** Counts within windows aligned to the clock. Honest bound: 2 * quota in a span that straddles an edge. */
export const fixedWindowAlgorithm: Algorithm<
  'fixedWindow',
  FixedWindowNumbers,
  CompiledFixedWindow,
  CountState
> = {
  name: 'fixedWindow',

  decide: decideFixedWindow,
  absentAtUs: (state, numbers) => state.startUs + numbers.windowUs,
  // An admission counts the same wherever it is in its window, so a lease may be used until the window ends.
  leases: windowLeases({
    countsAfterUs: () => 0,
    longestUs: ({ windowUs }) => windowUs / 4,
    charge: chargeWindow(decideFixedWindow),
    refund: refundFixedWindow,
  }),

  options: {
    ...WINDOW_OPTIONS,
    offset: {
      kind: 'duration',
      optional: true,
      leastUs: 0,
      shorterThan: 'window',
      description: 'Shifts the edges of the windows, which are at multiples of `window` since 1970.',
    },
  },
  compile: ({ quota, window, offset = 0 }) => ({
    numbers: { limit: quota, windowUs: window, offsetUs: offset },
    stateId: `/${window}/${offset}`,
  }),
  amounts: windowAmounts,
  refund: refundFixedWindow,
  loosen: loosenQuota,
  share: shareWindow,
  advertise: advertiseWindow,

  rateId: () => '',
  packing: () => COUNT_PACKING,
  redis: {
    number: 3,
    numbers: { limit: 1, windowUs: 1, offsetUs: 0 },
    leastDoubles: 2,
    recordDoubles: 0,
    toDoubles: ({ startUs, count }) => [startUs, count],
    fromDoubles: ([startUs = 0, count = 0]) => ({ startUs, count }),
  },
};

function decideFixedWindow(
  state: CountState | undefined,
  numbers: CompiledFixedWindow,
  cost: number,
  nowUs: number,
  out: Outcome<CountState> = new Outcome(),
): Outcome<CountState> {
  const { limit, windowUs, offsetUs } = numbers;
  const currentUs = Math.floor((nowUs - offsetUs) / windowUs) * windowUs + offsetUs;
  // A window that starts after `now` means the clock stepped back: keep counting in that window, or, after a step that
  // is not tolerated, take the count along into this one.
  const live = state !== undefined && state.startUs >= currentUs;
  const moved = live && state.startUs - nowUs > Math.max(windowUs, TOLERATED_STEP_US);
  const startUs = live && !moved ? state.startUs : currentUs;
  const count = live ? state.count : 0;
  const endUs = startUs + windowUs - nowUs;
  const fits = cost <= limit - count;
  const after = fits ? count + cost : count;
  out.allowed = fits || cost === 0;
  out.remaining = Math.max(0, limit - after);
  out.retryAfterUs = out.allowed ? 0 : cost > limit ? NEVER : endUs;
  out.resetAfterUs = after > 0 ? endUs : 0;
  out.delayUs = 0;
  out.spent = fits && cost > 0 ? { startUs, count: after } : undefined;
  out.carried = moved ? { startUs, count } : undefined;
  return out;
}

/** A count belongs to its window; one that is over took the reservation with it. */
function refundFixedWindow(
  state: CountState,
  { windowUs }: CompiledFixedWindow,
  { cost, absentAtUs }: PastCharge,
): CountState {
  const { startUs, count } = state;
  if (startUs !== absentAtUs - windowUs || count < cost) return state;
  return { startUs, count: count - cost };
}
