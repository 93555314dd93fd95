import { isDeepStrictEqual } from 'node:util';
import { createLimiter, memoryStore, type FailurePolicy, type Limiter, type MemoryStore } from 'spillgate';
import { redisStore, type RedisStoreOptions, type TlsOptions } from 'spillgate/redis';
import type { Config } from '../config/config.ts';
import { readNamedFile } from '../config/problem.ts';

type Redis = NonNullable<Config['redis']>;

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
    store: redisOptions(redis),
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

function redisOptions(redis: Redis): RedisStoreOptions {
  return {
    ...placeOf(redis),
    clientPackage: 'ioredis',
    username: redis.username,
    password: redis.password,
    database: redis.mode === 'cluster' ? undefined : redis.db,
    tls: redis.tls.enabled ? tlsOptions(redis.tls) : undefined,
    prefix: redis.key_prefix,
    timeoutMs: Math.ceil(redis.read_timeout),
    connectTimeoutMs: Math.ceil(redis.dial_timeout),
  };
}

function placeOf(redis: Redis): Pick<RedisStoreOptions, 'url' | 'sentinel' | 'cluster'> {
  const urls = redis.endpoints.map((endpoint) => `redis://${endpoint}`);
  switch (redis.mode) {
    case 'cluster':
      return { cluster: { urls } };
    case 'sentinel':
      return { sentinel: { urls: redis.endpoints.map(sentinelUrl(redis)), name: redis.master_name ?? '' } };
    default:
      // Decisions need the primary; nothing is read from its replicas.
      return { url: urls[0] ?? '' };
  }
}

function sentinelUrl({ sentinel_username: user = '', sentinel_password: password }: Redis) {
  const account =
    password === undefined ? '' : `${encodeURIComponent(user)}:${encodeURIComponent(password)}@`;
  return (endpoint: string): string => `redis://${account}${endpoint}`;
}

function tlsOptions(tls: Redis['tls']): TlsOptions {
  const read = (name: 'ca_file' | 'cert_file' | 'key_file'): string | undefined =>
    readNamedFile(['redis', 'tls', name], tls[name]);
  return {
    ca: read('ca_file'),
    cert: read('cert_file'),
    key: read('key_file'),
    servername: tls.server_name,
    rejectUnauthorized: !tls.insecure_skip_verify,
  };
}
