import type { ExecutionContext } from '@nestjs/common';
import { requireOptionNames } from '../options.ts';
import {
  acceptPolicies,
  isPolicy,
  requireCost,
  type AcceptedPolicy,
  type Policies,
  type RateLimitOptions,
} from '../http/rate-limit-options.ts';
import { requireKey, type KeyOption } from '../http/request-key.ts';

/** What a class or a method changes for itself. */
export interface LimitOptions {
  /** What its requests have to meet, beside what holds around it. A policy replaces one of the same name. */
  readonly policies?: Policies<ExecutionContext> | undefined;
  /** Who is counted by these policies. Default: what holds around it. */
  readonly key?: KeyOption<ExecutionContext> | undefined;
  /** Units a request spends. Default: what holds around it. */
  readonly cost?: RateLimitOptions<ExecutionContext>['cost'];
}

/**
 * Limits of a controller or of a route, beside those that hold around it. A policy replaces one of the same name, such
 * as `@Limit(api.with({ average: 1000 }))`.
 */
export function Limit(limits: Policies<ExecutionContext> | LimitOptions): ClassDecorator & MethodDecorator {
  const added = toRouteLimits(limits);
  return decorate((present) => ({
    startsAnew: present.startsAnew,
    policies: [...present.policies, ...added.policies],
    cost: added.cost ?? present.cost,
  }));
}

/**
 * A controller or a route without the limits that hold around it. `@Limit()` next to it, or further inside, adds to
 * nothing then.
 */
export function SkipLimit(): ClassDecorator & MethodDecorator {
  return decorate((present) => ({ ...present, startsAnew: true }));
}

/** What the decorators of a class or of a method say together. */
export interface NestRouteLimits {
  /** Whether what holds around it counts for nothing. */
  readonly startsAnew: boolean;
  readonly policies: readonly AcceptedPolicy<ExecutionContext>[];
  readonly cost: LimitOptions['cost'];
}

const NOTHING: NestRouteLimits = { startsAnew: false, policies: [], cost: undefined };

/** What the decorators of a route's class and method say together. */
export function limitsOfRoute(context: ExecutionContext): NestRouteLimits {
  return inside(limitsOf(context.getClass()), limitsOf(context.getHandler()));
}

/** What holds where `inner` stands inside `outer`. */
export function inside(outer: NestRouteLimits, inner: NestRouteLimits): NestRouteLimits {
  const isReplaced = (name: string): boolean => inner.policies.some(({ policy }) => policy.name === name);
  const kept = inner.startsAnew ? [] : outer.policies.filter(({ policy }) => !isReplaced(policy.name));
  return {
    startsAnew: outer.startsAnew || inner.startsAnew,
    policies: [...kept, ...inner.policies],
    cost: inner.cost ?? outer.cost,
  };
}

function toRouteLimits(limits: Policies<ExecutionContext> | LimitOptions): NestRouteLimits {
  const options: LimitOptions = isPolicies(limits) ? { policies: limits } : limits;
  requireOptionNames('The options of @Limit()', options, ['policies', 'key', 'cost']);
  const { policies, key, cost } = options;
  if (key !== undefined) requireKey('key', key);
  requireCost(cost);
  const accepted = policies === undefined ? [] : acceptPolicies(policies);
  return {
    startsAnew: false,
    policies: accepted.map(({ policy, key: own = key }) => ({ policy, key: own })),
    cost,
  };
}

function isPolicies(limits: Policies<ExecutionContext> | LimitOptions): limits is Policies<ExecutionContext> {
  return isPolicy(limits) || Array.isArray(limits);
}

/** Where Nest keeps what decorators say. Other decorators that wrap a method carry it over. */
const METADATA = 'spillgate:limits';

function decorate(change: (present: NestRouteLimits) => NestRouteLimits): ClassDecorator & MethodDecorator {
  return (target: object, _?: string | symbol, descriptor?: { readonly value?: unknown }): void => {
    const decorated = typeof descriptor?.value === 'function' ? descriptor.value : target;
    const own: unknown = Reflect.getOwnMetadata(METADATA, decorated);
    Reflect.defineMetadata(METADATA, change(isRouteLimits(own) ? own : NOTHING), decorated);
  };
}

function limitsOf(decorated: object): NestRouteLimits {
  const limits: unknown = Reflect.getMetadata(METADATA, decorated);
  return isRouteLimits(limits) ? limits : NOTHING;
}

function isRouteLimits(value: unknown): value is NestRouteLimits {
  return typeof value === 'object' && value !== null && 'startsAnew' in value;
}
