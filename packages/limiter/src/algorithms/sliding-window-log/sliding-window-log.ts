import {
  NEVER,
  Outcome,
  TOLERATED_STEP_US,
  unpacked,
  type Algorithm,
  type PastCharge,
} from '../algorithm.ts';
import type { ChargedLease } from '../lease.ts';
import { firstAfter } from '../packed-list.ts';
import {
  advertiseWindow,
  loosenQuota,
  shareWindow,
  WINDOW_OPTIONS,
  windowAmounts,
  type CompiledWindow,
  type WindowNumbers,
} from '../window.ts';
import { windowLeases } from '../window-lease.ts';

export interface CompiledLog extends CompiledWindow {
  /**
   * Admissions are stamped with the next multiple of this many microseconds: 1 is the exact log. Rounding *up*
   * keeps each one counted at least as long as it must be, so a coarse log never admits more than an exact one.
   */
  readonly stampUs: number;
}

/**
 * The cost admitted before the first record, then pairs, oldest first: the stamp of an admission and the cost admitted
 * up to and including it. Flat, so that dropping the oldest is a cut and this is also the layout of a packed value.
 */
export type SlidingWindowLogState = readonly number[];

/** Up to this quota a log keeps every admission at its own microsecond. */
const EXACT_LOG_QUOTA = 1000;
/** Above it, the window is cut into this many steps: at least 99.9 % of the quota can be used. */
const LOG_STEPS = 1000;
const BYTES_PER_NUMBER = 8;

/** Any half-open window (t - window, t] holds at most `quota`, whatever the clock does. */
export const slidingWindowLogAlgorithm: Algorithm<
  'slidingWindowLog',
  WindowNumbers,
  CompiledLog,
  SlidingWindowLogState
> = {
  name: 'slidingWindowLog',

  decide: decideSlidingWindowLog,
  absentAtUs: (state, numbers) => stampAt(state, countRecords(state) - 1) + numbers.windowUs,
  // A lease is logged at its end: it counts for at least as long as anything that is admitted from it.
  leases: windowLeases({
    countsAfterUs: ({ windowUs }) => windowUs,
    longestUs: leaseLifeUs,
    charge: chargeLease,
    refund: refundSlidingWindowLog,
  }),

  options: WINDOW_OPTIONS,
  compile({ quota, window }) {
    const stampUs = quota <= EXACT_LOG_QUOTA ? 1 : Math.ceil(window / LOG_STEPS);
    return { numbers: { limit: quota, windowUs: window, stampUs }, stateId: `/${window}` };
  },
  amounts: windowAmounts,
  refund: refundSlidingWindowLog,
  loosen: loosenQuota,
  share: shareWindow,
  advertise: advertiseWindow,

  rateId: () => '',
  packing: () => unpacked,
  redis: {
    // The count before the first record, then two numbers for each.
    maxBytes: (numbers) => {
      const spanUs = numbers.windowUs + leaseLifeUs(numbers);
      return BYTES_PER_NUMBER * (1 + 2 * Math.min(numbers.limit, Math.ceil(spanUs / numbers.stampUs) + 1));
    },
    number: 4,
    numbers: { limit: 1, windowUs: 1, stampUs: 1 },
    leastDoubles: 3,
    recordDoubles: 2,
    toDoubles: (log) => log,
    fromDoubles: (doubles) => doubles,
  },
};

function decideSlidingWindowLog(
  state: SlidingWindowLogState | undefined,
  numbers: CompiledLog,
  cost: number,
  nowUs: number,
  out: Outcome<SlidingWindowLogState> = new Outcome(),
): Outcome<SlidingWindowLogState> {
  const { limit, windowUs } = numbers;
  const log = afterStepBack(state ?? EMPTY, numbers, nowUs);
  const records = countRecords(log);
  const first = firstLive(log, nowUs - windowUs);
  const before = totalAt(log, first - 1);
  const total = totalAt(log, records - 1) - before;
  const newestUs = first < records ? stampAt(log, records - 1) : 0;
  out.delayUs = 0;
  out.carried = state === undefined || log === state ? undefined : log;
  if (cost <= limit - total && cost > 0) {
    const stampUs = Math.max(newestUs, Math.ceil(nowUs / numbers.stampUs) * numbers.stampUs);
    out.allowed = true;
    out.remaining = limit - total - cost;
    out.retryAfterUs = 0;
    out.resetAfterUs = stampUs + windowUs - nowUs;
    out.spent = append(log, first, stampUs, cost);
    return out;
  }
  out.allowed = cost === 0;
  out.remaining = Math.max(0, limit - total);
  out.retryAfterUs =
    cost === 0 ? 0 : cost > limit ? NEVER : freedAtUs(log, total + before + cost - limit) + windowUs - nowUs;
  out.resetAfterUs = first < records ? newestUs + windowUs - nowUs : 0;
  out.spent = undefined;
  return out;
}

