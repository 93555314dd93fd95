import { NEVER } from './algorithms/algorithm.ts';
import type { Limit } from './limit.ts';
import type { StoreVerdict } from './stores/store.ts';

/**
 * The verdicts of a check one of whose limits is blocked; undefined where the store has to be asked. The clock is read
 * only where somebody was blocked.
 */
export function blockedVerdicts(
  limits: readonly Limit[],
  readNowUs: () => number,
): readonly StoreVerdict[] | undefined {
  if (limits.every(isNeverBlocked)) return undefined;
  const nowUs = readNowUs();
  const leftUs = limits.map(({ plan: { blockedUntilUs = 0 } }) => Math.max(0, blockedUntilUs - nowUs));
  return leftUs.every((us) => us === 0) ? undefined : leftUs.map(verdictFor);
}

function isNeverBlocked({ plan }: Limit): boolean {
  return plan.blockedUntilUs === undefined;
}

/** A limit beside a blocked one has nothing against the request, and is not asked what it has left. */
function verdictFor(leftUs: number): StoreVerdict {
  const retryAfterUs = leftUs === Infinity ? NEVER : Math.ceil(leftUs);
  const resetAfterUs = leftUs === Infinity ? 0 : retryAfterUs;
  return { allowed: leftUs === 0, remaining: 0, retryAfterUs, resetAfterUs, delayUs: 0, local: 'block' };
}
