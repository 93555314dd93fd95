import type { AcquireOptions } from '../acquire.ts';
import type { Decision } from '../decision.ts';
import { LimiterError } from '../errors.ts';
import { complain } from '../events.ts';
import type { FailurePolicy } from '../failure-policy.ts';
import type { Limit, Policy } from '../limit.ts';
import type { Slot } from '../slot.ts';
import { customAnswer, standardAnswer, type HttpAnswer } from './answer.ts';
import { clientAddress, type AddressFacts } from './client-address.ts';
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
  type Checker,
  type RateLimitOptions,
  type HttpRefusal,
} from './rate-limit-options.ts';
import { RESERVED_FOR, settleResponse, usedUnits, type EndedResponse } from './settle-response.ts';
import { isConstantKey, KeyFinder, type AddressKey, type ConstantKey, type KeyFacts } from './request-key.ts';

/** What an adapter knows of a request, beside the framework's own object. */
export interface HttpRequestFacts extends KeyFacts {
  /** Aborted when the client has gone, where the framework has such a signal. */
  readonly signal?: AbortSignal | undefined;
}

/** What an adapter has to do with a request. */
export type HttpOutcome =
  | {
      readonly passes: true;
      /** To be appended to the response with `appendHeaders`. */
      readonly headers: readonly HeaderPair[];
      /** How long the request has to be held back before it goes on: `startDelay`. */
      readonly delayMs: number;
      /**
       * To be called once, when the response has ended, however that came about: frees the slots that the request
       * holds, and settles what it used. Without a response the request did not go on, and counts as it was reserved.
       */
      readonly onEnd?: ((response: EndedResponse | undefined) => void) | undefined;
    }
  | { readonly passes: false; readonly answer: HttpAnswer };

/** A promise costs more than a decision in memory, so there is none where nothing has to be waited for. */
export type MaybePromise<Value> = Value | Promise<Value>;

const PASSES: HttpOutcome = { passes: true, headers: [], delayMs: 0 };
const FAILURE_STATUS = 503;

/** What every adapter does between the framework's request and its response. */
export class HttpLimiter<Request> {
  private readonly options: RateLimitOptions<Request>;
  /** Undefined when a function chooses them. */
  private readonly policies: readonly AcceptedPolicy<Request>[] | undefined;
  /** Set when no function of the application has a say in what is checked. */
  private readonly constant: ConstantCheck | undefined;
  private readonly describe: DescribeDecision;
  private readonly keys: KeyFinder<Request>;
  private readonly decide: DecideFunction;
  /** Undefined where a request costs what it costs before. */
  private readonly used: ReturnType<typeof usedUnits<Request>>;
  private readonly shadow: boolean | 'headers';

  /** `ofAdapter` names options that the adapter itself understands. */
  constructor(options: RateLimitOptions<Request>, ofAdapter: readonly string[] = []) {
    requireRateLimitOptions(options, ofAdapter);
    this.options = options;
    this.policies = typeof options.policies === 'function' ? undefined : acceptPolicies(options.policies);
    this.constant = constantCheck(options, this.policies);
    this.describe = rateLimitHeaders(options);
    this.keys = new KeyFinder(addressKeyOf(options), options.missingKey ?? 'reject');
    this.decide = decideSyncOrAsync(options.limiter, options.failurePolicy);
    this.used = usedUnits(options);
    this.shadow = options.shadow ?? false;
  }

  /**
   * Decides about a request, without a promise if no option is a function and the store answers at once. Throws or
   * rejects only for a mistake in the program, such as a key function that throws, or with the signal's reason.
   */
  check(request: Request, facts: HttpRequestFacts): MaybePromise<HttpOutcome> {
    const { constant } = this;
    if (this.shadow !== false) return this.checkInShadow(request, facts);
    if (constant === undefined) return this.checkAsync(request, facts);
    const limits = bindConstant(constant.policies, this.keys, facts);
    if (typeof limits === 'string') return this.refuseWithoutKey(request, limits);
    if (constant.hasSlots) return this.checkHeld(request, limits, constant.cost, facts);
    const decision = this.decide(limits, constant.cost, facts.signal);
    return decision instanceof Promise
      ? decision.then((settled) => this.conclude(request, limits, settled))
      : this.conclude(request, limits, decision);
  }

