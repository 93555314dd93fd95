import type { RecentDecisions } from 'spillgate-gateway';
import { span } from './words.ts';

export type RecentLine = RecentDecisions['decisions'][number];

/** Why a request was denied, or would have been, in a few words. */
export function reasonOf({ reason, policy, retryAfterMs, outcome }: RecentLine): string {
  switch (reason) {
    case 'limits':
      if (outcome === 'allowed') return policy === undefined ? 'within its limits' : `within ${policy}`;
      return retryAfterMs === undefined
        ? `costs more than ${policy ?? 'the policy'} ever admits`
        : `${policy ?? 'the policy'} is used up, the next in ${span(retryAfterMs)}`;
    case 'denyList':
      return 'on a deny list';
    case 'allowList':
      return 'on an allow list';
    case 'missingKey':
      return 'does not say who is asking';
    case 'ambiguousPath':
      return 'ambiguous path';
    case 'storeFailure':
      return 'the store did not answer';
    case 'unlimited':
      return 'not limited';
    default:
      return reason;
  }
}

export const OUTCOME_WORDS = {
  allowed: { name: 'Allowed', pill: 'allowed' },
  denied: { name: 'Denied', pill: 'denied' },
  wouldDeny: { name: 'Shadow', pill: 'shadow' },
} as const;
