import type { CheckOptions } from '../check-arguments.ts';
import type { Decision } from '../decision.ts';
import { LimiterError } from '../errors.ts';
import type { Limit } from '../limit.ts';
import { fromApplication, type Eventually } from './eventually.ts';
import type { Checker } from './rate-limit-options.ts';

export type Check = (limits: readonly Limit[], options: CheckOptions) => Eventually<Decision>;

/** Asks a limiter without waiting where it can answer so. Which kind it is shows at the first request. */
export function checkAtOnce(limiter: Checker): Check {
  let canAnswer = true;
  return (limits, options) => {
    if (!canAnswer || limiter.checkSync === undefined) return fromApplication(limiter.check(limits, options));
    try {
      return limiter.checkSync(limits, saysNothing(options) ? undefined : options);
    } catch (error) {
      if (!(error instanceof LimiterError) || error.code !== 'SYNC_UNSUPPORTED') throw error;
      canAnswer = false;
      return fromApplication(limiter.check(limits, options));
    }
  };
}

/** Most requests cost 1 and have no signal: what says nothing need not be checked either. */
function saysNothing({ cost, signal }: CheckOptions): boolean {
  return cost === 1 && signal === undefined;
}
