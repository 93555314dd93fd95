import { isDeepStrictEqual } from 'node:util';
import {
  createLimiter,
  fixedWindow,
  LimiterError,
  memoryStore,
  type FailurePolicy,
  type Limiter,
  type MemoryStore,
} from 'spillgate';
import { openRedisStore, type SharingRedisStore } from 'spillgate/internal';
import type { RedisStoreOptions } from 'spillgate/redis';
import type { Config } from '../config/config.ts';
import { inSettings } from '../config/problem.ts';
import { redisOptions } from '../external/redis-client.ts';
import { type Log, ThrottledWarning } from '../telemetry/log.ts';
import { leaseRelay, storeId, type LeaseForWorkers } from './shared-leases.ts';

/** A limiter, and all that it depends on. */
export interface ConfiguredLimiter {
  readonly limiter: Limiter;
  readonly plan: LimiterPlan;
  /** The states of this process: all of them, or with Redis those of `inMemoryFallback`. */
  readonly memory: MemoryStore;
  /** Undefined: nobody else has states. */
  readonly redis: SharingRedisStore | undefined;
}

/**
 * What a limiter is made of. While the part about Redis stays the same, the running limiter is kept, with everything it
 * has counted.
 */
interface LimiterPlan {
  readonly maxKeys: number;
  readonly redis:
    | {
        readonly store: RedisStoreOptions;
        readonly failurePolicy: FailurePolicy;
        readonly instances: number;
        readonly deadlineMs: number;
      }
    | undefined;
}

/**
 * The limiter that a configuration asks for; the given one if that is it, or becomes it without forgetting anything.
 */
export function configuredLimiter(config: Config, current?: ConfiguredLimiter): ConfiguredLimiter {
  const plan = limiterPlan(config);
  if (current === undefined || !isDeepStrictEqual(current.plan.redis, plan.redis)) return openLimiter(plan);
  return current.plan.maxKeys === plan.maxKeys ? current : { ...current, plan };
}

/** Called when it is taken into use: it may have run before, with another number of keys. */
export function keepToPlan({ plan, memory }: ConfiguredLimiter): void {
  memory.resize(plan.maxKeys);
}

/** A decision that always admits and is never shown, so that the server has to do all that a request needs of it. */
const PROBE = fixedWindow({ name: 'spillgate-probe', quota: 2 ** 40, window: '1s' }).for('probe');

/**
 * Resolves once every server decides, and one has decided within `rate_limit.deadline`: a process that has just started
 * is slow. Rejects with a `LimiterError` if that is not so after `redis.dial_timeout`.
 */
async function storeDecides({ redis, plan }: Pick<ConfiguredLimiter, 'redis' | 'plan'>): Promise<void> {
  if (redis === undefined || plan.redis === undefined) return;
  const { deadlineMs, store } = plan.redis;
  await redis.ready();
  const giveUpMs = performance.now() + (store.connectTimeoutMs ?? 0);
  for (;;) {
    const askedMs = performance.now();
    await redis.check([PROBE], 1);
    const nowMs = performance.now();
    if (nowMs - askedMs <= deadlineMs) return;
    if (nowMs >= giveUpMs) {
      throw new LimiterError(
        'DEADLINE_EXCEEDED',
        `No decision came within ${deadlineMs} ms: find out why Redis is slow, or raise deadlineMs.`,
      );
    }
  }
}

/** Why no decision can be made now; undefined if one can, if only by `inMemoryFallback`. */
export async function storeProblem({ redis, plan }: ConfiguredLimiter): Promise<string | undefined> {
  if (redis === undefined || plan.redis?.failurePolicy === 'inMemoryFallback') return undefined;
  try {
    // The one server that the probe asks is not all of them.
    const { nodes } = await redis.health();
    const down = nodes.find(({ name, status }) => status === 'down' && !/^(?:sentinel|replica) /.test(name));
    if (down !== undefined) return `${down.name}: ${down.detail}`;
    await redis.check([PROBE], 1);
    return undefined;
  } catch (failure) {
    if (failure instanceof LimiterError) return inSettings(failure.message);
    throw failure;
  }
}

