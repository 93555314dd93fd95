import { Breaker } from 'spillgate/internal';
import type { Config } from '../config/config.ts';
import { maskedUrl } from '../config/shown.ts';
import type { Log } from '../telemetry/log.ts';
import { KeyBreakers } from './key-breakers.ts';
import { ChainedSource } from './chained-source.ts';
import { ChangeLog } from './change-log.ts';
import { LimitsCompiler } from './compiled-limits.ts';
import type { LimitsSourceObserver, ObservedLimitsSource } from './limits-source.ts';
import { QuestionReader } from './question.ts';
import { cacheClient } from './redis-client.ts';
import { tlsOptions, type ServiceClient } from './service/service.ts';
import { grpcService } from './service/grpc-service.ts';
import { httpService } from './service/http-service.ts';
import { LimitsServiceCaller, Slots } from './limits-service-caller.ts';
import { SharedCache } from './answer-caches.ts';

export interface LimitsSourceOptions {
  readonly config: Pick<Config, 'rate_limit' | 'redis' | 'cache_redis'>;
  readonly log: Log;
  /** Why a backend may not be used, by its name alone; undefined if it may. Default: no `backend_url` is followed. */
  readonly backendUrlComplaint?: ((url: string) => string | undefined) | undefined;
  readonly observer: LimitsSourceObserver;
  /** Milliseconds of a clock that only goes forward. Default: `performance.now()`. */
  readonly now?: (() => number) | undefined;
  /** Instead of the client that the configuration describes. */
  readonly service?: ServiceClient | undefined;
}

type External = Config['rate_limit']['external'];

const MAX_BREAKERS = 10_000;
const BREAKER_IDLE_MS = 60_000;
const PROBE_GRACE_MS = 1000;
/** The global breaker counts failures of all keys, and tries again soon, because every key depends on it. */
const GLOBAL_THRESHOLD_FACTOR = 5;
const GLOBAL_OPEN_MS = 5000;

/**
 * Limits from the external service, as `rate_limit.external` describes it.
 *
 * @example
 * const source = createLimitsSource({ config, log, observer: limitsMetrics(metrics.traffic) });
 * const limits = await source.limitsFor({ key: 'acme', method: 'GET', path: '/', headers: { raw: [] } });
 */
export function createLimitsSource(options: LimitsSourceOptions): ObservedLimitsSource {
  const { config, log, observer, now = () => performance.now() } = options;
  const { external } = config.rate_limit;
  const service = options.service ?? serviceOf(external);
  const changes = new ChangeLog(log, now);
  warnOfPlainText(external, log);
  const caller = new LimitsServiceCaller({ service, ...guards(external), observer, changes, now });
  const compiler = new LimitsCompiler({
    failurePolicy: config.rate_limit.failure_policy,
    backendUrlComplaint: options.backendUrlComplaint ?? (() => 'no backend_url is followed here'),
  });
  const shared = sharedCache(options, service.id, now);
  const reader = new QuestionReader(external.header_filter, external.request_fields);
  return new ChainedSource(
    { reader, caller, compiler, shared, observer, changes },
    {
      timeoutMs: external.timeout,
      maxEntries: external.max_cached_keys,
      defaults: { freshMs: external.cache_ttl, staleMs: external.stale_ttl },
      now,
      random: Math.random,
    },
  );
}

function serviceOf(external: External): ServiceClient {
  const {
    http,
    grpc,
    auth,
    max_concurrent_requests: maxConnections,
    max_response_bytes: maxResponseBytes,
  } = external;
  if (http !== undefined) {
    const { timeout: connectTimeoutMs } = external;
    const tls = tlsOptions(http.tls);
    return httpService({ url: http.url, maxConnections, maxResponseBytes, connectTimeoutMs, tls, auth });
  }
  if (grpc !== undefined) return grpcService({ grpc, maxResponseBytes, auth });
  throw new Error('rate_limit.external needs http or grpc: check the configuration with loadConfig() first.');
}

function guards(external: External): { slots: Slots; breakers: KeyBreakers; globalBreaker: Breaker } {
  const {
    max_concurrent_requests: max,
    max_queued_requests: maxWaiting,
    circuit_breaker: breaker,
  } = external;
  const probeLeaseMs = external.timeout + PROBE_GRACE_MS;
  return {
    slots: new Slots({ max, maxWaiting, maxPerKey: Math.max(1, Math.ceil(max / 4)) }),
    breakers: new KeyBreakers({
      threshold: breaker.threshold,
      openMs: breaker.reset_timeout,
      probeLeaseMs,
      max: MAX_BREAKERS,
      idleMs: BREAKER_IDLE_MS,
    }),
    globalBreaker: new Breaker({
      threshold: breaker.threshold * GLOBAL_THRESHOLD_FACTOR,
      openMs: Math.min(GLOBAL_OPEN_MS, breaker.reset_timeout),
      probeLeaseMs,
    }),
  };
}

/** In `cache_redis`, else beside the states in `redis`. */
function sharedCache(
  { config, log, observer }: LimitsSourceOptions,
  serviceId: string,
  now: () => number,
): SharedCache | undefined {
  const redis = config.cache_redis ?? config.redis;
  if (redis === undefined) return undefined;
  const section = config.cache_redis === undefined ? 'redis' : 'cache_redis';
  let told = false;
  const client = cacheClient({ section, config: redis }, ({ message }) => {
    // Once: a server that is down says so with every attempt to reach it.
    if (!told) log.warn({ message }, 'The cache of external limits has a connection problem');
    told = true;
  });
  return new SharedCache({ client, prefix: redis.key_prefix, serviceId, observer, now });
}

const LOOPBACK = /^(?:127(?:\.\d{1,3}){3}|\[::1\]|localhost)$/;

function warnOfPlainText({ http, grpc }: External, log: Log): void {
  const url = http?.url ?? (grpc === undefined || grpc.tls.enabled ? undefined : `http://${grpc.address}`);
  if (url === undefined) return;
  const { protocol, hostname } = new URL(url);
  if (protocol === 'https:' || LOOPBACK.test(hostname)) return;
  log.warn(
    { url: maskedUrl(url) },
    'External limits come without TLS: whoever is in between can give and charge any tenant',
  );
}
