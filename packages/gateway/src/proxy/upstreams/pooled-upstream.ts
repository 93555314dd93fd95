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
} from '../../http-client/index.ts';
import type { Upstream } from './upstream.ts';

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
