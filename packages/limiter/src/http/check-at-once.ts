import type { CheckOptions } from '../check-arguments.ts';
import type { Decision } from '../decision.ts';
import { LimiterError } from '../errors.ts';
import type { FailurePolicy } from '../failure-policy.ts';
import type { Limit } from '../limit.ts';
import { fromApplication, type Eventually } from './eventually.ts';
import type { Checker } from './rate-limit-options.ts';

export type Check = (
  limits: readonly Limit[],
  cost: number,
  signal: AbortSignal | undefined,
) => Eventually<Decision>;

/** Asks a limiter without waiting where it can answer so. Which kind it is shows at the first request. */
export function checkAtOnce(limiter: Checker, failurePolicy: FailurePolicy | undefined): Check {
  let canAnswer = true;
  const ask = (limits: readonly Limit[], options: CheckOptions): Eventually<Decision> =>
    fromApplication(limiter.check(limits, options));
  return (limits, cost, signal) => {
    if (!canAnswer || limiter.checkSync === undefined) return ask(limits, { cost, signal, failurePolicy });
    // Most requests cost 1 and have no signal: options that say nothing need neither be made nor checked.
    const sayNothing = cost === 1 && signal === undefined && failurePolicy === undefined;
    try {
      return limiter.checkSync(limits, sayNothing ? undefined : { cost, signal, failurePolicy });
    } catch (error) {
      if (!(error instanceof LimiterError) || error.code !== 'SYNC_UNSUPPORTED') throw error;
      canAnswer = false;
      return ask(limits, { cost, signal, failurePolicy });
    }
  };
}
