import { LimiterError, show } from './errors.ts';
import type { Limit } from './limit.ts';
import type { StoreVerdict } from './stores/store.ts';

/** Who answers while the store cannot: everybody passes, nobody passes, or a local store with the same policies decides. */
export type FailurePolicy = 'passThrough' | 'failClosed' | 'inMemoryFallback';

export const FAILURE_POLICIES: readonly FailurePolicy[] = ['passThrough', 'failClosed', 'inMemoryFallback'];

/** What `failClosed` tells clients: come back when a short outage could be over. */
const FAIL_CLOSED_RETRY_US = 1_000_000;

/** Verdicts that know nothing of the state: the decision around them says so (`degraded`). */
export function verdictsWithoutStore(
  failurePolicy: FailurePolicy,
  limits: readonly Limit[],
): readonly StoreVerdict[] {
  const allowed = failurePolicy === 'passThrough';
  return limits.map((limit) => ({
    allowed,
    remaining: allowed ? limit.plan.limit : 0,
    retryAfterUs: allowed ? 0 : FAIL_CLOSED_RETRY_US,
    resetAfterUs: 0,
    delayUs: 0,
  }));
}

export function storeFailure(failure: unknown): LimiterError {
  if (failure instanceof LimiterError) return failure;
  const reason = failure instanceof Error ? oneLine(failure.message) : show(failure);
  return new LimiterError('STORE_UNAVAILABLE', `The store could not decide: ${reason}`, { cause: failure });
}

const SHOWN_REASON_LENGTH = 200;

/** A foreign message, which may be a page of text; the whole of it stays in `cause`. */
function oneLine(message: string): string {
  const text = message.replaceAll(/[\p{Cc}\p{Zl}\p{Zp}]+/gu, ' ');
  return text.length > SHOWN_REASON_LENGTH ? `${text.slice(0, SHOWN_REASON_LENGTH)}...` : text;
}