const WITHOUT_STORE: Readonly<Record<FailurePolicy, string>> = {
  passThrough: 'every request is admitted until it does',
  failClosed: 'every request is refused until it does',
  inMemoryFallback: 'each process counts for itself until it does',
};

/** Waits for the store of a new configuration, and says loudly what is wrong if it does not decide. */
export async function awaitStore(configured: ConfiguredLimiter, log: Log): Promise<void> {
  const { redis } = configured.plan;
  try {
    await storeDecides(configured);
  } catch (failure) {
    if (!(failure instanceof LimiterError) || redis === undefined) throw failure;
    const { failurePolicy } = redis;
    log.error(
      { code: failure.code, detail: inSettings(failure.message), failurePolicy },
      `Redis does not decide: ${WITHOUT_STORE[failurePolicy]}`,
    );
  }
}

/** As in the library. */
const MAX_INSTANCES = 10_000;

function limiterPlan({ server, rate_limit: limits, redis }: Config): LimiterPlan {
  return {
    maxKeys: limits.max_keys,
    redis: redis && {
      store: redisOptions({ section: 'redis', config: redis }),
      failurePolicy: limits.failure_policy,
      // Every worker decides for itself while Redis cannot.
      instances: Math.min(MAX_INSTANCES, limits.instances * server.workers),
      deadlineMs: Math.ceil(limits.deadline),
    },
  };
}

/** What workers lease by way of this process. Undefined: they have another Redis. */
export function leaseForWorkers(
  { limiter: { plan, redis }, config }: { readonly limiter: ConfiguredLimiter; readonly config: Config },
  ...[store, request]: Parameters<LeaseForWorkers>
): ReturnType<LeaseForWorkers> {
  if (redis === undefined || plan.redis === undefined || storeId(plan.redis.store) !== store)
    return undefined;
  return redis.leaseFor(request, config.server.workers);
}

function openLimiter(plan: LimiterPlan): ConfiguredLimiter {
  const memory = memoryStore({ maxKeys: plan.maxKeys });
  if (plan.redis === undefined) {
    return { plan, memory, redis: undefined, limiter: createLimiter({ store: memory }) };
  }
  const { store, ...options } = plan.redis;
  const redis = openRedisStore(store, leaseRelay(storeId(store), options.deadlineMs));
  return { plan, memory, redis, limiter: createLimiter({ store: redis, fallbackStore: memory, ...options }) };
}

/**
 * Every server and kind of failure is told once per outage; of many at the same time, one line per second says enough.
 */
const QUIET_MS = 1000;

/** Tells the log when the store fails and recovers. */
export function logLimiter(limiter: Limiter, log: Log): void {
  const failing = new ThrottledWarning(
    log,
    'the store could not decide; the failure policy answers',
    QUIET_MS,
  );
  limiter.on('storeError', ({ node, error }) =>
    failing.warn({ node, code: error.code, detail: inSettings(error.message) }),
  );
  limiter.on('recovered', ({ node, afterMs, failures }) =>
    log.info({ node, afterMs: Math.round(afterMs), failures }, 'the store decides again'),
  );
  limiter.on('nodeDown', ({ node, error }) =>
    log.warn({ node, detail: inSettings(error.message) }, 'a server of the store is down'),
  );
  limiter.on('nodeUp', ({ node, afterMs }) =>
    log.info({ node, afterMs: Math.round(afterMs) }, 'a server of the store is up again'),
  );
  limiter.on('nodeGone', ({ node, afterMs }) =>
    log.info({ node, afterMs: Math.round(afterMs) }, 'a server of the store that was down is replaced'),
  );
  limiter.on('warning', ({ node, message }) => log.warn({ node }, message));
  limiter.on('overflow', ({ policy }) =>
    log.warn({ policy }, 'rate_limit.max_keys is reached: new keys share one state'),
  );
}
