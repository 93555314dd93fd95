import { NEVER } from './algorithms/algorithm.ts';
import type { Limit } from './limit.ts';
import { penaltyReason } from './policy-block.ts';
import type { StoreVerdict } from './stores/store.ts';

/** The answer for one Limit. Milliseconds carry microsecond resolution. */
export interface Verdict {
  /** The policy's name. */
  readonly policy: string;
  readonly key: string;
  readonly allowed: boolean;
  /** The largest cost this limit can ever admit. */
  readonly limit: number;
  /** The largest cost that would still be allowed at this instant. */
  readonly remaining: number;
  /** 0 when allowed; else the smallest wait after which this cost is allowed; Infinity when it can never fit. */
  readonly retryAfterMs: number;
  /** When the limit is as if it had never been used. */
  readonly resetAfterMs: number;
  /** How long an allowed request has to wait for its turn (leaky bucket), else 0. */
  readonly delayMs: number;
  /** Set while the key is blocked because it was denied too often: see `block` of a policy. */
  readonly penalty: Penalty | undefined;
}

/** The block that a key has brought upon itself. */
export interface Penalty {
  /** How long it lasts. Afterwards the limit may deny for longer: `retryAfterMs` says when both allow it. */
  readonly endsInMs: number;
  /** `'denied 5 times within 1m'` */
  readonly reason: string;
  /** True for the denial that began it. */
  readonly began: boolean;
}

/**
 * Who made a decision: the store, a lease from it, a denial of it that still holds, a block of the key, the shared
 * state of a full store, the local fallback, or the failure policy alone.
 */
export type DecisionSource = (typeof DECISION_SOURCES)[number];

export const DECISION_SOURCES = [
  'store',
  'lease',
  'denialCache',
  'block',
  'overflow',
  'fallback',
  'failurePolicy',
] as const;

/** The answer for a request: the limit that denied speaks, else the one with the least left. */
export interface Decision extends Verdict {
  /** One per limit, in the order they were given. */
  readonly verdicts: readonly Verdict[];
  readonly source: DecisionSource;
  /** True when the store could not decide, and `source` answered in its place. */
  readonly degraded: boolean;
  /** Why the store could not decide; undefined when it did. */
  readonly cause: unknown;
}

/** Why and by whom a decision was made when it was not simply the store. */
export interface Degradation {
  readonly source: 'fallback' | 'failurePolicy';
  readonly cause: unknown;
}

export function toDecision(
  limits: readonly Limit[],
  answers: readonly StoreVerdict[],
  degradation?: Degradation,
): Decision {
  const [first] = limits;
  const [answer] = answers;
  if (first === undefined || answer === undefined)
    throw new RangeError('a store has to give one verdict per limit');
  if (limits.length === 1) return new SingleDecision(first, answer, degradation);
  const verdicts = limits.map((limit, at) => toVerdict(limit, answers[at]));
  const speaker = verdicts.reduce((chosen, verdict) => (speaksBefore(verdict, chosen) ? verdict : chosen));
  const remaining = Math.min(...verdicts.map((verdict) => verdict.remaining));
  const delayMs = speaker.allowed ? Math.max(...verdicts.map((verdict) => verdict.delayMs)) : 0;
  const source =
    degradation?.source ?? sourceOf(answers.find(({ overflow }) => overflow === true) ?? answers[0]);
  return speakFor({ ...speaker, remaining, delayMs }, verdicts, source, degradation);
}

/**
 * Nearly every decision is about one limit, and this is one object for it: its verdict repeats its fields, and is made
 * for whoever asks. The fields are declared only: defined, each would be written twice.
 */
class SingleDecision implements Decision {
  declare readonly policy: string;
  declare readonly key: string;
  declare readonly allowed: boolean;
  declare readonly limit: number;
  declare readonly remaining: number;
  declare readonly retryAfterMs: number;
  declare readonly resetAfterMs: number;
  declare readonly delayMs: number;
  declare readonly penalty: Penalty | undefined;
  declare readonly source: DecisionSource;
  declare readonly degraded: boolean;
  declare readonly cause: unknown;

  constructor(limit: Limit, answer: StoreVerdict, degradation: Degradation | undefined) {
    this.policy = limit.policy.name;
    this.key = limit.key;
    this.allowed = answer.allowed;
    this.limit = limit.plan.limit;
    this.remaining = answer.remaining;
    this.retryAfterMs = answer.retryAfterUs === NEVER ? Infinity : answer.retryAfterUs / 1000;
    this.resetAfterMs = answer.resetAfterUs / 1000;
    this.delayMs = answer.delayUs / 1000;
    this.penalty = penaltyOf(limit, answer);
    this.source = degradation?.source ?? sourceOf(answer);
    this.degraded = degradation !== undefined;
    this.cause = degradation?.cause;
  }

  get verdicts(): readonly Verdict[] {
    const { policy, key, allowed, limit, remaining, retryAfterMs, resetAfterMs, delayMs, penalty } = this;
    return [{ policy, key, allowed, limit, remaining, retryAfterMs, resetAfterMs, delayMs, penalty }];
  }

  toJSON(): Decision {
    return Object.assign({}, this, { verdicts: this.verdicts });
  }
}

// Spelled out rather than spread: this runs for every request, and a spread with other keys is many times slower.
function speakFor(
  speaker: Verdict,
  verdicts: readonly Verdict[],
  source: DecisionSource,
  degradation: Degradation | undefined,
): Decision {
  return {
    policy: speaker.policy,
    key: speaker.key,
    allowed: speaker.allowed,
    limit: speaker.limit,
    remaining: speaker.remaining,
    retryAfterMs: speaker.retryAfterMs,
    resetAfterMs: speaker.resetAfterMs,
    delayMs: speaker.delayMs,
    penalty: speaker.penalty,
    verdicts,
    source,
    degraded: degradation !== undefined,
    cause: degradation?.cause,
  };
}

function sourceOf(answer: StoreVerdict | undefined): DecisionSource {
  return answer?.overflow === true ? 'overflow' : (answer?.local ?? 'store');
}

function toVerdict(limit: Limit | undefined, answer: StoreVerdict | undefined): Verdict {
  if (limit === undefined || answer === undefined)
    throw new RangeError('a store has to give one verdict per limit');
  return {
    policy: limit.policy.name,
    key: limit.key,
    allowed: answer.allowed,
    limit: limit.plan.limit,
    remaining: answer.remaining,
    retryAfterMs: answer.retryAfterUs === NEVER ? Infinity : answer.retryAfterUs / 1000,
    resetAfterMs: answer.resetAfterUs / 1000,
    delayMs: answer.delayUs / 1000,
    penalty: penaltyOf(limit, answer),
  };
}

function penaltyOf({ plan }: Limit, { penaltyLeftUs = 0, penaltyBegan }: StoreVerdict): Penalty | undefined {
  if (plan.penalty === undefined || penaltyLeftUs === 0) return undefined;
  return {
    endsInMs: penaltyLeftUs / 1000,
    reason: penaltyReason(plan.penalty),
    began: penaltyBegan === true,
  };
}

/** A denial speaks before an admission, the longest wait before a shorter one, the least left before more. */
function speaksBefore(verdict: Verdict, other: Verdict): boolean {
  if (verdict.allowed !== other.allowed) return !verdict.allowed;
  return verdict.allowed ? verdict.remaining < other.remaining : verdict.retryAfterMs > other.retryAfterMs;
}
