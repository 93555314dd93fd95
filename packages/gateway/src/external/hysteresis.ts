import { policyAmounts } from '../config/schema/policy.ts';
import type { AnsweredPolicy, LimitsAnswer } from './answer.ts';

export type LimitsChange = 'same' | 'lower' | 'higher' | 'other';

const MIN_HOLD_MS = 10_000;
const MAX_HOLD_MS = 300_000;
const LIFETIMES_HELD = 2;

/** How a new answer's limits compare. `lower`: at least one number got tighter, so waiting would admit too much. */
export function compareLimits(before: LimitsAnswer, after: LimitsAnswer): LimitsChange {
  const one = before.policies.map(comparable);
  const other = after.policies.map(comparable);
  const isLower = other.some((now) => {
    const was = one.find(({ id }) => id === now.id);
    return was === undefined || now.amounts.some((amount, at) => amount < (was.amounts[at] ?? 0));
  });
  if (isLower) return 'lower';
  if (JSON.stringify(one) !== JSON.stringify(other)) return 'higher';
  return meaning(before) === meaning(after) ? 'same' : 'other';
}

/**
 * Whether a raise has to wait: limits that were lowered a moment ago and go up again are a service whose copies disagree, and
 * following each of them would give a tenant a different limit with every answer.
 */
export function holdsRaise(loweredAtMs: number, freshMs: number, nowMs: number): boolean {
  return nowMs - loweredAtMs < Math.min(MAX_HOLD_MS, Math.max(MIN_HOLD_MS, freshMs * LIFETIMES_HELD));
}

/** Everything that a larger number of makes looser. */
function comparable({ name, config }: AnsweredPolicy): {
  readonly id: string;
  readonly amounts: readonly number[];
} {
  return { id: `${name ?? ''}/${config.algorithm}`, amounts: policyAmounts(config) };
}

function meaning({
  tenantKey,
  failurePolicy,
  failureCode,
  backendUrl,
  cost,
  requestTimeoutMs,
}: LimitsAnswer): string {
  return JSON.stringify([tenantKey, failurePolicy, failureCode, backendUrl, cost, requestTimeoutMs]);
}
