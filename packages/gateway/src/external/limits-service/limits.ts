import {
  type AlgorithmName,
  type CalendarQuotaNumbers,
  type Duration,
  type FailurePolicy,
  formatDuration,
  parseDuration,
} from 'spillgate';
import { POLICY_SETTINGS } from '../../config/schema/policy.ts';
import { parseAnswer } from '../answer.ts';
import { MAX_FRESH_MS } from '../freshness.ts';
import { POLICY_FIELDS } from '../wire/definition.ts';

/** The numbers of one policy. Without `algorithm` it is a token bucket. */
export interface PolicyLimits {
  readonly algorithm?: AlgorithmName | undefined;
  /** Requests per `period`; 0 is unlimited. */
  readonly average?: number | undefined;
  /** Requests at once. Default: `average`. */
  readonly burst?: number | undefined;
  readonly period?: Duration | undefined;
  /** Windows: requests per `window`. */
  readonly quota?: number | undefined;
  readonly window?: Duration | undefined;
  /** Leaky bucket: the longest wait in the queue. */
  readonly maxDelay?: Duration | undefined;
  /** Calendar quota: the period in which `quota` requests pass. */
  readonly every?: CalendarQuotaNumbers['every'] | undefined;
  /** Calendar quota: whose midnight counts. Default: `'UTC'`. */
  readonly timeZone?: string | undefined;
  /** Calendar quota: the first weekday (1 is Monday), day of the month, or month of the year. Default: 1. */
  readonly startsOn?: number | undefined;
  /** Concurrency: how much may be in flight at once. */
  readonly limit?: number | undefined;
  /** Concurrency: after how long the slot of a gateway that died is free again. */
  readonly hold?: Duration | undefined;
}

/** What the gateway is told. */
export interface Limits extends PolicyLimits {
  /** Several policies, all to be met, instead of the numbers above. */
  readonly policies?: readonly (PolicyLimits & { readonly name: string })[] | undefined;
  /** Counts instead of the key that was asked for: 1 to 256 letters, digits, `-`, `_`, `.` or `:`. */
  readonly tenantKey?: string | undefined;
  /** Who answers while the gateway's store cannot. */
  readonly failurePolicy?: FailurePolicy | undefined;
  /** The status of what `failClosed` refuses: 400 to 599. */
  readonly failureCode?: number | undefined;
  readonly backendUrl?: string | undefined;
  /** Units that the request spends. Default: 1. */
  readonly cost?: number | undefined;
  /** How long the request may take altogether. */
  readonly requestTimeout?: Duration | undefined;
  /** How long gateways may keep the answer, in whole seconds. Default: their own `cache_ttl`. */
  readonly cacheFor?: Duration | undefined;
  /** Gateways ask every time and keep nothing. */
  readonly noStore?: boolean | undefined;
}

/** Everyone passes, and is still routed. */
export const UNLIMITED: Limits = Object.freeze({ average: 0 });

/**
 * Plans by name, checked at once. The function it returns makes an answer from a plan, and from what is particular to a
 * tenant.
 *
 * @example
 * const plan = definePlans({ free: { average: 10, period: '1s' }, pro: { average: 100, burst: 200, period: '1s' } });
 * plan('pro', { tenantKey: 'acme', cacheFor: '1m' });
 */
export function definePlans<Name extends string>(
  plans: Readonly<Record<Name, Limits>>,
): (name: Name, particular?: Limits) => Limits {
  for (const [name, limits] of Object.entries<Limits>(plans)) checkPlan(name, limits);
  return (name, particular) => {
    const limits: Limits | undefined = Object.hasOwn(plans, name) ? plans[name] : undefined;
    if (limits === undefined) throw new Error(`There is no plan ${JSON.stringify(name)}.`);
    return { ...limits, ...particular };
  };
}

export type WireAnswer = Readonly<Record<string, unknown>>;

/** The answer as JSON has it. Throws if the gateway would not accept it. */
export function toWire(limits: Limits): WireAnswer {
  const { policies, cacheFor, requestTimeout } = limits;
  const wire = defined({
    ...numbersToWire(limits),
    policies: policies?.map((policy) => ({ name: policy.name, ...defined(numbersToWire(policy)) })),
    tenant_key: limits.tenantKey,
    failure_policy: limits.failurePolicy?.toLowerCase(),
    failure_code: limits.failureCode,
    backend_url: limits.backendUrl,
    cost: limits.cost,
    request_timeout: text('requestTimeout', requestTimeout),
    cache_no_store: limits.noStore,
    cache_max_age_seconds: cacheFor === undefined ? undefined : secondsOf(cacheFor),
  });
  parseAnswer(wire);
  return wire;
}

function numbersToWire(limits: PolicyLimits): WireAnswer {
  const values = new Map<string, unknown>(Object.entries(limits));
  return {
    algorithm: limits.algorithm,
    ...Object.fromEntries(
      POLICY_SETTINGS.filter(({ setting }) => POLICY_FIELDS.includes(setting)).map(
        ({ setting, option, kind }) => {
          const value = values.get(option);
          return [setting, kind === 'duration' ? text(option, value) : value];
        },
      ),
    ),
  };
}

const MAX_US = 3650 * 86_400_000_000;

function text(name: string, duration: unknown): string | undefined {
  if (duration === undefined) return undefined;
  const us = parseDuration(duration, { name, minUs: 0, maxUs: MAX_US });
  return us === 0 ? '0s' : formatDuration(us);
}

/** Rounded down: nobody keeps it longer than said. */
function secondsOf(cacheFor: Duration): number {
  const us = parseDuration(cacheFor, { name: 'cacheFor', minUs: 1_000_000, maxUs: MAX_FRESH_MS * 1000 });
  return Math.floor(us / 1_000_000);
}

function defined(fields: WireAnswer): WireAnswer {
  return Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== undefined));
}

function checkPlan(name: string, limits: Limits): void {
  try {
    toWire(limits);
  } catch (cause) {
    const reason = cause instanceof Error ? cause.message : String(cause);
    throw new Error(`The plan ${JSON.stringify(name)} is wrong: ${reason}`, { cause });
  }
}