/** What comes after a lease is logged no earlier than its end: so much of the quota may be left unused. */
const LEASE_PART = 50;
const MAX_LEASE_US = 1_000_000;

function leaseLifeUs({ windowUs }: CompiledLog): number {
  return Math.min(MAX_LEASE_US, Math.floor(windowUs / LEASE_PART));
}

function chargeLease(
  state: SlidingWindowLogState | undefined,
  numbers: CompiledLog,
  tokens: number,
  nowUs: number,
): ChargedLease<SlidingWindowLogState> | undefined {
  const { limit, windowUs } = numbers;
  const log = afterStepBack(state ?? EMPTY, numbers, nowUs);
  const records = countRecords(log);
  const first = firstLive(log, nowUs - windowUs);
  if (tokens > limit - (totalAt(log, records - 1) - totalAt(log, first - 1))) return undefined;
  const newestUs = first < records ? stampAt(log, records - 1) : 0;
  const endUs = nowUs + leaseLifeUs(numbers);
  const stampUs = Math.max(newestUs, Math.ceil(endUs / numbers.stampUs) * numbers.stampUs);
  return { spent: append(log, first, stampUs, tokens), end: { us: stampUs + windowUs, fraction: 0 } };
}

/** The log itself; after a step back that is not tolerated, one record: everything that counts, counts from now on. */
function afterStepBack(
  log: SlidingWindowLogState,
  { windowUs, stampUs }: CompiledLog,
  nowUs: number,
): SlidingWindowLogState {
  const last = countRecords(log) - 1;
  if (last < 0 || stampAt(log, last) - nowUs <= Math.max(windowUs, TOLERATED_STEP_US)) return log;
  const total = totalAt(log, last) - totalAt(log, firstLive(log, nowUs - windowUs) - 1);
  return [0, Math.ceil(nowUs / stampUs) * stampUs, total];
}

const EMPTY: SlidingWindowLogState = [0];
const MAX_RUNNING_TOTAL = 2 ** 52;

function countRecords(log: SlidingWindowLogState): number {
  return (log.length - 1) / 2;
}

function stampAt(log: SlidingWindowLogState, record: number): number {
  return log[record * 2 + 1] ?? 0;
}

/** Cost admitted up to and including `record`; record -1 is what came before the first. */
function totalAt(log: SlidingWindowLogState, record: number): number {
  return log[record * 2 + 2] ?? 0;
}

/** The first record in the window: it is half-open, so a stamp exactly at the horizon is out. */
function firstLive(log: SlidingWindowLogState, horizonUs: number): number {
  return firstAfter(log, 2, horizonUs);
}

/** The stamp of the record whose end frees enough: the first with a running total of at least `total`. */
function freedAtUs(log: SlidingWindowLogState, total: number): number {
  let low = 0;
  let high = countRecords(log) - 1;
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
  const records = countRecords(log);
  const total = totalAt(log, records - 1) + cost;
  // Equal stamps share a record. (`concat` makes an array of exactly this size; `push` would leave spare room per key.)
  const joins = first < records && stampAt(log, records - 1) === stampUs;
  const kept = log.slice(first * 2, joins ? -2 : undefined);
  const live = kept.concat(stampUs, total);
  return total > MAX_RUNNING_TOTAL ? startOver(live) : live;
}

/** Running totals only grow: count from the first live record again, long before they could leave 2^53. */
function startOver(log: SlidingWindowLogState): SlidingWindowLogState {
  const before = totalAt(log, -1);
  return log.map((value, at) => (at % 2 === 0 ? value - before : value));
}

function refundSlidingWindowLog(
  log: SlidingWindowLogState,
  { windowUs }: CompiledLog,
  { cost, absentAtUs }: PastCharge,
): SlidingWindowLogState {
  const records = countRecords(log);
  let place = records - 1;
  while (place >= 0 && stampAt(log, place) !== absentAtUs - windowUs) place -= 1;
  if (place < 0) return log;
  const own = totalAt(log, place) - totalAt(log, place - 1);
  if (own < cost) return log;
  // A record of nothing would keep the limit from being as if never used.
  const kept = log.slice(0, place * 2 + 1);
  const later = log.slice((own === cost ? place + 1 : place) * 2 + 1);
  return kept.concat(later.map((value, at) => (at % 2 === 0 ? value : value - cost)));
}
