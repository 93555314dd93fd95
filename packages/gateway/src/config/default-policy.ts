import type { Config } from './config.ts';
import type { PolicyConfig } from './schema/policy.ts';

/** The name of the policy that `rate_limit.average`, `burst` and `period` make. */
export const DEFAULT_POLICY = 'default';

/** The policy of requests that no rule matches; undefined if these are not limited. */
export function defaultPolicy({ average, burst, period }: Config['rate_limit']): PolicyConfig | undefined {
  if (average === undefined || average === 0) return undefined;
  return { algorithm: 'tokenBucket', average, burst, period, overrides: [] };
}
