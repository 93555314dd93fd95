// The seam between the HTTP front and tunnels: what a request that asks for another protocol (a WebSocket) is handed
// over with.
import type { Duplex } from 'node:stream';
import type { Config } from '../../config/config.ts';
import type { Admission } from '../../rules/rule-outcome.ts';
import type { ReadRequest } from '../request/read-request.ts';
import type { BackendRoute } from '../routing/route.ts';
import type { Upstream } from '../upstreams/pooled-upstream.ts';

/** An admitted request for a tunnel. The gate has charged it already. */
export interface TunnelRequest {
  /** The client's connection. It belongs to the tunnel from now on, which also ends it. */
  readonly socket: Duplex;
  /** What the client sent after its headers; nothing of it goes out before the upstream agreed. */
  readonly rest: Buffer;
  readonly request: ReadRequest;
  readonly admission: Admission;
  readonly route: Pick<BackendRoute, 'backend' | 'target'>;
  /** Already marked as in flight: its end is marked when the promise of `openTunnel` settles. */
  readonly upstream: Upstream;
  readonly config: Config;
  /**
   * Names and values by turns, ready for the upstream: `Host`, `X-Forwarded-*`, the request id. `Connection`, `Upgrade`
   * and what else belongs to one hop are not among them; `Sec-WebSocket-*` and `Origin` are, as the client sent them.
   */
  readonly headers: readonly string[];
  /** What every answer to the client carries: the request id, and what the limits are. */
  readonly responseHeaders: readonly (readonly [name: string, value: string])[];
}

/** What became of a tunnel. */
export interface TunnelEnd {
  /** What the client was answered: 101, or a refusal; undefined if it was gone before. */
  readonly status: number | undefined;
  /** Why there is no tunnel, or why it ended, where the gateway decided that; undefined for an ordinary end. */
  readonly reason: string | undefined;
  readonly bytesReceived: number;
  readonly bytesSent: number;
  /** Until the upstream's answer. */
  readonly upstreamMs: number | undefined;
}

/**
 * Connects the client with the upstream, and resolves when the tunnel has ended. Never rejects. Answers the client
 * itself when there is no tunnel: with what the upstream said instead of 101, or with a problem of its own.
 */
export type OpenTunnel = (tunnel: TunnelRequest) => Promise<TunnelEnd>;

/** Tunnels as the front sees them. */
export interface Tunnels {
  readonly open: OpenTunnel;
  /**
   * At shutdown: ends what is open, politely if the protocol knows how. Resolves when all are gone, or at the deadline.
   */
  drain(deadlineMs: number): Promise<void>;
}
