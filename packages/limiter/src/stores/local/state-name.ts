import type { Limit } from '../../limit.ts';

/**
 * The one name of a limit's state within a process: policies of other names or algorithms have other states for a key.
 */
export function stateName({ plan, stateKey }: Limit): string {
  return `${plan.stateId}\n${stateKey}`;
}
