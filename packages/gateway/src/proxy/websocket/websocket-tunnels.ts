import type { Duplex } from 'node:stream';
import type { Log } from '../../telemetry/log.ts';
import type { TrafficListener } from '../../telemetry/traffic.ts';
import { errorAnswer, rawResponse, type GatewayErrorCode } from '../gateway-errors.ts';
import { CountByKey, type TunnelEnd, type TunnelRequest, type Tunnels } from '../context.ts';
import {
  headersFor,
  headText,
  relayDeclined,
  linesOf,
  shakeHands,
  webSocketKey,
  type Handshake,
} from './handshake.ts';
import { Relay } from './relay.ts';

export interface TunnelsOptions {
  readonly log: Log;
  readonly traffic: Pick<TrafficListener, 'tunnelOpened' | 'tunnelClosed'>;
}

/** WebSockets through the gateway. */
export function createTunnels(options: TunnelsOptions): Tunnels {
  const tunnels = new WebSocketTunnels(options);
  return {
    open: async (tunnel) => tunnels.open(tunnel),
    drain: async (deadlineMs) => tunnels.drain(deadlineMs),
  };
}

/** How long a client has to take our answer before its connection is cut. */
const LINGER_MS = 5000;
const NEVER_SILENT_MS = 300_000;
const NOTHING = { bytesReceived: 0, bytesSent: 0, upstreamMs: undefined };

class WebSocketTunnels {
  private readonly options: TunnelsOptions;
  private readonly relays = new Set<Relay>();
  /** Tunnels in flight from the first moment to the last, so that a shutdown waits for all of them. */
  private readonly underWay = new Map<Promise<TunnelEnd>, AbortController>();
  private readonly perKey = new CountByKey();
  private draining = false;

  constructor(options: TunnelsOptions) {
    this.options = options;
  }

  async open(tunnel: TunnelRequest): Promise<TunnelEnd> {
    const abort = new AbortController();
    tunnel.socket.on('error', () => {});
    const end = this.run(tunnel, abort);
    this.underWay.set(end, abort);
    try {
      return await end;
    } finally {
      this.underWay.delete(end);
    }
  }

  async drain(deadlineMs: number): Promise<void> {
    this.draining = true;
    for (const relay of this.relays) relay.close('SHUTTING_DOWN');
    const timer = setTimeout(() => {
      for (const relay of this.relays) relay.destroy();
      for (const abort of this.underWay.values()) abort.abort();
    }, deadlineMs);
    await Promise.all(this.underWay.keys());
    clearTimeout(timer);
  }

  private async run(tunnel: TunnelRequest, abort: AbortController): Promise<TunnelEnd> {
    const key = webSocketKey(tunnel);
    if (key === undefined) return refuse(tunnel, 'INVALID_HANDSHAKE');
    if (this.draining) return refuse(tunnel, 'SHUTTING_DOWN');
    if (!originIsAllowed(tunnel)) return refuse(tunnel, 'ORIGIN_NOT_ALLOWED');
    const release = this.reserve(tunnel);
    if (release === undefined) return refuse(tunnel, 'TOO_MANY_TUNNELS');
    try {
      return await this.connect(tunnel, key, abort);
    } catch (cause) {
      this.options.log.error({ cause, requestId: tunnel.request.facts.id }, 'a tunnel failed unexpectedly');
      tunnel.socket.destroy();
      return { ...NOTHING, status: undefined, reason: 'UPSTREAM_BROKEN' };
    } finally {
      release();
    }
  }

  private async connect(tunnel: TunnelRequest, key: string, abort: AbortController): Promise<TunnelEnd> {
    const { socket, upstream, request } = tunnel;
    const gone = (): void => abort.abort();
    socket.once('close', gone);
    const startedMs = performance.now();
    const handshake = await shakeHands(tunnel, key, { timeoutMs: timeoutOf(tunnel), signal: abort.signal });
    const upstreamMs = performance.now() - startedMs;
    socket.off('close', gone);

    if (socket.destroyed) {
      if (handshake.outcome !== 'failed') handshake.socket.destroy();
      return { ...NOTHING, upstreamMs, status: undefined, reason: undefined };
    }
    if (handshake.outcome === 'failed') {
      const { reason, cause } = handshake;
      this.options.log.warn(
        { cause, upstream: upstream.origin, requestId: request.facts.id },
        `no tunnel: ${reason}`,
      );
      return refuse(tunnel, reason);
    }
    return { ...(await this.pass(tunnel, handshake)), upstreamMs };
  }

