import { LimiterError, show, type ErrorCode } from './errors.ts';
import { oneLine } from './one-line.ts';

/**
 * What answers while the store cannot: everyone passes, nobody passes, or a local store with the same policies decides.
 */
export type FailurePolicy = 'passThrough' | 'failClosed' | 'inMemoryFallback';

const FAILURE_POLICIES: readonly FailurePolicy[] = ['passThrough', 'failClosed', 'inMemoryFallback'];

/** Left out is fine; `code` says whose mistake anything else is. */
export function requireFailurePolicy(value: FailurePolicy | undefined, code: ErrorCode): void {
  if (value === undefined || FAILURE_POLICIES.includes(value)) return;
  throw new LimiterError(
    code,
    `failurePolicy is ${show(value)}; choose one of ${FAILURE_POLICIES.map(show).join(', ')}.`,
  );
}

export function storeFailure(failure: unknown): LimiterError {
  if (failure instanceof LimiterError) return failure;
  const reason = failure instanceof Error ? oneLine(failure.message) : show(failure);
  return new LimiterError('STORE_UNAVAILABLE', `The store could not decide: ${reason}`, { cause: failure });
}