  /** The same where functions of the application have a say. */
  private async checkAsync(request: Request, facts: HttpRequestFacts): Promise<HttpOutcome> {
    const { skip, cost = 1 } = this.options;
    if (skip !== undefined && (await skip(request))) return PASSES;
    const limits = await this.bind(request, facts);
    if (typeof limits === 'string') return this.refuseWithoutKey(request, limits);
    if (limits.length === 0) return PASSES;
    const units = typeof cost === 'function' ? await cost(request) : cost;
    if (limits.some(hasSlots)) return this.checkHeld(request, limits, units, facts);
    if (this.used !== undefined) return this.checkReserved(request, limits, units, facts);
    const decision = this.decide(limits, units, facts.signal);
    return this.conclude(request, limits, decision instanceof Promise ? await decision : decision);
  }

  /** The same where a limit is of concurrency: the request holds a slot until its response has ended. */
  private async checkHeld(
    request: Request,
    limits: readonly Limit[],
    cost: number,
    facts: HttpRequestFacts,
  ): Promise<HttpOutcome> {
    const { limiter, failurePolicy } = this.options;
    const { signal } = facts;
    // A request that costs nothing holds nothing either.
    const counted = cost === 0 ? limits.filter((limit) => !hasSlots(limit)) : limits;
    if (counted.length === 0) return PASSES;
    if (counted.length < limits.length)
      return this.conclude(request, counted, await this.decide(counted, cost, signal));
    // What is to be settled is reserved after the slot was taken, which a denial gives back.
    const settled = this.used === undefined ? [] : limits.filter((limit) => !hasSlots(limit));
    const held = settled.length === 0 ? limits : limits.filter(hasSlots);
    const slot = await acquireFrom(limiter, held, { cost, signal, failurePolicy });
    const release = (): void => void slot.release();
    try {
      const outcome =
        slot.allowed && settled.length > 0
          ? await this.checkReserved(request, settled, cost, facts)
          : await this.conclude(request, held, slot.decision);
      if (outcome.passes && slot.allowed) return { ...outcome, onEnd: afterwards(release, outcome.onEnd) };
      release();
      return outcome;
    } catch (error) {
      release();
      throw error;
    }
  }

  /** The same where it shows after the response what a request used. */
  private async checkReserved(
    request: Request,
    limits: readonly Limit[],
    cost: number,
    { signal }: HttpRequestFacts,
  ): Promise<HttpOutcome> {
    const { limiter, failurePolicy, onSettleError } = this.options;
    const { used } = this;
    if (cost === 0 || used === undefined || limiter.reserve === undefined)
      return this.conclude(request, limits, await this.decide(limits, cost, signal));
    const options = { cost, signal, failurePolicy, expiresIn: RESERVED_FOR };
    const reservation = await limiter.reserve(limits, options);
    const outcome = await this.conclude(request, limits, reservation.decision);
    if (!outcome.passes || !reservation.allowed) return outcome;
    const settling = { request, reservation, used, onSettleError };
    const onEnd = (response: EndedResponse | undefined): void => {
      if (response !== undefined) void settleResponse(settling, response);
    };
    return { ...outcome, onEnd };
  }

  /** The same decisions, and every request passes. */
  private async checkInShadow(request: Request, facts: HttpRequestFacts): Promise<HttpOutcome> {
    try {
      return await this.checkAsync(request, facts);
    } catch (error) {
      facts.signal?.throwIfAborted();
      complain('rateLimit() in shadow mode', error);
      return PASSES;
    }
  }

