import type { CheckOptions } from '../check-arguments.ts';
import type { Decision } from '../decision.ts';
import { LimiterError } from '../errors.ts';
import type { Limit } from '../limit.ts';
import { fromApplication, type Eventually } from './eventually.ts';
import type { Checker } from './rate-limit-options.ts';

export type Check = (
  limits: readonly Limit[],
  cost: number,
  signal: AbortSignal | undefined,
) => Eventually<Decision>;

/** Asks a limiter without waiting where it can answer so. Which kind it is shows at the first request. */
export function checkAtOnce(limiter: Checker): Check {
  let canAnswer = true;
  return (limits, cost, signal) => {
    if (!canAnswer || limiter.checkSync === undefined) {
      return fromApplication(limiter.check(limits, { cost, signal }));
    }
    try {
      return limiter.checkSync(limits, atOnce(cost, signal));
    } catch (error) {
      if (!(error instanceof LimiterError) || error.code !== 'SYNC_UNSUPPORTED') throw error;
      canAnswer = false;
      return fromApplication(limiter.check(limits, { cost, signal }));
    }
  };
}

/** Most requests cost 1 and have no signal: options that say nothing need neither be made nor checked. */
function atOnce(cost: number, signal: AbortSignal | undefined): CheckOptions | undefined {
  return cost === 1 && signal === undefined ? undefined : { cost, signal };
}
