import type { Decision } from '../decision.ts';
import { retryAfterSeconds } from './rate-limit-headers.ts';

/** RFC 9457. */
export interface ProblemDetails {
  readonly type: string;
  readonly title: string;
  readonly status: number;
  readonly detail: string;
  /** On a denial: the names of the policies that denied. */
  readonly 'violated-policies'?: readonly string[];
  /** On a denial: the exact wait, or null when no wait helps because the request costs more than the limit. */
  readonly retryAfterMs?: number | null;
  /** On a denial of a key that its policy blocks: why, and for how long. */
  readonly penalty?: { readonly reason: string; readonly endsInMs: number };
}

/** draft-ietf-httpapi-ratelimit-headers, section 5.1. */
const QUOTA_EXCEEDED = 'https://iana.org/assignments/http-problem-types#quota-exceeded';
const QUOTA_EXCEEDED_TITLE = 'Request cannot be satisfied as assigned quota has been exceeded';

export function quotaExceeded(decision: Decision): ProblemDetails {
  const { policy, limit, retryAfterMs, verdicts, penalty } = decision;
  const seconds = retryAfterSeconds(decision);
  return {
    type: QUOTA_EXCEEDED,
    title: QUOTA_EXCEEDED_TITLE,
    status: 429,
    detail:
      seconds === undefined
        ? `This request costs more than the policy "${policy}" ever admits at once, which is ${limit}. Waiting does not help.`
        : penalty === undefined
          ? `The policy "${policy}" admits this request again in ${seconds} s.`
          : `The policy "${policy}" has blocked this client, which was ${penalty.reason}. It admits this request again in ${seconds} s.`,
    'violated-policies': verdicts.filter((verdict) => !verdict.allowed).map((verdict) => verdict.policy),
    retryAfterMs: retryAfterMs === Infinity ? null : retryAfterMs,
    ...(penalty === undefined ? {} : { penalty: { reason: penalty.reason, endsInMs: penalty.endsInMs } }),
  };
}

/** A problem that the status says everything about. */
export function plainProblem(status: number, detail: string): ProblemDetails {
  return { type: 'about:blank', title: reasonPhrase(status), status, detail };
}

/** Statuses that an answer of ours may have; edge runtimes have no list of them. */
const REASON_PHRASES: ReadonlyMap<number, string> = new Map([
  [400, 'Bad Request'],
  [403, 'Forbidden'],
  [429, 'Too Many Requests'],
  [500, 'Internal Server Error'],
  [502, 'Bad Gateway'],
  [503, 'Service Unavailable'],
  [504, 'Gateway Timeout'],
]);

export function reasonPhrase(status: number): string {
  return REASON_PHRASES.get(status) ?? (status < 500 ? 'Request Refused' : 'Request Failed');
}
