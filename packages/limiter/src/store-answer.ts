import { NEVER } from './algorithms/algorithm.ts';
import { show } from './errors.ts';
import type { StoreVerdict } from './stores/store.ts';

/** A verdict as it may come over a network, whatever its type says. */
type Claim = { readonly [Field in keyof StoreVerdict]?: unknown } | null | undefined;

/**
 * Throws unless this is what a store promises: one verdict per limit, in whole numbers that agree with each other.
 * Anything else counts as a failure of the store; taken at its word, it could deny forever or allow without a count.
 */
export function requireVerdicts(answer: readonly Claim[] | null | undefined, count: number): void {
  if (!Array.isArray(answer)) throw new TypeError(`it answered ${show(answer)} instead of verdicts`);
  if (answer.length !== count)
    throw new TypeError(`it answered ${answer.length} verdicts for ${count} limits`);
  const claims: readonly Claim[] = answer;
  // By index rather than by iterator: a hole in the list counts too.
  for (let at = 0; at < count; at += 1) requireVerdict(claims[at]);
}

function requireVerdict(claim: Claim): void {
  if (typeof claim !== 'object' || claim === null) {
    throw new TypeError(`it answered ${show(claim)} instead of a verdict`);
  }
  const { allowed, remaining, retryAfterUs, resetAfterUs, delayUs } = claim;
  if (
    !isAmount(remaining) ||
    !(isAmount(retryAfterUs) || retryAfterUs === NEVER) ||
    !isAmount(resetAfterUs) ||
    !isAmount(delayUs) ||
    // A boolean, too: an allowed request need not wait, and a denied one must.
    allowed !== (retryAfterUs === 0)
  ) {
    throw new TypeError(
      `it answered a verdict that cannot be (allowed ${show(allowed)}, remaining ${show(remaining)}, ` +
        `retryAfterUs ${show(retryAfterUs)}, resetAfterUs ${show(resetAfterUs)}, delayUs ${show(delayUs)})`,
    );
  }
}

function isAmount(value: unknown): boolean {
  return typeof value === 'number' && Number.isSafeInteger(value) && value >= 0;
}
