import type { Decision } from 'spillgate';
import {
  type Delay,
  type HeaderPair,
  type ProblemDetails,
  plainProblem,
  retryAfterSeconds,
} from 'spillgate/http';
import type { Config } from '../config/config.ts';
import { UNPRINTABLE } from '../config/shown.ts';
import type { BodyFacts, BodyReading } from '../cost/body-fields.ts';
import type { RequestCharge } from '../cost/request-charge.ts';
import type { IdentityProblem } from '../identity/identity.ts';
import type { KeyProblem } from './key-reader.ts';
import type { RequestFacts } from './request-facts.ts';

/** What was found out about a request, for logs, metrics and traces. Keys stay out of metrics. */
export interface OutcomeDetail {
  /** The rule that matched; undefined for the default policy, or when nothing limits the request. */
  readonly rule: string | undefined;
  /** Whom the request was counted for, in the order of the policies. */
  readonly keys: readonly string[];
  /** Undefined if no policy was asked: not limited, allow-listed, deny-listed, or a key is missing. */
  readonly decision: Decision | undefined;
  /** The decision was taken and counted, and not obeyed. */
  readonly shadow: boolean;
  /** What a policy in shadow mode has against the request, though those that hold have nothing. */
  readonly shadowResult?: ShadowResult | undefined;
  /** What was charged, or would have been; left out if no policy was asked. */
  readonly cost?: number | undefined;
  /** What was charged instead by policies with a cost of their own, by name. */
  readonly ownCosts?: ReadonlyMap<string, number> | undefined;
  /** With `unidentified`: what was not accepted and why, such as `apiKey expired`. */
  readonly rejected?: string | undefined;
  /** Why it passed or not, where no policy decided. */
  readonly reason:
    | 'limits'
    | 'unlimited'
    | 'allowList'
    | 'preflight'
    | 'denyList'
    | 'missingKey'
    | 'invalidCost'
    | 'unidentified'
    | 'ambiguousPath'
    | 'storeFailure'
    | EarlyReason;
}

const EARLY_REASONS = [
  'preflightRefused',
  'maintenance',
  'authorization',
  'authorizationUnavailable',
] as const;

/** Why a request never came as far as the rules. */
export type EarlyReason = (typeof EARLY_REASONS)[number];

const WITHOUT_RULES: ReadonlySet<string> = new Set([...EARLY_REASONS, 'unidentified']);

/** Whether the rules were asked about a request. */
export function wasRuled({ reason }: OutcomeDetail): boolean {
  return !WITHOUT_RULES.has(reason);
}

export interface ShadowResult {
  readonly reason: 'limits' | 'missingKey';
  /** Undefined without a key. */
  readonly decision: Decision | undefined;
}

/** Where an admitted request goes, and for how long, if the external service overrides the configuration. */
export interface RouteOverrides {
  /** Who a tunnel (a WebSocket) is counted for; undefined if nobody is. */
  readonly connectionKey: string | undefined;
  /** Another backend than the configured one, already allowed by name; the address is checked when it is dialled. */
  readonly backendUrl: string | undefined;
  /** Instead of `server.request_timeout`. */
  readonly timeoutMs: number | undefined;
}

/** The request may go on. */
export interface Admission extends RouteOverrides {
  readonly admitted: true;
  /** To be called when the request has ended, however: frees the slots that it holds. */
  readonly release?: () => void;
  /** What it was charged, where that is corrected when it has ended: whoever gets it has to end it. */
  readonly charge?: RequestCharge | undefined;
  /** What the response tells about limits. */
  readonly headers: readonly HeaderPair[];
  readonly detail: OutcomeDetail;
}

/** The request ends here, with this problem as its answer. */
export interface Refusal {
  readonly admitted: false;
  /** Nothing is held. */
  readonly release?: undefined;
  /** Nothing is charged. */
  readonly charge?: undefined;
  readonly problem: ProblemDetails;
  /** What the answer tells about limits. */
  readonly headers: readonly HeaderPair[];
  readonly detail: OutcomeDetail;
}

export type RuleOutcome = Admission | Refusal;

/** Whose request it is that may have to wait. */
export interface DelayListener {
  /**
   * It is admitted, and waits for its turn; `timeoutMs` is that of its admission. Who calls the turn off gets the
   * admission at once, and is not to use it.
   */
  waits(turn: Delay, timeoutMs: number | undefined): void;
  /** Reads the beginning of the body, and never rejects. Left out: nobody has it. */
  readBody?(reading: BodyReading): Promise<BodyFacts>;
}

/** Decides about requests. One gate belongs to one configuration; a request asks the gate it started with. */
export interface RuleEngine {
  /** Never rejects. Answers at once when no network is needed. */
  decide(request: RequestFacts, waiter?: DelayListener): RuleOutcome | Promise<RuleOutcome>;
}

const NO_HEADERS: readonly HeaderPair[] = [];

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

