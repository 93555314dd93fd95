import type { Decision } from 'spillgate';
import type { Delay, HeaderPair, ProblemDetails } from 'spillgate/http';
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
  /** Why it passed or not, where no policy decided. */
  readonly reason:
    | 'limits'
    | 'unlimited'
    | 'allowList'
    | 'denyList'
    | 'missingKey'
    | 'ambiguousPath'
    | 'storeFailure';
}

export interface ShadowResult {
  readonly reason: 'limits' | 'missingKey';
  /** Undefined without a key. */
  readonly decision: Decision | undefined;
}

/** The request may go on. */
export interface Admission {
  readonly admitted: true;
  /** What the response tells about limits. */
  readonly headers: readonly HeaderPair[];
  /** Who a tunnel (a WebSocket) is counted for; undefined if nobody is. */
  readonly connectionKey: string | undefined;
  /** Another backend than the configured one, already allowed by name; the address is checked when it is dialled. */
  readonly backendUrl: string | undefined;
  /** Instead of `server.request_timeout`. */
  readonly timeoutMs: number | undefined;
  readonly detail: OutcomeDetail;
}

/** The request ends here, with this problem as its answer. */
export interface Refusal {
  readonly admitted: false;
  readonly problem: ProblemDetails;
  /** What the answer tells about limits. */
  readonly headers: readonly HeaderPair[];
  readonly detail: OutcomeDetail;
}

export type RuleOutcome = Admission | Refusal;

/** Whose request it is that may have to wait. */
export interface DelayListener {
  /** It is admitted, and waits for its turn; `timeoutMs` is that of its admission. Who calls the turn off gets the admission at once, and is not to use it. */
  waits(turn: Delay, timeoutMs: number | undefined): void;
}

/** Decides about requests. One gate belongs to one configuration; a request asks the gate it started with. */
export interface RuleEngine {
  /** Never rejects. Answers at once when no network is needed. */
  decide(request: RequestFacts, waiter?: DelayListener): RuleOutcome | Promise<RuleOutcome>;
}
