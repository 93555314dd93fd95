import { LimiterError, show } from './errors.ts';
import { requireFailurePolicy, type FailurePolicy } from './failure-policy.ts';
import { Limit } from './limit.ts';
import { requireOptionNames } from './options.ts';

export const MAX_LIMITS_PER_CHECK = 32;

export interface CheckOptions {
  /** Units this request spends: an integer >= 0; 0 only looks. Default: 1. */
  readonly cost?: number | undefined;
  /** Gives up waiting for the store; the call then rejects with the signal's reason. */
  readonly signal?: AbortSignal | undefined;
  /** Who answers this call if the store cannot. Default: what each policy says, else the limiter's `failurePolicy`. */
  readonly failurePolicy?: FailurePolicy | undefined;
}

/** The limits of one call: one to 32, none twice. A copy, so that nobody changes them while a store decides. */
export function acceptLimits(limits: unknown): readonly Limit[] {
  if (limits instanceof Limit) return [limits];
  if (!Array.isArray(limits)) {
    throw new LimiterError(
      'INVALID_LIMITS',
      `The limits are ${show(limits)}; expected policy.for(key), or an array of these.`,
    );
  }
  if (limits.length < 1 || limits.length > MAX_LIMITS_PER_CHECK) {
    throw new LimiterError(
      'INVALID_LIMITS',
      `One call got ${limits.length} limits; expected 1 to ${MAX_LIMITS_PER_CHECK}: split the request or drop limits.`,
    );
  }
  // Nearly every call is about one limit, and a list that grows takes room for many.
  const accepted: Limit[] = [acceptLimit(limits[0], 0)];
  // By index rather than by iterator: a hole in the array counts too.
  for (let at = 1; at < limits.length; at += 1)
    accepted.push(acceptAnother(acceptLimit(limits[at], at), accepted));
  return accepted;
}

function acceptLimit(limit: unknown, at: number): Limit {
  if (limit instanceof Limit) return limit;
  throw new LimiterError(
    'INVALID_LIMITS',
    `limits[${at}] is ${show(limit)}; expected what policy.for(key) returns.`,
  );
}

function acceptAnother(limit: Limit, before: readonly Limit[]): Limit {
  if (before.some((other) => isSameState(limit, other))) {
    throw new LimiterError(
      'DUPLICATE_LIMIT',
      `Policy ${show(limit.policy.name)} stands twice for key ${show(limit.key)} in one call; name it once and raise the cost.`,
    );
  }
  return limit;
}

function isSameState(limit: Limit, other: Limit): boolean {
  return limit.stateKey === other.stateKey && limit.plan.stateId === other.plan.stateId;
}

/** A limit of which one particular slot is taken, renewed and released. */
export class SlotLimit extends Limit {}

/** What is checked has to end by itself: a slot does only when its holder says so. */
export function requireNoSlots(limits: readonly Limit[]): void {
  for (const limit of limits) {
    if (limit.plan.algorithm.slots === undefined || limit instanceof SlotLimit) continue;
    throw new LimiterError(
      'SLOT_REQUIRED',
      `Policy ${show(limit.policy.name)} limits concurrency, and check() cannot tell when the request has ended: use acquire() and release the slot, or peek() to look.`,
    );
  }
}

/** The cost a call asks for; throws the signal's reason if the caller has already given up. */
export function acceptCost(options: CheckOptions | undefined): number {
  if (options === undefined) return 1;
  requireOptionNames('The options of a check', options, ['cost', 'signal', 'failurePolicy']);
  const { cost = 1, signal, failurePolicy } = options;
  requireFailurePolicy(failurePolicy, 'INVALID_OPTION');
  if (signal !== undefined) {
    if (!isAbortSignal(signal)) {
      throw new LimiterError(
        'INVALID_OPTION',
        `signal is ${show(signal)}; expected an AbortSignal, such as AbortSignal.timeout(100).`,
      );
    }
    signal.throwIfAborted();
  }
  if (Number.isSafeInteger(cost) && cost >= 0) return cost;
  throw new LimiterError(
    'INVALID_COST',
    `cost is ${show(cost)}; expected an integer from 0 to ${Number.MAX_SAFE_INTEGER}: round it before the call.`,
  );
}

/**
 * By what it can do: that of another realm, as sandboxes of edge runtimes have it, is not an instance of the
 * `AbortSignal` here.
 */
function isAbortSignal(signal: unknown): boolean {
  return (
    typeof signal === 'object' &&
    signal !== null &&
    'addEventListener' in signal &&
    'throwIfAborted' in signal
  );
}
