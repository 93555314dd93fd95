import { setTimeout } from 'node:timers/promises';
import { isDeepStrictEqual } from 'node:util';
import type { Config } from '../../config/config.ts';
import type { Path } from '../../config/path.ts';
import { readNamedFile } from '../../config/problem.ts';
import type { BackendServers } from '../../config/schema/backend.ts';
import type { ClientTls } from '../../http-client/index.ts';
import type { Log } from '../../telemetry/log.ts';
import type { BackendHealth } from '../../telemetry/metric.ts';
import {
  HealthCheck,
  PooledUpstream,
  type PoolSettings,
  type Upstream,
  type Upstreams,
} from './pooled-upstream.ts';
import { TenantBackends, type UrlPolicyOptions } from './tenant-backends.ts';

/** A backend, and which others the external service may name instead. */
type BackendConfig = BackendServers & Pick<Config['backend'], 'url_policy'>;

export interface ConfiguredUpstreams extends Upstreams {
  /** Whether it does what this configuration asks for, files included: then it is kept, with its connections. */
  fits(backend: BackendConfig): boolean;
}

export interface UpstreamsOptions extends UrlPolicyOptions {
  readonly log: Log;
  /** After `close`, requests that began before may still ask for a server for so long. Default: 10 s. */
  readonly lateMs?: number;
}

/** Opens what the configuration names; throws an error that names the setting if a certificate cannot be read. */
export function createUpstreams(
  backend: BackendConfig,
  options: UpstreamsOptions,
  section: Path = BACKEND,
): ConfiguredUpstreams {
  return new BalancedUpstreams(planOf(backend, section), options);
}

const BACKEND: Path = ['backend'];

/** All that the upstreams depend on: equal plans, equal upstreams. */
interface UpstreamsPlan {
  readonly servers: readonly { readonly url: string; readonly weight: number }[];
  readonly loadBalancing: BackendConfig['load_balancing'];
  readonly healthCheck: BackendConfig['health_check'];
  readonly pool: PoolSettings;
  readonly dialTimeoutMs: number;
  readonly tls: ClientTls;
  readonly urlPolicy: BackendConfig['url_policy'];
}

function planOf(backend: BackendConfig, section: Path = BACKEND): UpstreamsPlan {
  const servers =
    backend.url === undefined ? backend.upstreams : [{ url: backend.url, weight: 1 }, ...backend.upstreams];
  return {
    servers: servers.map(({ url, weight }) => ({ url: new URL(url).origin, weight })),
    loadBalancing: backend.load_balancing,
    healthCheck: backend.health_check,
    pool: poolSettings(backend),
    dialTimeoutMs: backend.transport.dial_timeout,
    tls: readUpstreamTls(backend.transport.tls, section),
    urlPolicy: backend.url_policy,
  };
}

/** Reads the certificates for connections to upstreams; throws a `SettingError`. */
export function readUpstreamTls(tls: BackendConfig['transport']['tls'], section: Path = BACKEND): ClientTls {
  const read = (name: 'ca_file' | 'cert_file' | 'key_file'): string | undefined =>
    readNamedFile([...section, 'transport', 'tls', name], tls[name]);
  const files = { ca: read('ca_file'), cert: read('cert_file'), key: read('key_file') };
  return {
    ...Object.fromEntries(Object.entries(files).filter(([, content]) => content !== undefined)),
    ...(tls.server_name === undefined ? {} : { servername: tls.server_name }),
    rejectUnauthorized: !tls.insecure_skip_verify,
  };
}

function poolSettings(backend: BackendConfig): PoolSettings {
  return {
    max_conns: backend.max_conns,
    max_conns_per_client: backend.max_conns_per_client,
    max_pending_requests: backend.max_pending_requests,
    idle_conn_timeout: backend.idle_conn_timeout,
    backend_protocol: backend.transport.backend_protocol,
  };
}

const LATE_MS = 10_000;
/** The chooser of such URLs must not control how much is logged. */
const REFUSAL_LOG_MS = 1000;

class BalancedUpstreams implements ConfiguredUpstreams {
  private readonly plan: UpstreamsPlan;
  private readonly servers: readonly Server[];
  private readonly balancer: Balancer<Server>;
  private readonly tenants: TenantBackends;
  private readonly log: Log;
  private readonly lateMs: number;
  private readonly forced = new AbortController();
  private closed = false;
  private refusalLoggedMs = Number.NEGATIVE_INFINITY;

  constructor(plan: UpstreamsPlan, options: UpstreamsOptions) {
    const { log, lateMs = LATE_MS } = options;
    this.plan = plan;
    this.lateMs = lateMs;
    this.log = log;
    this.servers = plan.servers.map(({ url, weight }) => new Server(url, weight, { plan, log }));
    this.tenants = new TenantBackends({ ...plan, ...options });
    this.balancer = new Balancer(this.servers, plan.loadBalancing);
  }

  next(): Upstream | undefined {
    return this.closed ? undefined : this.balancer.next()?.upstream;
  }

