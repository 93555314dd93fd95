/**
 * What one algorithm promises, as predicates over the history of admissions. A definition keeps no
 * compact state and knows no formula for a wait: every answer is searched for in `fits`.
 */
export interface Definition<History> {
  /** The largest cost that fits when nothing was ever admitted. */
  readonly limit: number;
  fits(history: History | undefined, cost: number, nowUs: number): boolean;
  /** The whole part of what is free. Not trusted: see {@link availableAt}. */
  available(history: History | undefined, nowUs: number): number;
  /** How long a request admitted at this instant waits for its turn. */
  delayUs(history: History | undefined, nowUs: number): number;
  admit(history: History | undefined, cost: number, nowUs: number): History;
  /**
   * What the history becomes when it is so far ahead of the clock that the clock must have stepped back by more than a
   * full limit lasts; undefined where it is not. What counted then counts as if it had been admitted now.
   */
  stepBack(history: History, nowUs: number): History | undefined;
  /** A moment by which nothing in the history matters any more. Only bounds the searches. */
  horizonUs(history: History): number;
  /**
   * The most that may be admitted in a row by clocks that all read something in [fromUs, toUs], whatever was
   * admitted before and in whatever order the clocks' readings arrive, as long as none is further behind another than
   * {@link toleratedUs}.
   */
  mostBetween(fromUs: number, toUs: number): bigint;
  /** The most that may be admitted by a clock that reads these moments one after the other, however it steps. */
  mostAlong(readingsUs: readonly number[]): bigint;
  /** Clocks that differ by at most this cannot be played against each other. */
  readonly toleratedUs: number;
}

export interface Answer {
  readonly allowed: boolean;
  readonly remaining: number;
  readonly retryAfterUs: number;
  readonly resetAfterUs: number;
  readonly delayUs: number;
}

/** One key under one policy, decided by definition. */
export interface Model {
  readonly limit: number;
  check(cost: number, nowUs: number): Answer;
  /** The answer `check` would give; records nothing. */
  peek(cost: number, nowUs: number): Answer;
}

export function modelOf<History>(definition: Definition<History>): Model {
  let history: History | undefined;
  return {
    limit: definition.limit,
    check(cost, nowUs) {
      const decided = decide(definition, history, cost, nowUs);
      history = decided.history;
      return decided.answer;
    },
    peek: (cost, nowUs) => decide(definition, history, cost, nowUs).answer,
  };
}

function decide<History>(
  definition: Definition<History>,
  before: History | undefined,
  cost: number,
  nowUs: number,
): { answer: Answer; history: History | undefined } {
  const known = before === undefined ? undefined : (definition.stepBack(before, nowUs) ?? before);
  const allowed = cost === 0 || definition.fits(known, cost, nowUs);
  const history = allowed && cost > 0 ? definition.admit(known, cost, nowUs) : known;
  const answer = {
    allowed,
    remaining: availableAt(definition, history, nowUs),
    retryAfterUs: allowed ? 0 : retryAfterUs(definition, known, cost, nowUs),
    resetAfterUs: resetAfterUs(definition, history, nowUs),
    delayUs: allowed ? definition.delayUs(known, nowUs) : 0,
  };
  // A request of cost 0 only looks: what it saw of a step is not kept.
  return { answer, history: cost === 0 ? before : history };
}

/** The largest cost that fits, checked against the definition from both sides. */
function availableAt<History>(
  definition: Definition<History>,
  history: History | undefined,
  nowUs: number,
): number {
  const available = definition.available(history, nowUs);
  const isLargest =
    (available === 0 || definition.fits(history, available, nowUs)) &&
    !definition.fits(history, available + 1, nowUs);
  if (!isLargest)
    throw new Error(`the model contradicts itself: ${available} is not the largest fit at ${nowUs}`);
  return available;
}

function retryAfterUs<History>(
  definition: Definition<History>,
  history: History | undefined,
  cost: number,
  nowUs: number,
): number {
  if (history === undefined || cost > definition.limit) return -1;
  const horizonUs = definition.horizonUs(history);
  return earliest(nowUs + 1, horizonUs, (atUs) => definition.fits(history, cost, atUs)) - nowUs;
}

function resetAfterUs<History>(
  definition: Definition<History>,
  history: History | undefined,
  nowUs: number,
): number {
  if (history === undefined) return 0;
  const horizonUs = Math.max(nowUs, definition.horizonUs(history));
  return earliest(nowUs, horizonUs, (atUs) => isLikeUnused(definition, history, atUs)) - nowUs;
}

/** Nobody can tell the history from an empty one: even the largest request fits, and nobody waits. */
function isLikeUnused<History>(definition: Definition<History>, history: History, atUs: number): boolean {
  return definition.fits(history, definition.limit, atUs) && definition.delayUs(history, atUs) === 0;
}

/** The first whole number in [from, to] for which `holds`; once true it stays true. */
function earliest(from: number, to: number, holds: (candidate: number) => boolean): number {
  if (!holds(to)) throw new Error(`the model contradicts itself: nothing holds from ${from} to ${to}`);
  // Often the bound is the answer itself, and then two probes are enough.
  if (to === from || !holds(to - 1)) return to;
  let low = from;
  let high = to - 1;
  while (low < high) {
    const middle = low + Math.floor((high - low) / 2);
    if (holds(middle)) high = middle;
    else low = middle + 1;
  }
  return low;
}

/** How far a clock went forward in all, without its steps back. */
export function forwardUs(readingsUs: readonly number[]): number {
  let sum = 0;
  for (const [at, readingUs] of readingsUs.entries()) {
    sum += Math.max(0, readingUs - (readingsUs[at - 1] ?? readingUs));
  }
  return sum;
}

/** A step back is tolerated that is no longer than this or than a used-up limit takes until it is as new. */
export function toleratedStepUs(fullUs: number): number {
  return Math.max(5_000_000, fullUs);
}
