import type { Socket } from 'node:net';
import type { Config } from '../../config/config.ts';
import {
  createConnector,
  Http1Pool,
  Http2Pool,
  READ_INTO_ONE_BUFFER,
  targetOf,
  type ClientTls,
  type Connector,
  type RequestPool,
  type ResolveAll,
  fetchWhole,
} from '../../http-client/index.ts';
import type { Log } from '../../telemetry/log.ts';
import type { BackendHealth } from '../../telemetry/metric.ts';

/** One server behind the gateway. */
export interface Upstream {
  /** `http://10.0.0.1:3000`: its name in logs and metrics. */
  readonly origin: string;
  /** Its pool of connections for ordinary requests. */
  readonly pool: RequestPool;
  /** A pool that speaks HTTP/2, for requests that need it (gRPC); the same as `pool` where that speaks it. */
  readonly http2: RequestPool;
  /** Marks a request as in flight; the function that it returns marks its end, and may be called twice. */
  begin(): () => void;
  /**
   * A connection of one's own that speaks HTTP/1.1, over TLS where the server does; for tunnels. Rejects after
   * `dial_timeout`.
   */
  dial(): Promise<Socket>;
}

/** Where admitted requests go: the configured servers, or the one that a ruling names. */
export interface Upstreams {
  /** The next server; undefined if none is healthy. */
  next(): Upstream | undefined;
  /** The server that a ruling names instead (`Admission.backendUrl`); undefined if it may not be used. */
  named?(backendUrl: string): Upstream | undefined;
  health(): readonly BackendHealth[];
  /** Takes no new requests after a while; resolves when those in flight are done, or at once if forced. */
  close(options?: { readonly force?: boolean }): Promise<void>;
}

/** What a pool takes from the configuration. */
export type PoolSettings = Pick<
  Config['backend'],
  'max_conns' | 'max_conns_per_client' | 'max_pending_requests' | 'idle_conn_timeout'
> & {
  readonly backend_protocol: Config['backend']['transport']['backend_protocol'];
};

export interface PooledUpstreamOptions {
  readonly settings: PoolSettings;
  readonly tls: ClientTls;
  readonly dialTimeoutMs: number;
  /** Which addresses must not be dialled. Left out: none. */
  readonly refusesAddress?: (address: string) => boolean;
  /** Left out: the system's resolver. */
  readonly resolve?: ResolveAll | undefined;
}

/** After a connection failed, others are preferred for so long, or until one succeeds. */
const SUSPECT_MS = 5000;

/** One server and its connections. */
export class PooledUpstream implements Upstream {
  readonly origin: string;
  readonly pool: RequestPool;
  readonly http2: RequestPool;
  private readonly connectTunnel: Connector;
  private readonly pools: ReadonlySet<RequestPool>;
  private underWay = 0;
  private forced = false;
  private whenIdle: (() => void) | undefined;
  private lastConnectError: string | undefined;
  private suspectUntilMs = 0;

  constructor(origin: string, { settings, dialTimeoutMs, ...guard }: PooledUpstreamOptions) {
    const target = targetOf(origin);
    const dialling = { ...guard, timeoutMs: dialTimeoutMs };
    const bounds = {
      maxConnections: settings.max_conns,
      maxPending: settings.max_pending_requests,
      idleTimeoutMs: settings.idle_conn_timeout,
      onConnect: () => this.reached(),
      onConnectError: (error: Error) => this.unreached(error),
    };
    const http1 = new Http1Pool(origin, {
      ...bounds,
      // Whoever is slow, on purpose or not, leaves the other half to others.
      maxConnectionsPerClient: settings.max_conns_per_client ?? Math.ceil(settings.max_conns / 2),
      connect: createConnector(target, { ...dialling, http2: false, onread: READ_INTO_ONE_BUFFER }),
    });
    const http2 = new Http2Pool(origin, {
      ...bounds,
      sharePerClient:
        settings.max_conns_per_client === undefined
          ? 0.5
          : settings.max_conns_per_client / settings.max_conns,
      connect: createConnector(target, { ...dialling, http2: true }),
      http1: settings.backend_protocol === 'auto' ? http1 : undefined,
    });
    const prefersHttp2 =
      settings.backend_protocol === 'h2' || (settings.backend_protocol === 'auto' && target.secure);
    this.origin = origin;
    this.pool = prefersHttp2 ? http2 : http1;
    this.http2 = settings.backend_protocol === 'h1' ? http1 : http2;
    this.connectTunnel = createConnector(target, { ...dialling, http2: false, halfOpen: true });
    this.pools = new Set([http1, http2]);
  }

