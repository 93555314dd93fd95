import type { Socket } from 'node:net';
import type { RequestPool } from '../../http-client/index.ts';
import type { BackendHealth } from '../../telemetry/metric.ts';
import type { GatewayErrorCode } from '../gateway-errors.ts';

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

/** The server that a request goes to, or why there is none. */
export function upstreamFor(
  upstreams: Upstreams,
  backendUrl: string | undefined,
): Upstream | GatewayErrorCode {
  if (backendUrl === undefined) {
    return upstreams.next() ?? (upstreams.health().length === 0 ? 'NO_BACKEND' : 'NO_UPSTREAM');
  }
  return upstreams.named?.(backendUrl) ?? 'UPSTREAM_UNREACHABLE';
}
