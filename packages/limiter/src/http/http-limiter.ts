import type { CheckOptions } from '../check-arguments.ts';
import type { Decision } from '../decision.ts';
import { complain } from '../events.ts';
import type { Limit, Policy } from '../limit.ts';
import { checkAtOnce, type Check } from './check-at-once.ts';
import { answerRefusal, type Answer } from './answer.ts';
import { clientAddress, type AddressFacts } from './client-address.ts';
import { after, fromApplication, isPending, type Eventually } from './eventually.ts';
import { plainProblem, quotaExceeded } from './problem.ts';
import { watchProxies } from './proxy-warning.ts';
import {
  rateLimitHeaders,
  retryAfterSeconds,
  type DescribeDecision,
  type HeaderPair,
} from './rate-limit-headers.ts';
import {
  acceptChosen,
  acceptPolicies,
  isPolicy,
  requireRateLimitOptions,
  type AcceptedPolicy,
  type RateLimitOptions,
  type Refusal,
} from './rate-limit-options.ts';
import { findKey, type FoundKey, type KeyFacts } from './request-key.ts';

/** What an adapter knows of a request, beside the framework's own object. */
export interface RequestFacts extends AddressFacts {
  /** Aborted when the client has gone, where the framework has such a signal. */
  readonly signal?: AbortSignal | undefined;
}

/** What an adapter has to do with a request. */
export type Ruling =
  | {
      readonly passes: true;
      /** To be appended to the response, whoever writes it: `appendHeaders`. */
      readonly headers: readonly HeaderPair[];
      /** How long the request has to wait for its turn before it goes on: `turnAfter`. */
      readonly delayMs: number;
    }
  | { readonly passes: false; readonly answer: Answer };

/** The limits of a request and what was decided, or why there are none. */
type Judgement =
  | { readonly limits: readonly Limit[]; readonly decision: Decision }
  | { readonly limits: undefined; readonly detail: string };

/** A request whose limits are to be found. */
interface Asked<Request> extends KeyFacts<Request> {
  readonly policies: readonly AcceptedPolicy<Request>[];
}

const PASSES: Ruling = { passes: true, headers: [], delayMs: 0 };
const FAILURE_STATUS = 503;

/** What every adapter does between the framework's request and its response. */
export class HttpLimiter<Request> {
  private readonly options: RateLimitOptions<Request>;
  private readonly policies: readonly AcceptedPolicy<Request>[] | undefined;
  private readonly describe: DescribeDecision;
  private readonly addressKey: (facts: AddressFacts) => string | undefined;
  private readonly check: Check;

  /** `ofAdapter` names options that the adapter itself understands. */
  constructor(options: RateLimitOptions<Request>, ofAdapter: readonly string[] = []) {
    requireRateLimitOptions(options, ofAdapter);
    this.options = options;
    this.policies = typeof options.policies === 'function' ? undefined : acceptPolicies(options.policies);
    this.describe = rateLimitHeaders(options);
    this.addressKey = addressKeyOf(options);
    this.check = checkAtOnce(options.limiter);
  }

  /**
   * Answers at once if nobody has to be waited for. Throws or rejects only for a mistake in the program, such as a key
   * function that throws, or with the signal's reason.
   */
  rule(request: Request, facts: RequestFacts): Eventually<Ruling> {
    if (this.options.shadow !== undefined && this.options.shadow !== false) {
      return this.watch(request, facts);
    }
    const judgement = this.judge(request, facts);
    return isPending(judgement)
      ? judgement.then((known) => this.obey(request, known))
      : this.obey(request, judgement);
  }

  private obey(request: Request, judgement: Judgement | undefined): Eventually<Ruling> {
    if (judgement === undefined) return PASSES;
    if (judgement.limits === undefined) {
      return this.refuse({
        request,
        reason: 'noKey',
        decision: undefined,
        problem: plainProblem(400, judgement.detail),
      });
    }
    const { limits, decision } = judgement;
    if (decision.source === 'failurePolicy') return this.ruleWithoutStore(request, decision);
    const headers = this.describe(decision, limits);
    if (decision.allowed) return { passes: true, headers, delayMs: decision.delayMs };
    this.tell('onLimited', request, decision);
    const problem = quotaExceeded(decision);
    return this.refuse({ request, reason: 'limited', decision, problem }, headers);
  }

  /** Shadow mode: the same decisions, and every request passes. */
  private async watch(request: Request, facts: RequestFacts): Promise<Ruling> {
    try {
      const judgement = await this.judge(request, facts);
      if (judgement?.limits === undefined || judgement.decision.source === 'failurePolicy') return PASSES;
      const { limits, decision } = judgement;
      if (!decision.allowed) this.tell('onLimited', request, decision);
      if (this.options.shadow !== 'headers') return PASSES;
      // A wait is for those who were refused.
      const headers = this.describe(decision, limits).filter(([name]) => !name.endsWith('Retry-After'));
      return { passes: true, headers, delayMs: 0 };
    } catch (error) {
      facts.signal?.throwIfAborted();
      complain('rateLimit() in shadow mode', error);
      return PASSES;
    }
  }

  /** Undefined when the request is not counted at all. */
  private judge(request: Request, facts: RequestFacts): Eventually<Judgement | undefined> {
    const { skip } = this.options;
    if (skip === undefined) return this.judgeCounted(request, facts);
    return after(fromApplication(skip(request)), (skipped) =>
      skipped ? undefined : this.judgeCounted(request, facts),
    );
  }