  get inFlight(): number {
    return this.underWay;
  }

  /** Why the last connection could not be opened; undefined once one was. */
  get lastError(): string | undefined {
    return this.lastConnectError;
  }

  /** A connection was opened, here or by a health check. */
  reached(): void {
    this.lastConnectError = undefined;
  }

  /** Connections fail just now: better ask another one. */
  get suspect(): boolean {
    return this.lastConnectError !== undefined && performance.now() < this.suspectUntilMs;
  }

  begin(): () => void {
    this.underWay += 1;
    let ended = false;
    return () => {
      if (ended) return;
      ended = true;
      this.underWay -= 1;
      if (this.underWay === 0) this.whenIdle?.();
    };
  }

  async dial(): Promise<Socket> {
    try {
      const socket = await this.connectTunnel();
      this.reached();
      return socket;
    } catch (failure) {
      this.unreached(failure);
      throw failure;
    }
  }

  /** Requests that have begun may still be sent; when they have ended the connections end. */
  async close({ force = false }: { readonly force?: boolean } = {}): Promise<void> {
    if (force) {
      this.forced = true;
      this.whenIdle?.();
      await Promise.all([...this.pools].map(async (pool) => pool.destroy()));
      return;
    }
    if (this.underWay > 0 && !this.forced) {
      const previous = this.whenIdle;
      await new Promise<void>((resolve) => {
        this.whenIdle = () => {
          previous?.();
          resolve();
        };
      });
    }
    await Promise.all([...this.pools].map(async (pool) => pool.close()));
  }

  private unreached(failure: unknown): void {
    this.lastConnectError = failure instanceof Error ? failure.message : String(failure);
    this.suspectUntilMs = performance.now() + SUSPECT_MS;
  }
}

export interface HealthCheckOptions {
  /** With a connection of its own: a full pool says nothing about the server's health. */
  readonly upstream: PooledUpstream;
  readonly settings: Config['backend']['health_check'];
  readonly log: Log;
  /** The server has just answered well. */
  readonly onSuccess: () => void;
}

/** Instances that started together shall not ask together. */
const JITTER = 0.2;

/** Asks a server regularly. It counts as healthy until it has failed often enough. */
export class HealthCheck {
  private readonly options: HealthCheckOptions;
  private timer: NodeJS.Timeout | undefined;
  private isHealthy = true;
  /** Answers in a row that speak against the present state. */
  private contrary = 0;
  private problem: string | undefined;
  private stopped = false;

  constructor(options: HealthCheckOptions) {
    this.options = options;
    this.schedule(0);
  }

  get healthy(): boolean {
    return this.isHealthy;
  }

  get lastError(): string | undefined {
    return this.problem;
  }

  async stop(): Promise<void> {
    this.stopped = true;
    clearTimeout(this.timer);
    await this.options.upstream.close({ force: true });
  }

  private schedule(delayMs: number): void {
    if (this.stopped) return;
    this.timer = setTimeout(() => void this.ask(), delayMs).unref();
  }

  private async ask(): Promise<void> {
    const problem = await this.findProblem();
    if (this.stopped) return;
    this.problem = problem;
    if (problem === undefined) this.options.onSuccess();
    this.count(problem);
    const { interval } = this.options.settings;
    this.schedule(interval * (1 - JITTER / 2 + JITTER * Math.random()));
  }

  /** Undefined if it is well. */
  private async findProblem(): Promise<string | undefined> {
    const { upstream, settings } = this.options;
    try {
      const { status } = await fetchWhole(upstream.pool, {
        method: 'GET',
        path: settings.path,
        headers: ['user-agent', 'spillgate-health-check', 'accept', '*/*'],
        maxBodyBytes: () => MAX_BODY_BYTES,
        signal: AbortSignal.timeout(settings.timeout),
      });
      return status >= 200 && status < 400 ? undefined : `${settings.path} answered ${status}`;
    } catch (failure) {
      return failure instanceof Error ? failure.message : String(failure);
    }
  }

  private count(problem: string | undefined): void {
    const { upstream, settings, log } = this.options;
    if ((problem === undefined) === this.isHealthy) {
      this.contrary = 0;
      return;
    }
    this.contrary += 1;
    if (this.contrary < (this.isHealthy ? settings.unhealthy_threshold : settings.healthy_threshold)) return;
    this.isHealthy = !this.isHealthy;
    this.contrary = 0;
    if (this.isHealthy) log.info({ upstream: upstream.origin }, 'upstream is healthy again');
    else log.warn({ upstream: upstream.origin, problem }, 'upstream is unhealthy and left out');
  }
}

const MAX_BODY_BYTES = 64 * 1024;