  /** One limit per policy, or what to tell a client that does not say who it is. */
  private async bind(request: Request, facts: HttpRequestFacts): Promise<readonly Limit[] | string> {
    const { policies: choice, key: commonKey = 'address', override } = this.options;
    const policies = typeof choice === 'function' ? acceptChosen(await choice(request)) : this.policies;
    const limits: Limit[] = [];
    for (const { policy, key: ownKey } of policies ?? []) {
      const key = await this.keys.find(ownKey ?? commonKey, request, facts);
      if (typeof key === 'object') return key.detail;
      const other = override === undefined ? undefined : await override(request, policy);
      limits.push(overridden(policy, other).for(key));
    }
    return limits;
  }

  /** What follows from a decision. */
  private conclude(
    request: Request,
    limits: readonly Limit[],
    decision: Decision,
  ): MaybePromise<HttpOutcome> {
    this.tell('onDecision', request, decision);
    if (decision.source === 'failurePolicy') return this.concludeWithoutStore(request, decision);
    if (!decision.allowed) this.tell('onLimited', request, decision);
    if (this.shadow === true) return PASSES;
    const headers = this.describe(decision, limits);
    // In shadow mode nobody is held back, and a wait is for those who were refused.
    if (this.shadow === 'headers') return passing(headers.filter(isNoWait), 0);
    if (decision.allowed) return passing(headers, decision.delayMs);
    return this.refuse({ request, reason: 'limited', decision, problem: quotaExceeded(decision) }, headers);
  }

  /** The failure policy alone decided. Nothing was counted, so there is nothing to tell about limits. */
  private concludeWithoutStore(request: Request, decision: Decision): MaybePromise<HttpOutcome> {
    if (decision.allowed) return PASSES;
    const { failureStatus = FAILURE_STATUS } = this.options;
    const detail = 'The limits of this request cannot be checked at the moment.';
    return this.refuse(
      { request, reason: 'unavailable', decision, problem: plainProblem(failureStatus, detail) },
      [['Retry-After', String(retryAfterSeconds(decision))]],
    );
  }

  private refuseWithoutKey(request: Request, detail: string): MaybePromise<HttpOutcome> {
    return this.refuse({ request, reason: 'noKey', decision: undefined, problem: plainProblem(400, detail) });
  }

