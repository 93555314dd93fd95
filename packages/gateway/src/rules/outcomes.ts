import type { Decision } from 'spillgate';
import {
  plainProblem,
  quotaExceeded,
  retryAfterSeconds,
  type HeaderPair,
  type ProblemDetails,
} from 'spillgate/http';
import type { Admission, Refusal, OutcomeDetail } from './rule-outcome.ts';

const NO_HEADERS: readonly HeaderPair[] = [];

/** Where an admitted request goes, and for how long, if the external service overrides the configuration. */
export interface RouteOverrides {
  readonly connectionKey: string | undefined;
  readonly backendUrl: string | undefined;
  readonly timeoutMs: number | undefined;
}

export const NO_OVERRIDES: RouteOverrides = {
  connectionKey: undefined,
  backendUrl: undefined,
  timeoutMs: undefined,
};

export function admit(
  detail: OutcomeDetail,
  { connectionKey, backendUrl, timeoutMs }: RouteOverrides,
  headers: readonly HeaderPair[] = NO_HEADERS,
): Admission {
  return { admitted: true, headers, connectionKey, backendUrl, timeoutMs, detail };
}

export function refuseListed(detail: OutcomeDetail): Refusal {
  return refuse(detail, plainProblem(403, 'This client may not use this service.'));
}

export function refuseWithoutKey(detail: OutcomeDetail, why: string): Refusal {
  return refuse(detail, plainProblem(400, why));
}

/** What holds depends on how the backend reads the path, and that is not known here. */
export function refuseAmbiguous(detail: OutcomeDetail): Refusal {
  return refuse(detail, plainProblem(400, 'The path has a %2F that could be a way around a limit.'));
}

export function refuseOverQuota(
  detail: OutcomeDetail,
  decision: Decision,
  headers: readonly HeaderPair[],
): Refusal {
  return refuse(detail, quotaExceeded(decision), headers);
}

/** The store could not decide, and the policy wants it to. Nothing was counted, so nothing is told about limits. */
export function refuseUndecided(detail: OutcomeDetail, status: number, decision?: Decision): Refusal {
  const seconds = decision === undefined ? undefined : retryAfterSeconds(decision);
  return refuse(detail, plainProblem(status, 'The limits of this request cannot be checked at the moment.'), [
    ['Retry-After', String(seconds ?? 1)],
  ]);
}

function refuse(
  detail: OutcomeDetail,
  problem: ProblemDetails,
  headers: readonly HeaderPair[] = NO_HEADERS,
): Refusal {
  return { admitted: false, problem, headers, detail };
}
