import type { AcquireOptions } from '../acquire.ts';
import type { CheckOptions } from '../check-arguments.ts';
import type { Decision } from '../decision.ts';
import { LimiterError, show } from '../errors.ts';
import { requireFailurePolicy, type FailurePolicy } from '../failure-policy.ts';
import type { Limit, Policy } from '../limit.ts';
import { requireOptionNames } from '../options.ts';
import type { ReserveOptions } from '../reservation.ts';
import type { Slot } from '../slot.ts';
import type { AddressFacts, ClientAddressOptions } from './client-address.ts';
import type { ProblemDetails } from './problem.ts';
import type { HeaderOptions } from './rate-limit-headers.ts';
import { requireKey, type KeyOption, type MissingKey } from './request-key.ts';
import type { HttpReservation, SettleOptions } from './settle-response.ts';

/** A policy counted by the option `key`, or by a key of its own. */
export type PolicyChoice<Request> = Policy | { readonly policy: Policy; readonly key: KeyOption<Request> };
/** One policy, or several that a request has to meet all: all are charged, or none. */
export type Policies<Request> = PolicyChoice<Request> | readonly PolicyChoice<Request>[];

/** What a request is refused with. What is left out stays as it is by default. */
export interface CustomAnswer {
  readonly status?: number | undefined;
  readonly headers?: Readonly<Record<string, string>> | undefined;
  /** An object is sent as JSON. */
  readonly body?: string | object | undefined;
}

/** A request that does not pass, and why. */
export interface HttpRefusal<Request> {
  readonly request: Request;
  /**
   * `limited`: a policy denied it. `unavailable`: the store could not decide (`failClosed`). `noKey`: its key is
   * missing.
   */
  readonly reason: 'limited' | 'unavailable' | 'noKey';
  /** Undefined when there is no key: then nothing was decided. */
  readonly decision: Decision | undefined;
  /** The answer by default. */
  readonly problem: ProblemDetails;
}

/** Says how to answer a refused request; undefined: as by default. */
export type AnswerFunction<Request> = (
  refusal: HttpRefusal<Request>,
) => CustomAnswer | undefined | Promise<CustomAnswer | undefined>;

/** A request about which was decided. */
export interface DecidedRequest<Request> {
  readonly request: Request;
  readonly decision: Decision;
  /** True when the request passes in any case. */
  readonly shadow: boolean;
}

/** A request that a policy denied. */
export type Limited<Request> = DecidedRequest<Request>;

/** What is used of a limiter. */
export interface Checker {
  check(limits: readonly Limit[], options: CheckOptions): Promise<Decision>;
  /** Spares a request the wait where the limiter can answer at once. */
  checkSync?(limits: readonly Limit[], options?: CheckOptions): Decision;
  /** Needed where a policy is of `concurrency()`. */
  acquire?(
    limits: readonly Limit[],
    options: AcquireOptions,
  ): Promise<Pick<Slot, 'allowed' | 'decision' | 'release'>>;
  /** Needed for `settle` and `count`. */
  reserve?(limits: readonly Limit[], options: ReserveOptions): Promise<HttpReservation>;
}

export interface RateLimitOptions<Request> extends HeaderOptions, SettleOptions<Request> {
  /** Decides: what `createLimiter()` returns. Several adapters may share one. */
  readonly limiter: Checker;
  /** What a request has to meet: one policy, several, or a function that says which; it may return nothing. */
  readonly policies:
    | Policies<Request>
    | ((request: Request) => Policies<Request> | undefined | Promise<Policies<Request> | undefined>);
  /** Who is counted. Default: `'address'`, the client's address. */
  readonly key?: KeyOption<Request> | undefined;
  /** What happens to a request without a key. Default: `'reject'`, a 400. */
  readonly missingKey?: MissingKey | undefined;
  /**
   * How to find the client's address behind proxies, or a function that says what to count a client under. Default: the
   * peer of the socket.
   */
  readonly clientAddress?: ClientAddressOptions | ((facts: AddressFacts) => string | undefined) | undefined;
  /** Hears once of a proxy that seems to be missing in `clientAddress`. Default: it is printed with `console.warn`. */
  readonly onProxyWarning?: ((warning: LimiterError) => unknown) | undefined;
  /** Units a request spends, an integer >= 0. Default: 1. */
  readonly cost?: number | ((request: Request) => number | Promise<number>) | undefined;
  /** Requests that are not counted and get no headers. Default: none. */
  readonly skip?: ((request: Request) => boolean | Promise<boolean>) | undefined;
  /**
   * Other numbers, or another policy, for this request: `(request) => isPaid(request) ? { average: 1000 } : undefined`.
   */
  readonly override?:
    | ((
        request: Request,
        policy: Policy,
      ) => Policy | object | undefined | Promise<Policy | object | undefined>)
    | undefined;
  /**
   * Called with every decision before the request goes on or is refused, so that it can be handed to the application.
   * What it throws is reported, and changes nothing.
   */
  readonly onDecision?: ((decided: DecidedRequest<Request>) => unknown) | undefined;
  /** Called for every denial by a policy. What it throws is reported, and changes nothing. */
  readonly onLimited?: ((limited: Limited<Request>) => unknown) | undefined;
  /**
   * What to answer: a problem (RFC 9457), `{ error, message }` as JSON, or what a function returns. Default:
   * `'problem'`.
   */
  readonly answer?: 'problem' | 'json' | AnswerFunction<Request> | undefined;
  /**
   * Decides, counts and reports, but never holds up a request. `true` sends no headers, `'headers'` sends them.
   * Default: false.
   */
  readonly shadow?: boolean | 'headers' | undefined;
  /** Who answers if the store cannot. Default: what each policy says, else the limiter's `failurePolicy`. */
  readonly failurePolicy?: FailurePolicy | undefined;
  /** The status when nobody could decide under `failClosed`, 400 to 599. Default: 503. */
  readonly failureStatus?: number | undefined;
}

