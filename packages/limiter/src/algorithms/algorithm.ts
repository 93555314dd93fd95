/** What an algorithm answers for one Limit. Every time is an integer number of microseconds. */
export class Outcome<State> {
  allowed = false;
  /** The largest cost that would still be allowed at this instant, after this decision. */
  remaining = 0;
  /** 0 when allowed, {@link NEVER} when the cost can never fit, else the smallest sufficient wait. */
  retryAfterUs = 0;
  /** The smallest wait after which the state equals "never used"; it is also the exact time to live. */
  resetAfterUs = 0;
  /** How long an allowed request has to wait for its turn. Only a queue (leaky bucket) ever asks for a wait. */
  delayUs = 0;
  /** The state to keep if the whole check is admitted. Absent when there is nothing to spend. */
  spent: State | undefined = undefined;
  /**
   * The state to keep if the check is *not* admitted. Only set when the stored state was written under
   * other numbers and has to be carried over; otherwise a request that is not admitted never writes.
   */
  carried: State | undefined = undefined;
}

/** `retryAfterUs` of a cost that no wait can make fit. */
export const NEVER = -1;

/**
 * A pure function that decides one Limit, and what a store has to know to drop its state. Everything it needs comes in,
 * everything it decided goes out: it reads no clock and no store, and it never changes the state it was given.
 * (Methods rather than function-typed fields: a store holds algorithms of different states in one list.)
 */
export interface Algorithm<Numbers, State> {
  readonly name: AlgorithmName;
  /**
   * Answers in `out`, which is also what it returns. Left out, it is a new one; a store that decides millions of times
   * reuses one, because every fraction in a new object is another allocation.
   */
  decide(
    state: State | undefined,
    numbers: Numbers,
    cost: number,
    nowUs: number,
    out?: Outcome<State>,
  ): Outcome<State>;
  /** The first microsecond at which the state decides exactly like no state at all. */
  absentAtUs(state: State, numbers: Numbers): number;
}

export interface Look<Numbers, State> {
  readonly algorithm: Algorithm<Numbers, State>;
  readonly numbers: Numbers;
  readonly cost: number;
  readonly nowUs: number;
}

/** Decides without spending: whether `cost` would be allowed, beside what is there now. */
export function decideWithoutSpending<Numbers, State>(
  { algorithm, numbers, cost, nowUs }: Look<Numbers, State>,
  state: State | undefined,
  out: Outcome<State> = new Outcome(),
): Outcome<State> {
  const { allowed, retryAfterUs, delayUs } = algorithm.decide(state, numbers, cost, nowUs);
  algorithm.decide(state, numbers, 0, nowUs, out);
  out.allowed = allowed;
  out.retryAfterUs = retryAfterUs;
  out.delayUs = delayUs;
  return out;
}

/**
 * Doubles hold every integer up to 2^53, so sums stay exact while both halves stay below 2^52.
 * As a clock this is the year 2112; as a span it is 142 years.
 */
export const MAX_TIME_US: number = 2 ** 52;

export type AlgorithmName =
  | 'tokenBucket'
  | 'leakyBucket'
  | 'fixedWindow'
  | 'slidingWindowLog'
  | 'slidingWindowCounter';