  private async pass(
    tunnel: TunnelRequest,
    handshake: Exclude<Handshake, { outcome: 'failed' }>,
  ): Promise<TunnelEnd> {
    if (handshake.outcome === 'agreed') return this.relay(tunnel, handshake);
    const { response, body, socket } = handshake;
    const { socket: client, responseHeaders, config, route } = tunnel;
    client.resume();
    const bytesSent = await relayDeclined(response, body, {
      client,
      headers: responseHeaders.flat(),
      requestIdHeader: config.server.request_id_header.toLowerCase(),
      idleTimeoutMs: route.backend.body_idle_timeout || NEVER_SILENT_MS,
    });
    socket.destroy();
    return { ...NOTHING, bytesSent, status: response.status, reason: undefined };
  }

  private async relay(
    { socket: client, rest, config, responseHeaders }: TunnelRequest,
    { response, socket: upstream, rest: upstreamRest }: Extract<Handshake, { outcome: 'agreed' }>,
  ): Promise<TunnelEnd> {
    const { request_id_header: idHeader, websocket } = config.server;
    const passedOn = headersFor(response, idHeader.toLowerCase());
    const fields = ['Connection', 'Upgrade', 'Upgrade', 'websocket', ...passedOn];
    client.write(headText(101, [...fields, ...responseHeaders.flat()]), 'latin1');
    // Through the same door as everything later, so that limits count it.
    if (rest.length > 0) client.unshift(rest);
    if (upstreamRest.length > 0) upstream.unshift(upstreamRest);

    const relay = new Relay({
      client,
      upstream,
      idleTimeoutMs: websocket.idle_timeout,
      maxBytes: websocket.max_transfer_bytes,
    });
    // It was held back until somebody listens.
    upstream.resume();
    this.relays.add(relay);
    this.options.traffic.tunnelOpened();
    if (this.draining) relay.close('SHUTTING_DOWN');
    const reason = await relay.ended();
    this.relays.delete(relay);
    this.options.traffic.tunnelClosed();
    return {
      status: 101,
      reason,
      bytesReceived: relay.bytesFromClient,
      bytesSent: relay.bytesToClient,
      upstreamMs: undefined,
    };
  }

  /** Counts the tunnel for its key; undefined if that has as many as it may. */
  private reserve({ admission: { connectionKey: key }, config }: TunnelRequest): (() => void) | undefined {
    const max = config.server.websocket.max_per_key;
    if (key === undefined || max === 0) return () => {};
    if (this.perKey.of(key) >= max) return undefined;
    this.perKey.add(key);
    return () => this.perKey.remove(key);
  }
}

/** Who lists origins wants browsers only, so a request without one is not let in. */
function originIsAllowed({ config, headers }: TunnelRequest): boolean {
  const allowed = config.server.websocket.allowed_origins;
  if (allowed.length === 0) return true;
  const [origin, second] = linesOf(headers, 'origin');
  if (origin === undefined || second !== undefined) return false;
  return allowed.some((candidate) => candidate.toLowerCase() === origin.toLowerCase());
}

function timeoutOf({ route, admission }: TunnelRequest): number {
  return Math.min(route.backend.timeout, admission.timeoutMs ?? Number.POSITIVE_INFINITY);
}

async function refuse(
  { socket, request, responseHeaders }: TunnelRequest,
  reason: GatewayErrorCode,
): Promise<TunnelEnd> {
  const answer = errorAnswer(reason, request.facts.id);
  answer.headers.push(...responseHeaders.flat());
  await lastWords(socket, rawResponse(answer));
  return { ...NOTHING, status: answer.status, reason };
}

/**
 * Answers and closes. What the client still sends is read and thrown away: unread, it would reset the connection under
 * the answer.
 */
async function lastWords(socket: Duplex, bytes: Buffer): Promise<void> {
  if (socket.destroyed) return;
  await new Promise<void>((resolve) => {
    const timer = setTimeout(() => socket.destroy(), LINGER_MS);
    socket.once('close', () => {
      clearTimeout(timer);
      resolve();
    });
    socket.resume();
    socket.end(bytes);
  });
}