const OPTIONS: readonly (keyof RateLimitOptions<unknown>)[] = [
  'limiter',
  'policies',
  'key',
  'missingKey',
  'clientAddress',
  'onProxyWarning',
  'cost',
  'settle',
  'count',
  'onSettleError',
  'skip',
  'override',
  'onDecision',
  'onLimited',
  'answer',
  'headers',
  'partitionKey',
  'exposeHeaders',
  'shadow',
  'failurePolicy',
  'failureStatus',
];

/** Every mistake that can be seen before a request comes shows here. */
export function requireRateLimitOptions<Request>(
  options: RateLimitOptions<Request>,
  ofAdapter: readonly string[] = [],
): void {
  requireOptionNames('The options of rateLimit()', options, [...OPTIONS, ...ofAdapter]);
  requireLimiter(options.limiter);
  if (options.key !== undefined) requireKey('key', options.key);
  requireCost(options.cost);
  requireSettling(options);
  requireOneOf('missingKey', options.missingKey, ['reject', 'address']);
  requireOneOf('shadow', options.shadow, [true, false, 'headers']);
  requireOneOf('partitionKey', options.partitionKey, [true, false]);
  requireOneOf('exposeHeaders', options.exposeHeaders, [true, false]);
  for (const name of ['skip', 'override', 'onDecision', 'onLimited', 'onProxyWarning'] as const)
    requireFunction(name, options[name]);
  if (typeof options.answer !== 'function') requireOneOf('answer', options.answer, ['problem', 'json']);
  requireFailurePolicy(options.failurePolicy, 'INVALID_OPTION');
  requireStatus(options.failureStatus);
}

function requireLimiter(limiter: unknown): void {
  if (typeof limiter === 'object' && limiter !== null && 'check' in limiter) return;
  invalid(`limiter is ${show(limiter)}; expected what createLimiter() returns.`);
}

/** A policy and what it is counted by; undefined: by the option `key`. */
export interface AcceptedPolicy<Request> {
  readonly policy: Policy;
  readonly key: KeyOption<Request> | undefined;
}

/** At least one policy, each as such or as `{ policy, key }`. */
export function acceptPolicies<Request>(policies: Policies<Request>): readonly AcceptedPolicy<Request>[] {
  const choices: readonly PolicyChoice<Request>[] = isList(policies) ? policies : [policies];
  if (choices.length === 0) invalid('policies is an empty list; name at least one policy.');
  return choices.map(acceptPolicy);
}

/** What a function chose, which may be nothing. */
export function acceptChosen<Request>(
  chosen: Policies<Request> | undefined,
): readonly AcceptedPolicy<Request>[] {
  return chosen === undefined || (isList(chosen) && chosen.length === 0) ? [] : acceptPolicies(chosen);
}

function acceptPolicy<Request>(choice: PolicyChoice<Request>): AcceptedPolicy<Request> {
  if (isPolicy(choice)) return { policy: choice, key: undefined };
  const given: unknown = choice;
  if (typeof given !== 'object' || given === null || !isPolicy(choice.policy)) {
    invalid(`policies holds ${show(given)}; expected policies such as tokenBucket(), or { policy, key }.`);
  }
  requireOptionNames('The choices of policies', choice, ['policy', 'key']);
  requireKey('The key of a policy', choice.key);
  return choice;
}

export function isPolicy(value: unknown): value is Policy {
  return typeof value === 'object' && value !== null && 'plan' in value && 'for' in value;
}

function isList<Request>(policies: Policies<Request>): policies is readonly PolicyChoice<Request>[] {
  return Array.isArray(policies);
}

export function requireCost(cost: unknown): void {
  if (cost === undefined || typeof cost === 'function') return;
  if (typeof cost === 'number' && Number.isSafeInteger(cost) && cost >= 0) return;
  invalid(`cost is ${show(cost)}; expected an integer >= 0, or a function of the request that returns one.`);
}

function requireSettling<Request>({
  settle,
  count,
  limiter,
  onSettleError,
}: RateLimitOptions<Request>): void {
  requireFunction('settle', settle);
  requireFunction('onSettleError', onSettleError);
  if (typeof count !== 'function') requireOneOf('count', count, ['failures', 'successes']);
  if (settle !== undefined && count !== undefined)
    invalid(
      'settle and count are both set, and each says what a request costs in the end: keep one of them.',
    );
  if ((settle !== undefined || count !== undefined) && limiter.reserve === undefined) {
    throw new LimiterError(
      'RESERVE_UNSUPPORTED',
      `${settle === undefined ? 'count' : 'settle'} is set, and limiter has no reserve(): pass what createLimiter() returns.`,
    );
  }
}

export function requireFunction(name: string, value: unknown): void {
  if (value !== undefined && typeof value !== 'function') {
    invalid(`${name} is ${show(value)}; expected a function.`);
  }
}

export function requireOneOf(name: string, value: unknown, accepted: readonly unknown[]): void {
  if (value === undefined || accepted.includes(value)) return;
  invalid(`${name} is ${show(value)}; choose one of ${accepted.map(show).join(', ')}.`);
}

function requireStatus(status: unknown): void {
  if (status === undefined) return;
  if (typeof status === 'number' && Number.isInteger(status) && status >= 400 && status <= 599) return;
  invalid(`failureStatus is ${show(status)}; expected a status from 400 to 599, such as 503.`);
}

function invalid(message: string): never {
  throw new LimiterError('INVALID_OPTION', message);
}
