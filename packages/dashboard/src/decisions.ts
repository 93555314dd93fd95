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
    case 'unidentified':
      return 'what it shows about who is asking is not valid';
    case 'preflightRefused':
      return 'a preflight that cors does not allow';
    case 'maintenance':
      return 'closed for maintenance';
    case 'authorization':
      return 'the authorization service refuses it';
    case 'authorizationUnavailable':
      return 'the authorization service did not answer';
    default:
      return reason;
  }
}

export const OUTCOME_WORDS = {
  allowed: { name: 'Allowed', pill: 'allowed' },
  denied: { name: 'Denied', pill: 'denied' },
  wouldDeny: { name: 'Shadow', pill: 'shadow' },
} as const;

export interface DeniedClient {
  readonly key: string;
  readonly count: number;
  /** Why the last of them was denied. */
  readonly reason: string;
}

/** Whose requests were denied most among these, with shadow mode left out: nobody noticed that. */
export function mostDenied(lines: readonly RecentLine[], most: number): readonly DeniedClient[] {
  const byKey = new Map<string, { count: number; readonly reason: string }>();
  for (const line of lines) {
    if (line.outcome !== 'denied') continue;
    const key = line.keys[0] ?? line.client ?? '';
    const known = byKey.get(key);
    if (known === undefined) byKey.set(key, { count: 1, reason: blamedOn(line) });
    else known.count += 1;
  }
  return [...byKey]
    .map(([key, counted]) => ({ key, ...counted }))
    .toSorted((one, other) => other.count - one.count)
    .slice(0, most);
}

/** The policy, or what else there is to blame. */
function blamedOn(line: RecentLine): string {
  return line.reason === 'limits' ? (line.policy ?? 'a policy') : reasonOf(line);
}
