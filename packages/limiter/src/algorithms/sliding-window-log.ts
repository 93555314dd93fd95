import { NEVER, type Algorithm, type Outcome } from './algorithm.ts';

export interface SlidingWindowLogNumbers {
  readonly limit: number;
  readonly windowUs: number;
  /**
   * Admissions are stamped with the next multiple of this many microseconds: 1 is the exact log. Rounding *up*
   * keeps each one counted at least as long as it must be, so a coarse log never admits more than an exact one.
   */
  readonly stampUs: number;
}

/**
 * Pairs, oldest first: the stamp of an admission and the cost admitted up to and including it. Flat because this is
 * also the layout of the packed value in a store.
 */
export type SlidingWindowLogState = readonly number[];

const MAX_RUNNING_TOTAL = 2 ** 52;

/** Any half-open window (t - window, t] holds at most `quota`, whatever the clock does. */
export const slidingWindowLogAlgorithm: Algorithm<SlidingWindowLogNumbers, SlidingWindowLogState> = {
  name: 'slidingWindowLog',
  decide: decideSlidingWindowLog,
  absentAtUs: (state, numbers) => stampAt(state, state.length / 2 - 1) + numbers.windowUs,
};

function decideSlidingWindowLog(
  state: SlidingWindowLogState | undefined,
  numbers: SlidingWindowLogNumbers,
  cost: number,
  nowUs: number,
): Outcome<SlidingWindowLogState> {
  const { limit, windowUs } = numbers;
  const log = state ?? [];
  const records = log.length / 2;
  const first = firstLive(log, nowUs - windowUs);
  const before = totalAt(log, first - 1);
  const total = totalAt(log, records - 1) - before;
  const newestUs = first < records ? stampAt(log, records - 1) : 0;
  if (cost <= limit - total && cost > 0) {
    const stampUs = Math.max(newestUs, Math.ceil(nowUs / numbers.stampUs) * numbers.stampUs);
    return {
      allowed: true,
      remaining: limit - total - cost,
      retryAfterUs: 0,
      resetAfterUs: stampUs + windowUs - nowUs,
      delayUs: 0,
      spent: append(log, first, stampUs, cost),
      carried: undefined,
    };
  }
  return {
    allowed: cost === 0,
    remaining: Math.max(0, limit - total),
    retryAfterUs:
      cost === 0
        ? 0
        : cost > limit
          ? NEVER
          : freedAtUs(log, total + before + cost - limit) + windowUs - nowUs,
    resetAfterUs: first < records ? newestUs + windowUs - nowUs : 0,
    delayUs: 0,
    spent: undefined,
    carried: undefined,
  };
}

function stampAt(log: SlidingWindowLogState, record: number): number {
  return log[record * 2] ?? 0;
}

/** Cost admitted up to and including `record`; 0 before the first. */
function totalAt(log: SlidingWindowLogState, record: number): number {
  return log[record * 2 + 1] ?? 0;
}

/** The first record stamped after `horizonUs`: half-open windows, so a stamp exactly at the horizon is out. */
function firstLive(log: SlidingWindowLogState, horizonUs: number): number {
  let low = 0;
  let high = log.length / 2;
  while (low < high) {
    const middle = Math.floor((low + high) / 2);
    if (stampAt(log, middle) > horizonUs) high = middle;
    else low = middle + 1;
  }
  return low;
}

/** The stamp of the record whose end frees enough: the first with a running total of at least `total`. */
function freedAtUs(log: SlidingWindowLogState, total: number): number {
  let low = 0;
  let high = log.length / 2 - 1;
  while (low < high) {
    const middle = Math.floor((low + high) / 2);
    if (totalAt(log, middle) >= total) high = middle;
    else low = middle + 1;
  }
  return stampAt(log, low);
}

function append(
  log: SlidingWindowLogState,
  first: number,
  stampUs: number,
  cost: number,
): SlidingWindowLogState {
  const records = log.length / 2;
  const total = totalAt(log, records - 1) + cost;
  // Running totals only grow; start over from the first live record long before they could leave 2^53.
  const base = total > MAX_RUNNING_TOTAL || first === records ? totalAt(log, first - 1) : 0;
  const live = log.slice(first * 2);
  if (base > 0) for (let at = 1; at < live.length; at += 2) live[at] = (live[at] ?? 0) - base;
  if (live[live.length - 2] === stampUs) live[live.length - 1] = total - base;
  else live.push(stampUs, total - base);
  return live;
}
