import type { Duplex } from 'node:stream';
import type { FinishedRequest, RequestOutcome } from '../telemetry/traffic.ts';
import { isMalformed, rawResponse, type GatewayErrorCode, type AnswerText } from './gateway-errors.ts';
import type { AdmittedRequest, Ending, ProxyContext, TunnelEnd, TunnelRequest, Tunnels } from './context.ts';
import type { RequestHead } from './exchange.ts';
import { requestHeaders } from './forward/headers.ts';
import { GatewayRequest } from './gateway-request.ts';
import type { ReadRequest } from './request/read-request.ts';
import type { Upstream } from './upstreams/pooled-upstream.ts';

export interface Upgrade {
  readonly head: RequestHead;
  /** The client's connection. */
  readonly socket: Duplex;
  /** What the client sent after its headers. */
  readonly rest: Buffer;
}

/** A request for a tunnel (a WebSocket). */
export class UpgradeRequest extends GatewayRequest {
  private readonly upgrade: Upgrade;

  constructor(upgrade: Upgrade, context: ProxyContext) {
    super(upgrade.head, context);
    this.upgrade = upgrade;
    const { socket } = upgrade;
    // The server no longer listens for errors of this socket.
    socket.on('error', () => socket.destroy());
    socket.once('close', this.clientGone);
  }

  protected override get settled(): boolean {
    return this.isFinished;
  }

  protected override get speaksGrpc(): boolean {
    return false;
  }

  protected override get protocol(): FinishedRequest['protocol'] {
    return 'websocket';
  }

  /** What follows the headers belongs to the tunnel: it cannot be a body as well. */
  protected override read(): ReadRequest | GatewayErrorCode {
    const request = super.read();
    return typeof request === 'object' && !this.upgrade.head.bodyless ? 'INVALID_FRAMING' : request;
  }

  protected override forward(admitted: AdmittedRequest): void {
    const { route, context } = admitted;
    const { tunnels } = context;
    if (tunnels === undefined || context.load.ending) {
      this.answer(tunnels === undefined ? 'UPGRADE_NOT_SUPPORTED' : 'SHUTTING_DOWN');
      return;
    }
    const upstream = route.next();
    if (typeof upstream === 'string') this.answer(upstream);
    else void this.tunnel(this.tunnelRequest(admitted, upstream), tunnels);
  }

  private tunnelRequest(
    { head, request, admission, route, context, snapshot, rules, trace }: AdmittedRequest,
    upstream: Upstream,
  ): TunnelRequest {
    const { socket, rest } = this.upgrade;
    return {
      socket,
      rest,
      request,
      admission,
      route,
      upstream,
      config: snapshot.config,
      headers: requestHeaders({
        head,
        request,
        route,
        rules,
        pseudonym: context.pseudonym,
        trace: trace?.headers,
      }),
      responseHeaders: [...admission.headers, [snapshot.config.server.request_id_header, this.id]],
    };
  }

  private async tunnel(request: TunnelRequest, tunnels: Tunnels): Promise<void> {
    const { upstream, socket } = request;
    // It has a connection of its own from now on, and bounds of its own.
    this.stopCounting();
    // Who relays the connection says how it ended.
    socket.off('close', this.clientGone);
    const end = upstream.begin();
    const result = await tunnels.open(request);
    end();
    this.finish(
      { outcome: outcomeOf(result), reason: result.reason },
      { ...result, upstream: upstream.origin },
    );
  }

  protected override answer(code: GatewayErrorCode): void {
    const { socket, head } = this.upgrade;
    if (isMalformed(code)) {
      this.context.overhead.forPeer(head.peer, () => socket.destroy()).spend('malformedRequest');
    }
    super.answer(code);
  }

  protected override send(answer: AnswerText, ending: Ending): void {
    if (this.isFinished) return;
    const { socket } = this.upgrade;
    socket.end(rawResponse(answer), () => socket.destroy());
    this.finish(ending, { status: answer.status, bytesSent: Buffer.byteLength(answer.body) });
  }

  private readonly clientGone = (): void => {
    this.finish({ outcome: 'aborted', reason: 'CLIENT_GONE' });
  };
}

function outcomeOf({ status, reason }: TunnelEnd): RequestOutcome {
  if (status === undefined) return 'aborted';
  if (status === 101 || reason === undefined) return 'forwarded';
  return status < 500 ? 'refused' : 'failed';
}
