import { NEVER, Outcome, type Algorithm } from './algorithm.ts';

export interface FixedWindowNumbers {
  readonly limit: number;
  readonly windowUs: number;
  /** Windows start at offsetUs + k * windowUs since the clock's zero. */
  readonly offsetUs: number;
}

export interface FixedWindowState {
  readonly startUs: number;
  readonly count: number;
}

/** Counts within windows aligned to the clock. Honest bound: 2 * quota in a span that straddles an edge. */
export const fixedWindowAlgorithm: Algorithm<FixedWindowNumbers, FixedWindowState> = {
  name: 'fixedWindow',
  decide: decideFixedWindow,
  absentAtUs: (state, numbers) => state.startUs + numbers.windowUs,
};

function decideFixedWindow(
  state: FixedWindowState | undefined,
  numbers: FixedWindowNumbers,
  cost: number,
  nowUs: number,
  out: Outcome<FixedWindowState> = new Outcome(),
): Outcome<FixedWindowState> {
  const { limit, windowUs, offsetUs } = numbers;
  const currentUs = Math.floor((nowUs - offsetUs) / windowUs) * windowUs + offsetUs;
  // A window that starts after `now` means the clock stepped back: keep counting in that window.
  const live = state !== undefined && state.startUs >= currentUs;
  const startUs = live ? state.startUs : currentUs;
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
  out.carried = undefined;
  return out;
}
