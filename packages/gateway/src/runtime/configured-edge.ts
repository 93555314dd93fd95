import { randomUUID } from 'node:crypto';
import { isDeepStrictEqual } from 'node:util';
import { Authorizer } from '../authorization/authorizer.ts';
import type { AuthorizationService } from '../authorization/authorization-service.ts';
import type { AuthorizationConfig } from '../config/schema/authorization.ts';
import type { UsageEventsConfig } from '../config/schema/usage-events.ts';
import type { Config } from '../config/config.ts';
import { tlsOptions } from '../external/service/service.ts';
import type { ClientTls } from '../http-client/index.ts';
import type { Log } from '../telemetry/log.ts';
import type { FinishedRequest, TrafficListener } from '../telemetry/traffic.ts';
import { usageEvent, type UsageEvent, UsageQueue, fileSink, httpSink } from '../usage/usage-events.ts';

/** What happens around the rules: before them and behind the request. */
export interface ConfiguredEdge {
  readonly authorizer: Authorizer | undefined;
  readonly usage: UsageRecorder | undefined;
  /** All that each depends on. */
  readonly edgePlans: { readonly authorization: object; readonly usage: object };
}

export interface EdgeTools {
  readonly log: Log;
  readonly count: TrafficListener['count'];
}

/** What a configuration asks for; of what is in use, that which fits is kept. */
export async function configuredEdge(
  { authorization, usage_events: events }: Config,
  tools: EdgeTools,
  current?: ConfiguredEdge,
): Promise<ConfiguredEdge> {
  const tls = authorizationTls(authorization);
  const usageTls = events.http === undefined ? undefined : tlsOptions(events.http.tls);
  const edgePlans = { authorization: { authorization, tls }, usage: { events, usageTls } };
  const authorizer = isDeepStrictEqual(current?.edgePlans.authorization, edgePlans.authorization)
    ? current?.authorizer
    : await openAuthorizer(authorization, tls, tools.log);
  const usage = isDeepStrictEqual(current?.edgePlans.usage, edgePlans.usage)
    ? current?.usage
    : openUsage(events, usageTls, tools);
  return { authorizer, usage, edgePlans };
}

/** What is queued has so long to leave. */
const FLUSH_MS = 5000;

function authorizationTls({ http, grpc }: AuthorizationConfig): ClientTls | undefined {
  if (http !== undefined) return tlsOptions(http.tls);
  return grpc?.tls.enabled === true ? tlsOptions(grpc.tls) : undefined;
}

async function openAuthorizer(
  config: AuthorizationConfig,
  tls: ClientTls | undefined,
  log: Log,
): Promise<Authorizer | undefined> {
  if (!config.enabled) return undefined;
  return new Authorizer({ config, service: await openService(config, tls), log });
}

async function openService(
  config: AuthorizationConfig,
  tls: ClientTls | undefined,
): Promise<AuthorizationService> {
  const { http, grpc, auth, timeout: timeoutMs, max_response_bytes: maxResponseBytes } = config;
  const lower = (names: readonly string[]): ReadonlySet<string> =>
    new Set(names.map((name) => name.toLowerCase()));
  const asked = {
    auth,
    timeoutMs,
    maxResponseBytes,
    upstreamHeaders: lower(config.upstream_headers),
    responseHeaders: lower(config.response_headers),
  };
  if (http !== undefined) {
    const { httpAuthorization } = await import('../authorization/http-authorization.ts');
    const maxConnections = config.max_concurrent_requests;
    return httpAuthorization({ ...asked, url: http.url, tls: tls ?? {}, maxConnections });
  }
  if (grpc === undefined) throw new Error('authorization needs http or grpc: check the configuration first.');
  // Half of the time that a gateway takes to start would be for its packages, which most gateways do not need.
  const { grpcAuthorization } = await import('../authorization/grpc-authorization.ts');
  return grpcAuthorization({ ...asked, address: grpc.address, tls });
}

/** Makes events of requests. */
export class UsageRecorder {
  private readonly queue: UsageQueue<UsageEvent>;
  private readonly outcomes: ReadonlySet<FinishedRequest['outcome']>;
  private readonly source = `/spillgate/${randomUUID()}`;

  constructor(queue: UsageQueue<UsageEvent>, outcomes: readonly FinishedRequest['outcome'][]) {
    this.queue = queue;
    this.outcomes = new Set(outcomes);
  }

  /** Never throws, and never waits. */
  record(request: FinishedRequest): void {
    if (this.outcomes.has(request.outcome)) this.queue.add(usageEvent(request, this.source));
  }

  async close(): Promise<void> {
    await this.queue.close(FLUSH_MS);
  }
}

function openUsage(
  { enabled, file, http, ...events }: UsageEventsConfig,
  tls: ClientTls | undefined,
  { log, count: countMetric }: EdgeTools,
): UsageRecorder | undefined {
  if (!enabled) return undefined;
  const sink =
    http === undefined
      ? fileSink(file ?? '')
      : httpSink({ url: http.url, tls: tls ?? {}, auth: http.auth, timeoutMs: http.timeout });
  const queue = new UsageQueue<UsageEvent>({
    sink,
    batchSize: events.batch_size,
    flushIntervalMs: events.flush_interval,
    maxQueued: events.max_queued,
    log,
    count: (result, count) => {
      for (let counted = 0; counted < count; counted += 1) countMetric('usageEvents', result);
    },
  });
  return new UsageRecorder(queue, events.outcomes);
}
