import { isDeepStrictEqual } from 'node:util';
import { createLimiter, memoryStore, type FailurePolicy, type Limiter, type MemoryStore } from 'spillgate';
import { redisStore, type RedisStoreOptions } from 'spillgate/redis';
import type { Config } from '../config/config.ts';
import { redisOptions } from '../external/redis-client.ts';

/** A limiter, and all that it depends on. */
export interface ConfiguredLimiter {
  readonly limiter: Limiter;
  readonly plan: LimiterPlan;
  /** Where states live, if that is in this process. */
  readonly memory: MemoryStore | undefined;
}

/** Equal plans, equal limiters: then the running one is kept, with everything it has counted. */
export type LimiterPlan =
  | { readonly kind: 'memory'; readonly maxKeys: number }
  | {
      readonly kind: 'redis';
      readonly store: RedisStoreOptions;
      readonly failurePolicy: FailurePolicy;
      readonly instances: number;
      readonly deadlineMs: number;
    };

/** The limiter that a configuration asks for; the given one if that is it, or becomes it without forgetting anything. */
export function configuredLimiter(config: Config, current?: ConfiguredLimiter): ConfiguredLimiter {
  const plan = limiterPlan(config);
  if (current !== undefined && isDeepStrictEqual(current.plan, plan)) return current;
  if (current?.memory !== undefined && plan.kind === 'memory') return { ...current, plan };
  return openLimiter(plan);
}

/** Called when it is taken into use: it may have run before, with another number of keys. */
export function keepToPlan({ plan, memory }: ConfiguredLimiter): void {
  if (plan.kind === 'memory') memory?.resize(plan.maxKeys);
}

/** As in the library. */
const MAX_INSTANCES = 10_000;

function limiterPlan({ server, rate_limit: limits, redis }: Config): LimiterPlan {
  if (redis === undefined) return { kind: 'memory', maxKeys: limits.max_keys };
  return {
    kind: 'redis',
    store: redisOptions({ section: 'redis', config: redis }),
    failurePolicy: limits.failure_policy,
    // Every worker decides for itself while Redis cannot.
    instances: Math.min(MAX_INSTANCES, limits.instances * server.workers),
    deadlineMs: Math.ceil(limits.deadline),
  };
}

function openLimiter(plan: LimiterPlan): ConfiguredLimiter {
  if (plan.kind === 'memory') {
    const memory = memoryStore({ maxKeys: plan.maxKeys });
    return { plan, memory, limiter: createLimiter({ store: memory }) };
  }
  const { store, failurePolicy, instances, deadlineMs } = plan;
  const limiter = createLimiter({ store: redisStore(store), failurePolicy, instances, deadlineMs });
  return { plan, memory: undefined, limiter };
}