  private refuse(
    refusal: HttpRefusal<Request>,
    headers: readonly HeaderPair[] = [],
  ): MaybePromise<HttpOutcome> {
    if (this.shadow !== false) return PASSES;
    const { answer = 'problem' } = this.options;
    return typeof answer === 'function'
      ? customAnswer(answer, refusal, headers).then(refused)
      : refused(standardAnswer(answer, refusal, headers));
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

function passing(headers: readonly HeaderPair[], delayMs: number): HttpOutcome {
  return headers.length === 0 && delayMs === 0 ? PASSES : { passes: true, headers, delayMs };
}

function afterwards(
  release: () => void,
  then: ((response: EndedResponse | undefined) => void) | undefined,
): (response: EndedResponse | undefined) => void {
  return (response) => {
    release();
    then?.(response);
  };
}

function isNoWait([name]: HeaderPair): boolean {
  return !name.endsWith('Retry-After');
}

function overridden(policy: Policy, other: Policy | object | undefined): Policy {
  if (other === undefined) return policy;
  return isPolicy(other) ? other : policy.with(other);
}

function refused(answer: HttpAnswer): HttpOutcome {
  return { passes: false, answer };
}

/** What is checked of every request alike. */
interface ConstantCheck {
  readonly policies: readonly ConstantPolicy[];
  readonly cost: number;
  readonly hasSlots: boolean;
}

interface ConstantPolicy {
  readonly policy: Policy;
  readonly key: ConstantKey;
}

/** Undefined where a function has a say. */
function constantCheck<Request>(
  { key: commonKey = 'address', cost = 1, skip, override, settle, count }: RateLimitOptions<Request>,
  policies: readonly AcceptedPolicy<Request>[] | undefined,
): ConstantCheck | undefined {
  if (policies === undefined || typeof cost === 'function') return undefined;
  if (skip !== undefined || override !== undefined) return undefined;
  if (settle !== undefined || count !== undefined) return undefined;
  const constant: ConstantPolicy[] = [];
  for (const { policy, key = commonKey } of policies) {
    if (!isConstantKey(key)) return undefined;
    constant.push({ policy, key });
  }
  return { policies: constant, cost, hasSlots: constant.some(({ policy }) => hasSlots(policy)) };
}

function bindConstant<Request>(
  policies: readonly ConstantPolicy[],
  keys: KeyFinder<Request>,
  facts: HttpRequestFacts,
): readonly Limit[] | string {
  let limits: Limit[] | undefined;
  for (const { policy, key: option } of policies) {
    const key = keys.findSync(option, facts);
    if (typeof key === 'object') return key.detail;
    // Most requests have one limit, and a list that grows takes room for many.
    if (limits === undefined) limits = [policy.for(key)];
    else limits.push(policy.for(key));
  }
  return limits ?? [];
}

function hasSlots({ plan }: Pick<Limit, 'plan'>): boolean {
  return plan.algorithm.slots !== undefined;
}

function acquireFrom(
  limiter: Checker,
  limits: readonly Limit[],
  options: AcquireOptions,
): Promise<Pick<Slot, 'allowed' | 'decision' | 'release'>> {
  if (limiter.acquire !== undefined) return limiter.acquire(limits, options);
  throw new LimiterError(
    'SLOTS_UNSUPPORTED',
    'rateLimit() has a policy of concurrency(), and its limiter has no acquire(): pass what createLimiter() returns.',
  );
}

type DecideFunction = (
  limits: readonly Limit[],
  cost: number,
  signal: AbortSignal | undefined,
) => MaybePromise<Decision>;

/** Asks a limiter without a promise where it can answer so. Which kind it is shows at the first request. */
function decideSyncOrAsync(limiter: Checker, failurePolicy: FailurePolicy | undefined): DecideFunction {
  let canAnswer = true;
  return (limits, cost, signal) => {
    if (canAnswer && limiter.checkSync !== undefined) {
      // Most requests cost 1 and have no signal: options that say nothing need neither be made nor checked.
      const isPlain = cost === 1 && signal === undefined && failurePolicy === undefined;
      try {
        return limiter.checkSync(limits, isPlain ? undefined : { cost, signal, failurePolicy });
      } catch (error) {
        if (!(error instanceof LimiterError) || error.code !== 'SYNC_UNSUPPORTED') throw error;
        canAnswer = false;
      }
    }
    // Resolved once more, because a limiter of the application's own may return another kind of promise.
    return Promise.resolve(limiter.check(limits, { cost, signal, failurePolicy }));
  };
}

/** Finds what a client is counted under by its address, and watches for a proxy that is not trusted. */
export function addressKeyOf<Request>({
  clientAddress: option,
  onProxyWarning,
}: RateLimitOptions<Request>): AddressKey {
  if (typeof option === 'function')
    return ownKeys.has(option) ? option : (facts) => option(plainFacts(facts));
  const find = clientAddress(option);
  const watch = watchProxies(onProxyWarning);
  const addressKey: AddressKey = (facts) => {
    const client = find(facts);
    watch(client, facts);
    return client.key;
  };
  ownKeys.add(addressKey);
  return addressKey;
}

/** Made here, as opposed to functions of applications. */
const ownKeys = new WeakSet<AddressKey>();

/** An application may take facts apart or copy them; those of an adapter may be an object with methods. */
function plainFacts(facts: AddressFacts): AddressFacts {
  const { peer, isDirect } = facts;
  return { peer, isDirect, headerLines: (name) => facts.headerLines(name) };
}
