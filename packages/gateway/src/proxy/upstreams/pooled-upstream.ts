import type { Socket } from 'node:net';
import type { Config } from '../../config/config.ts';
import type { Upstream } from '../upstreams.ts';
import { dial, type Connector } from './connector.ts';
import { Http1Pool } from './http1/pool.ts';
import { Http2Pool } from './http2-pool.ts';
import type { RequestPool } from './request-pool.ts';

type Backend = Config['backend'];

/** What a pool takes from the configuration. */
export type PoolSettings = Pick<
  Backend,
  'max_conns' | 'max_pending_requests' | 'idle_conn_timeout' | 'timeout' | 'body_idle_timeout'
> & { readonly backend_protocol: Backend['transport']['backend_protocol'] };

export interface PooledUpstreamOptions {
  readonly settings: PoolSettings;
  /** For HTTP/1.1, with `READ_INTO_ONE_BUFFER`; for HTTP/2, which TLS has to be asked for; and for tunnels. */
  readonly connect: Readonly<Record<'http1' | 'http2' | 'tunnel', Connector>>;
}

/** After a connection failed, others are preferred for so long, or until one succeeds. */
const SUSPECT_MS = 5000;

/** One server and its connections. */
export class PooledUpstream implements Upstream {
  readonly origin: string;
  readonly dispatcher: RequestPool;
  readonly http2: RequestPool;
  readonly #connect: Connector;
  readonly #pools: ReadonlySet<RequestPool>;
  #inFlight = 0;
  #forced = false;
  #whenIdle: (() => void) | undefined;
  #lastError: string | undefined;
  #suspectUntilMs = 0;

  constructor(origin: string, { settings, connect }: PooledUpstreamOptions) {
    const secure = origin.startsWith('https:');
    const bounds = {
      maxConnections: settings.max_conns,
      maxPending: settings.max_pending_requests,
      idleTimeoutMs: settings.idle_conn_timeout,
      headersTimeoutMs: settings.timeout,
      bodyTimeoutMs: settings.body_idle_timeout,
      onConnect: () => this.#reached(),
      onConnectError: (error: Error) => this.#unreached(error),
    };
    const http1 = new Http1Pool(origin, { ...bounds, connect: connect.http1 });
    const http2 = new Http2Pool(origin, {
      ...bounds,
      connect: connect.http2,
      http1: settings.backend_protocol === 'auto' ? http1 : undefined,
    });
    const prefersHttp2 =
      settings.backend_protocol === 'h2' || (settings.backend_protocol === 'auto' && secure);
    this.origin = origin;
    this.dispatcher = prefersHttp2 ? http2 : http1;
    this.http2 = settings.backend_protocol === 'h1' ? http1 : http2;
    this.#connect = connect.tunnel;
    this.#pools = new Set([http1, http2]);
  }

  get inFlight(): number {
    return this.#inFlight;
  }

  /** Why the last connection could not be opened; undefined once one was. */
  get lastError(): string | undefined {
    return this.#lastError;
  }

  /** Connections fail just now: better ask another one. */
  get suspect(): boolean {
    return this.#lastError !== undefined && performance.now() < this.#suspectUntilMs;
  }

  begin(): () => void {
    this.#inFlight += 1;
    let ended = false;
    return () => {
      if (ended) return;
      ended = true;
      this.#inFlight -= 1;
      if (this.#inFlight === 0) this.#whenIdle?.();
    };
  }

  async dial(): Promise<Socket> {
    try {
      const socket = await dial(this.origin, this.#connect);
      this.#reached();
      return socket;
    } catch (failure) {
      this.#unreached(failure);
      throw failure;
    }
  }

  /** Requests that have begun may still be sent; when they have ended the connections end. */
  async close({ force = false }: { readonly force?: boolean } = {}): Promise<void> {
    if (force) {
      this.#forced = true;
      this.#whenIdle?.();
      await Promise.all([...this.#pools].map(async (pool) => pool.destroy()));
      return;
    }
    if (this.#inFlight > 0 && !this.#forced) {
      const previous = this.#whenIdle;
      await new Promise<void>((resolve) => {
        this.#whenIdle = () => {
          previous?.();
          resolve();
        };
      });
    }
    await Promise.all([...this.#pools].map(closed));
  }

  #reached(): void {
    this.#lastError = undefined;
  }

  #unreached(failure: unknown): void {
    this.#lastError = failure instanceof Error ? failure.message : String(failure);
    this.#suspectUntilMs = performance.now() + SUSPECT_MS;
  }
}

/** A pool that was destroyed in the meantime is closed, too. */
async function closed(pool: RequestPool): Promise<void> {
  try {
    await pool.close();
  } catch {
    await pool.destroy();
  }
}
