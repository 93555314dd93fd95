// Who is denied too often is denied for a while. Kept beside a limit's own state, whatever its algorithm is.
import {
  decideWithoutSpending,
  NEVER,
  type Outcome,
  type AnyState,
  type PeekRequest,
  TOLERATED_STEP_US,
} from '../algorithm.ts';

/** When a block begins, and how long it lasts. */
export interface PenaltyNumbers {
  /** The denial that begins it. */
  readonly after: number;
  /** Denials count for so long. */
  readonly withinUs: number;
  /** How long the block lasts. */
  readonly forUs: number;
}

/**
 * Until when the key is blocked, 0 where it is not, and then the moments of the denials that count, the oldest first: a
 * block begins with none.
 */
export type PenaltyState = readonly number[];

/** How long the block of a key still lasts, 0 where there is none. */
export function penaltyLeftUs(
  state: PenaltyState | undefined,
  { forUs }: PenaltyNumbers,
  nowUs: number,
): number {
  const leftUs = (state?.[0] ?? 0) - nowUs;
  if (leftUs <= 0) return 0;
  // Longer than any block: the clock stepped back, or blocks have become shorter.
  return leftUs - forUs > Math.max(forUs, TOLERATED_STEP_US) ? forUs : leftUs;
}

/** What one more denial makes of a key that is not blocked. */
export function penaltyAfterDenial(
  state: PenaltyState | undefined,
  { after, withinUs, forUs }: PenaltyNumbers,
  nowUs: number,
): PenaltyState {
  const denials = (state ?? []).slice(1).filter((atUs) => atUs > nowUs - withinUs);
  if (denials.length + 1 >= after) return [nowUs + forUs];
  const newestUs = denials.at(-1) ?? nowUs;
  // After a step back that is not tolerated, what counts counts from now on.
  if (newestUs - nowUs > Math.max(withinUs, TOLERATED_STEP_US))
    return [0, ...denials.map(() => nowUs), nowUs];
  return [0, ...denials, Math.max(newestUs, nowUs)];
}

/** The first microsecond at which the state is as good as none. */
export function penaltyAbsentAtUs(state: PenaltyState, { withinUs }: PenaltyNumbers): number {
  const [untilUs = 0] = state;
  return untilUs > 0 ? untilUs : (state.at(-1) ?? 0) + withinUs;
}

/** What a limit answers to a key that is blocked: nothing passes before both the block and the limit allow it. */
export function decideBlocked(
  request: PeekRequest,
  state: AnyState | undefined,
  leftUs: number,
  out?: Outcome<AnyState>,
): Outcome<AnyState> {
  const outcome = decideWithoutSpending(request, state, out);
  outcome.allowed = false;
  outcome.remaining = 0;
  if (outcome.retryAfterUs !== NEVER) outcome.retryAfterUs = Math.max(outcome.retryAfterUs, leftUs);
  outcome.resetAfterUs = Math.max(outcome.resetAfterUs, leftUs);
  outcome.delayUs = 0;
  outcome.spent = undefined;
  return outcome;
}