  private judgeCounted(request: Request, facts: RequestFacts): Eventually<Judgement | undefined> {
    return this.policies === undefined
      ? after(this.choose(request), (policies) => this.judgeBy(policies, request, facts))
      : this.judgeBy(this.policies, request, facts);
  }

  // From here on nearly every request is known at once, so nothing is made for those that are not: no closure, no promise.

  private judgeBy(
    policies: readonly AcceptedPolicy<Request>[],
    request: Request,
    facts: RequestFacts,
  ): Eventually<Judgement | undefined> {
    if (policies.length === 0) return undefined;
    const limits = this.bind({ policies, request, facts, addressKey: this.addressKey }, []);
    return isPending(limits)
      ? limits.then((known) => this.decide(request, known, facts.signal))
      : this.decide(request, limits, facts.signal);
  }

  private decide(
    request: Request,
    limits: readonly Limit[] | string,
    signal: AbortSignal | undefined,
  ): Eventually<Judgement> {
    if (typeof limits === 'string') return { limits: undefined, detail: limits };
    const { cost = 1 } = this.options;
    return typeof cost === 'function'
      ? after(fromApplication(cost(request)), (units) => this.spend(request, limits, { cost: units, signal }))
      : this.spend(request, limits, { cost, signal });
  }

  private spend(request: Request, limits: readonly Limit[], options: CheckOptions): Eventually<Judgement> {
    const decision = this.check(limits, options);
    return isPending(decision)
      ? decision.then((known) => this.decided(request, limits, known))
      : this.decided(request, limits, decision);
  }

  private decided(request: Request, limits: readonly Limit[], decision: Decision): Judgement {
    this.tell('onDecision', request, decision);
    return { limits, decision };
  }

  private choose(request: Request): Eventually<readonly AcceptedPolicy<Request>[]> {
    const { policies } = this.options;
    return typeof policies === 'function'
      ? after(fromApplication(policies(request)), (chosen) => acceptChosen(chosen))
      : acceptChosen(policies);
  }

  /** One limit per policy, or what to tell a client that does not say who it is. `limits` has those of the first policies. */
  private bind(asked: Asked<Request>, limits: Limit[]): Eventually<readonly Limit[] | string> {
    for (let next; (next = asked.policies[limits.length]) !== undefined;) {
      const limit = this.bindOne(next, asked);
      if (isPending(limit)) return limit.then((found) => this.bindMore(asked, limits, found));
      if (typeof limit === 'string') return limit;
      limits.push(limit);
    }
    return limits;
  }

  private bindMore(
    asked: Asked<Request>,
    limits: Limit[],
    found: Limit | string,
  ): Eventually<readonly Limit[] | string> {
    if (typeof found === 'string') return found;
    limits.push(found);
    return this.bind(asked, limits);
  }

  private bindOne(
    { policy, key: ownKey }: AcceptedPolicy<Request>,
    asked: Asked<Request>,
  ): Eventually<Limit | string> {
    const { key: commonKey = 'address', missingKey = 'reject' } = this.options;
    const found = findKey(ownKey ?? commonKey, asked, missingKey);
    return isPending(found)
      ? found.then((known) => this.limitFor(policy, known, asked.request))
      : this.limitFor(policy, found, asked.request);
  }

  private limitFor(policy: Policy, found: FoundKey, request: Request): Eventually<Limit | string> {
    const { override } = this.options;
    if (found.key === undefined) return found.detail;
    if (override === undefined) return policy.for(found.key);
    const { key } = found;
    return after(fromApplication(override(request, policy)), (other) => overridden(policy, other).for(key));
  }

  /** The failure policy alone decided. Nothing was counted, so there is nothing to tell about limits. */
  private ruleWithoutStore(request: Request, decision: Decision): Eventually<Ruling> {
    if (decision.allowed) return PASSES;
    const { failureStatus = FAILURE_STATUS } = this.options;
    const detail = 'The limits of this request cannot be checked at the moment.';
    return this.refuse(
      { request, reason: 'unavailable', decision, problem: plainProblem(failureStatus, detail) },
      [['Retry-After', String(retryAfterSeconds(decision))]],
    );
  }

  private async refuse(refusal: Refusal<Request>, headers: readonly HeaderPair[] = []): Promise<Ruling> {
    return { passes: false, answer: await answerRefusal(this.options.answer, refusal, headers) };
  }

  private tell(listener: 'onDecision' | 'onLimited', request: Request, decision: Decision): void {
    const { [listener]: hear, shadow = false } = this.options;
    if (hear === undefined) return;
    try {
      const pending = hear({ request, decision, shadow: shadow !== false });
      if (pending instanceof Promise) pending.catch((error: unknown) => complain(listener, error));
    } catch (error) {
      complain(listener, error);
    }
  }
}

function overridden(policy: Policy, other: Policy | object | undefined): Policy {
  if (other === undefined) return policy;
  return isPolicy(other) ? other : policy.with(other);
}

/** What a client is counted under by its address. */
export function addressKeyOf<Request>({
  clientAddress: option,
  onProxyWarning,
}: RateLimitOptions<Request>): (facts: AddressFacts) => string | undefined {
  if (typeof option === 'function') return option;
  const find = clientAddress(option);
  const watch = watchProxies(onProxyWarning);
  return (facts) => {
    const client = find(facts);
    watch(client, facts);
    return client.key;
  };
}