export function withShadowResult(ruling: RuleOutcome, shadowResult: ShadowResult): RuleOutcome {
  return { ...ruling, detail: { ...ruling.detail, shadowResult } };
}

/** The store could not decide, and the policy wants it to. Nothing was counted, so nothing is told about limits. */
export function refuseUndecided(detail: OutcomeDetail, status: number, decision?: Decision): Refusal {
  const seconds = decision === undefined ? undefined : retryAfterSeconds(decision);
  return refuse(detail, plainProblem(status, 'The limits of this request cannot be checked at the moment.'), [
    ['Retry-After', String(seconds ?? 1)],
  ]);
}

/** What the request shows about who is asking is not valid: no rule is asked, and nothing is counted. */
export function refuseUnidentified({ rejected, status, detail, header }: IdentityProblem): Refusal {
  const found: OutcomeDetail = {
    rule: undefined,
    keys: [],
    decision: undefined,
    shadow: false,
    reason: 'unidentified',
    rejected,
  };
  return refuse(found, plainProblem(status, detail), [header]);
}

/** The request was refused before the rules: none was asked, and nothing is counted. */
export function refuseEarly(reason: EarlyReason, status: number): Refusal {
  const found: OutcomeDetail = { rule: undefined, keys: [], decision: undefined, shadow: false, reason };
  return refuse(found, plainProblem(status, 'It was refused before any rule was asked.'));
}

/** The request has no key that a policy needs. */
export function refuseWithoutKey(detail: OutcomeDetail, problem: string | KeyProblem | undefined): Refusal {
  if (typeof problem !== 'object') {
    return refuse(detail, plainProblem(400, 'The request does not say who is asking.'));
  }
  const { challenge, detail: why } = problem;
  if (challenge === undefined) return refuse(detail, plainProblem(400, why));
  return refuse(detail, plainProblem(401, why), [['WWW-Authenticate', challenge]]);
}

export function refuse(
  detail: OutcomeDetail,
  problem: ProblemDetails,
  headers: readonly HeaderPair[] = NO_HEADERS,
): Refusal {
  return { admitted: false, problem, headers, detail };
}

/** One line of the decision log. */
export interface DecisionRecord {
  readonly id: string;
  readonly outcome: 'allowed' | 'denied' | 'wouldDeny';
  readonly reason: RuleOutcome['detail']['reason'];
  /** With `unidentified`: what was not accepted and why, such as `apiKey expired`. */
  readonly rejected?: string | undefined;
  readonly rule: string | undefined;
  readonly policy: string | undefined;
  /** Printable and of limited length, whatever the client sent; secrets are hashed. */
  readonly keys: readonly string[];
  readonly limit: number | undefined;
  readonly remaining: number | undefined;
  readonly retryAfterMs: number | undefined;
  readonly source: string | undefined;
  readonly method: string;
  readonly path: string;
}

export type DecisionListener = (record: DecisionRecord) => void;

const SHOWN_LENGTH = 128;

/** Tells the listener what the configuration wants to be told. */
export function decisionLog(
  level: Config['logging']['decision_log'],
  listener: DecisionListener | undefined,
): (request: RequestFacts, ruling: RuleOutcome) => void {
  if (listener === undefined || level === 'off') return () => undefined;
  return (request, ruling) => {
    const outcome = outcomeOf(ruling);
    if (level === 'all' || outcome !== 'allowed') listener(recordOf(request, ruling, outcome));
  };
}

export function outcomeOf({ admitted, detail }: RuleOutcome): DecisionRecord['outcome'] {
  if (!admitted) return 'denied';
  if (detail.shadowResult !== undefined) return 'wouldDeny';
  if (!detail.shadow) return 'allowed';
  const refused = detail.decision?.allowed === false || REFUSING.has(detail.reason);
  return refused ? 'wouldDeny' : 'allowed';
}

const REFUSING: ReadonlySet<string> = new Set(['denyList', 'missingKey', 'invalidCost']);

function recordOf(
  request: RequestFacts,
  { detail }: RuleOutcome,
  outcome: DecisionRecord['outcome'],
): DecisionRecord {
  // The one that says no is worth the line: those that said yes had nothing to say.
  const { decision, reason } = detail.shadowResult ?? detail;
  const keys = detail.shadowResult?.decision?.verdicts.map(({ key }) => key) ?? detail.keys;
  return {
    id: request.id,
    outcome,
    reason,
    rejected: detail.rejected,
    rule: detail.rule,
    policy: decision?.policy,
    keys: keys.map(printable),
    limit: decision?.limit,
    remaining: decision?.remaining,
    retryAfterMs: decision?.retryAfterMs,
    source: decision?.source,
    method: printable(request.method),
    path: printable(request.path),
  };
}

export function printable(text: string): string {
  const short = text.length > SHOWN_LENGTH ? `${text.slice(0, SHOWN_LENGTH)}...` : text;
  return short.replaceAll(UNPRINTABLE, (character) => `\\u{${(character.codePointAt(0) ?? 0).toString(16)}}`);
}
