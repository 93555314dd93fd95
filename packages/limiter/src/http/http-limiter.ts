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

/** A request whose limits are to be found. */
interface Asked<Request> extends KeyFacts<Request> {
  readonly policies: readonly AcceptedPolicy<Request>[];
}

const PASSES: Ruling = { passes: true, headers: [], delayMs: 0 };
const NO_LIMITS: readonly Limit[] = [];
const FAILURE_STATUS = 503;

/** What every adapter does between the framework's request and its response. */
export class HttpLimiter<Request> {
  private readonly options: RateLimitOptions<Request>;
  private readonly policies: readonly AcceptedPolicy<Request>[] | undefined;
  private readonly describe: DescribeDecision;
  private readonly addressKey: (facts: AddressFacts) => string | undefined;
  private readonly check: Check;
  private readonly shadow: boolean | 'headers';

  /** `ofAdapter` names options that the adapter itself understands. */
  constructor(options: RateLimitOptions<Request>, ofAdapter: readonly string[] = []) {
    requireRateLimitOptions(options, ofAdapter);
    this.options = options;
    this.policies = typeof options.policies === 'function' ? undefined : acceptPolicies(options.policies);
    this.describe = rateLimitHeaders(options);
    this.addressKey = addressKeyOf(options);
    this.check = checkAtOnce(options.limiter, options.failurePolicy);
    this.shadow = options.shadow ?? false;
  }

  /**
   * Answers at once if nobody has to be waited for. Throws or rejects only for a mistake in the program, such as a key
   * function that throws, or with the signal's reason.
   */
  rule(request: Request, facts: RequestFacts): Eventually<Ruling> {
    return this.shadow === false ? this.judge(request, facts) : this.watch(request, facts);
  }

  /** Shadow mode: the same decisions, and every request passes. */
  private async watch(request: Request, facts: RequestFacts): Promise<Ruling> {
    try {
      return await this.judge(request, facts);
    } catch (error) {
      facts.signal?.throwIfAborted();
      complain('rateLimit() in shadow mode', error);
      return PASSES;
    }
  }

  private judge(request: Request, facts: RequestFacts): Eventually<Ruling> {
    const { skip } = this.options;
    if (skip === undefined) return this.judgeCounted(request, facts);
    return after(fromApplication(skip(request)), (skipped) =>
      skipped ? PASSES : this.judgeCounted(request, facts),
    );
  }

  private judgeCounted(request: Request, facts: RequestFacts): Eventually<Ruling> {
    return this.policies === undefined
      ? after(this.choose(request), (policies) => this.judgeBy(policies, request, facts))
      : this.judgeBy(this.policies, request, facts);
  }

  // From here on nearly every request is known at once, so nothing is made for those that are not: no closure, no promise.

  private judgeBy(
    policies: readonly AcceptedPolicy<Request>[],
    request: Request,
    facts: RequestFacts,
  ): Eventually<Ruling> {
    if (policies.length === 0) return PASSES;
    const limits = this.bind({ policies, request, facts, addressKey: this.addressKey }, NO_LIMITS);
    return isPending(limits)
      ? limits.then((known) => this.decide(request, known, facts.signal))
      : this.decide(request, limits, facts.signal);
  }

  private decide(
    request: Request,
    limits: readonly Limit[] | string,
    signal: AbortSignal | undefined,
  ): Eventually<Ruling> {
    if (typeof limits === 'string') return this.refuseWithoutKey(request, limits);
    const { cost = 1 } = this.options;
    return typeof cost === 'function'
      ? after(fromApplication(cost(request)), (units) => this.spend(request, limits, units, signal))
      : this.spend(request, limits, cost, signal);
  }

  private spend(
    request: Request,
    limits: readonly Limit[],
    cost: number,
    signal: AbortSignal | undefined,
  ): Eventually<Ruling> {
    const decision = this.check(limits, cost, signal);
    return isPending(decision)
      ? decision.then((known) => this.obey(request, limits, known))
      : this.obey(request, limits, decision);
  }

  private obey(request: Request, limits: readonly Limit[], decision: Decision): Eventually<Ruling> {
    this.tell('onDecision', request, decision);
    if (decision.source === 'failurePolicy') return this.ruleWithoutStore(request, decision);
    if (!decision.allowed) this.tell('onLimited', request, decision);
    if (this.shadow === true) return PASSES;
    const headers = this.describe(decision, limits);
    // In shadow mode nobody waits, and a wait is for those who were refused.
    if (this.shadow === 'headers') return passing(headers.filter(isNoWait), 0);
    if (decision.allowed) return passing(headers, decision.delayMs);
    return this.refuse({ request, reason: 'limited', decision, problem: quotaExceeded(decision) }, headers);
  }

  private choose(request: Request): Eventually<readonly AcceptedPolicy<Request>[]> {
    const { policies } = this.options;
    return typeof policies === 'function'
      ? after(fromApplication(policies(request)), (chosen) => acceptChosen(chosen))
      : acceptChosen(policies);
  }

  /** One limit per policy, or what to tell a client that does not say who it is. `limits` has those of the first policies. */
  private bind(asked: Asked<Request>, limits: readonly Limit[]): Eventually<readonly Limit[] | string> {
    const next = asked.policies[limits.length];
    if (next === undefined) return limits;
    const limit = this.bindOne(next, asked);
    return isPending(limit)
      ? limit.then((found) => this.bindMore(asked, limits, found))
      : this.bindMore(asked, limits, limit);
  }

  private bindMore(
    asked: Asked<Request>,
    limits: readonly Limit[],
    found: Limit | string,
  ): Eventually<readonly Limit[] | string> {
    if (typeof found === 'string') return found;
    // Most requests have one limit, and a list that grows takes room for many.
    return this.bind(asked, limits.length === 0 ? [found] : [...limits, found]);
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
    if (typeof found === 'object') return found.detail;
    if (override === undefined) return policy.for(found);
    return after(fromApplication(override(request, policy)), (other) => overridden(policy, other).for(found));
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

  private refuseWithoutKey(request: Request, detail: string): Eventually<Ruling> {
    return this.refuse({ request, reason: 'noKey', decision: undefined, problem: plainProblem(400, detail) });
  }

  private async refuse(refusal: Refusal<Request>, headers: readonly HeaderPair[] = []): Promise<Ruling> {
    if (this.shadow !== false) return PASSES;
    return { passes: false, answer: await answerRefusal(this.options.answer, refusal, headers) };
  }

  private tell(listener: 'onDecision' | 'onLimited', request: Request, decision: Decision): void {
    const hear = this.options[listener];
    if (hear === undefined) return;
    try {
      const pending = hear({ request, decision, shadow: this.shadow !== false });
      if (pending instanceof Promise) pending.catch((error: unknown) => complain(listener, error));
    } catch (error) {
      complain(listener, error);
    }
  }
}

function passing(headers: readonly HeaderPair[], delayMs: number): Ruling {
  return headers.length === 0 && delayMs === 0 ? PASSES : { passes: true, headers, delayMs };
}

function isNoWait([name]: HeaderPair): boolean {
  return !name.endsWith('Retry-After');
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