  named(backendUrl: string): Upstream | undefined {
    if (this.closed) return undefined;
    const backend = this.tenants.for(backendUrl);
    if (backend.refused === undefined) return backend.upstream;
    const { refused, detail } = backend;
    const nowMs = performance.now();
    if (nowMs - this.refusalLoggedMs < REFUSAL_LOG_MS) return undefined;
    this.refusalLoggedMs = nowMs;
    this.log.warn({ refused, detail }, 'backend_url is not followed: backend.url_policy does not allow it');
    return undefined;
  }

  health(): readonly BackendHealth[] {
    return this.servers.map((server) => server.health());
  }

  fits(backend: BackendConfig): boolean {
    try {
      return isDeepStrictEqual(planOf(backend), this.plan);
    } catch {
      // A file cannot be read: createUpstreams() says which.
      return false;
    }
  }

  /**
   * A request keeps the configuration it began with, and may come late: it waited for a decision while this was
   * replaced.
   */
  async close({ force = false }: { readonly force?: boolean } = {}): Promise<void> {
    if (force) this.forced.abort();
    const checks = this.servers.map(async (server) => server.stopChecks());
    if (!force) await this.untilNobodyIsLate();
    this.closed = true;
    await Promise.all([
      ...checks,
      this.tenants.close({ force }),
      ...this.servers.map(async ({ upstream }) => upstream.close({ force })),
    ]);
  }

  private async untilNobodyIsLate(): Promise<void> {
    try {
      await setTimeout(this.lateMs, undefined, { ref: false, signal: this.forced.signal });
    } catch {
      // Someone else closes by force.
    }
  }
}

class Server implements Candidate {
  readonly weight: number;
  readonly upstream: PooledUpstream;
  private readonly check: HealthCheck | undefined;

  constructor(
    origin: string,
    weight: number,
    { plan, log }: { readonly plan: UpstreamsPlan; readonly log: Log },
  ) {
    this.weight = weight;
    this.upstream = open(origin, plan, plan.pool);
    if (!plan.healthCheck.enabled) return;
    const single = open(origin, plan, { ...plan.pool, max_conns: 1 });
    const onSuccess = (): void => this.upstream.reached();
    this.check = new HealthCheck({ upstream: single, settings: plan.healthCheck, log, onSuccess });
  }

  get inFlight(): number {
    return this.upstream.inFlight;
  }

  get healthy(): boolean {
    return this.check?.healthy ?? true;
  }

  get suspect(): boolean {
    return this.upstream.suspect;
  }

  health(): BackendHealth {
    const { upstream, healthy, inFlight } = this;
    const lastError = upstream.lastError ?? this.check?.lastError;
    return { origin: upstream.origin, healthy, inFlight, lastError };
  }

  async stopChecks(): Promise<void> {
    await this.check?.stop();
  }
}

function open(origin: string, { tls, dialTimeoutMs }: UpstreamsPlan, settings: PoolSettings): PooledUpstream {
  return new PooledUpstream(origin, { settings, tls, dialTimeoutMs });
}

/** One of several servers, as far as choosing between them goes. */
export interface Candidate {
  readonly weight: number;
  readonly inFlight: number;
  readonly healthy: boolean;
  readonly suspect: boolean;
}

/** Chooses who gets the next request. Servers under suspicion get one only when there is no other. */
export class Balancer<Server extends Candidate> {
  private readonly servers: readonly WeightedServer<Server>[];
  private readonly strategy: Config['backend']['load_balancing'];

  constructor(servers: readonly Server[], strategy: Config['backend']['load_balancing']) {
    this.servers = servers.map((server) => ({ server, credit: 0 }));
    this.strategy = strategy;
  }

  next(): Server | undefined {
    const healthy = this.servers.filter(({ server }) => server.healthy);
    if (healthy.length <= 1) return healthy[0]?.server;
    const trusted = healthy.filter(({ server }) => !server.suspect);
    const candidates = trusted.length === 0 ? healthy : trusted;
    return takeTurn(this.strategy === 'leastConnections' ? leastLoaded(candidates) : candidates);
  }
}

interface WeightedServer<Server> {
  readonly server: Server;
  credit: number;
}

/**
 * Smooth weighted round robin, as nginx does it: everyone earns his weight, the richest goes and pays what all earned.
 * Weights 5, 1, 1 give a a b a c a a, not a a a a a b c.
 */
function takeTurn<Server extends Candidate>(turns: readonly WeightedServer<Server>[]): Server | undefined {
  let richest: WeightedServer<Server> | undefined;
  let earned = 0;
  for (const turn of turns) {
    turn.credit += turn.server.weight;
    earned += turn.server.weight;
    if (richest === undefined || turn.credit > richest.credit) richest = turn;
  }
  if (richest !== undefined) richest.credit -= earned;
  return richest?.server;
}

/** Those with the fewest requests in flight per weight; more than one when they are equal. */
function leastLoaded<Server extends Candidate>(
  turns: readonly WeightedServer<Server>[],
): readonly WeightedServer<Server>[] {
  const least = Math.min(...turns.map(({ server }) => loadOf(server)));
  return turns.filter(({ server }) => loadOf(server) === least);
}

function loadOf({ inFlight, weight }: Candidate): number {
  return inFlight / weight;
}
