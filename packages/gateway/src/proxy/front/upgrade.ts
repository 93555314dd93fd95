import type { IncomingMessage } from 'node:http';
import type { Duplex } from 'node:stream';
import type { Delay } from 'spillgate/http';
import type { Admission, Ruling, Waiter } from '../../rules/gate.ts';
import type { Outcome } from '../../telemetry/traffic.ts';
import { OWN_ANSWERS, ownAnswer, rawAnswer, type AnswerCode, type AnswerText } from '../answers.ts';
import type { Live, ProxyContext, Trace } from '../context.ts';
import { GateWait } from '../gate-wait.ts';
import { requestHeaders } from '../forward/request-headers.ts';
import { comesBack, isOfInterest, refusalText } from '../passage.ts';
import { readRequest, requestIdOf, type ReadRequest } from '../request/read-request.ts';
import { readingRules, type ReadingRules } from '../request/reading-rules.ts';
import type { TunnelEnd } from '../tunnel.ts';
import type { Upstream } from '../upstreams/upstream.ts';
import { Http1Head } from './http1-exchange.ts';

export interface UpgradeRequest {
  readonly request: IncomingMessage;
  readonly socket: Duplex;
  readonly head: Buffer;
  readonly scheme: 'http' | 'https';
  /** Another request on the connection is not answered yet. */
  readonly busy: boolean;
}

const NOTHING = { bytesReceived: 0, bytesSent: 0, upstreamMs: undefined };

/** A request for a tunnel: asked about at the gate like any other, then handed over. */
export function serveUpgrade(upgrade: UpgradeRequest, context: ProxyContext): void {
  // Nobody may ask for another protocol before the last answer came: bytes of both would mix.
  if (upgrade.busy) upgrade.socket.destroy();
  else void new UpgradePassage(upgrade, context).run();
}

class UpgradePassage implements Waiter {
  private readonly upgrade: UpgradeRequest;
  private readonly context: ProxyContext;
  private readonly live: Live;
  private readonly rules: ReadingRules;
  private readonly head: Http1Head;
  private readonly id: string;
  private readonly startedAt = performance.now();
  private readonly wait: GateWait;
  private answered = false;
  private request: ReadRequest | undefined;
  private ruling: Ruling | undefined;
  private trace: Trace | undefined;
  private upstream: Upstream | undefined;

  constructor(upgrade: UpgradeRequest, context: ProxyContext) {
    this.upgrade = upgrade;
    this.context = context;
    this.live = context.live();
    this.rules = readingRules(this.live.config);
    this.head = new Http1Head(upgrade.request, upgrade.scheme);
    this.id = requestIdOf(this.head, this.rules.requestIdHeader);
    this.wait = new GateWait(this.startedAt, () => this.answer('REQUEST_TIMEOUT'));
  }

  /** The gate says that the request waits for its turn. */
  waits(turn: Delay, timeoutMs: number | undefined): void {
    this.wait.forTurn(turn, timeoutMs ?? this.live.config.server.request_timeout);
  }

  /** Never rejects. */
  async run(): Promise<void> {
    const { context, live } = this;
    context.load.underWay += 1;
    context.traffic.started();
    // The server no longer listens for errors of this socket.
    this.upgrade.socket.on('error', () => this.upgrade.socket.destroy());
    try {
      if (context.load.underWay > live.config.server.max_concurrent_requests) {
        this.answer('TOO_MANY_REQUESTS_UNDER_WAY');
        return;
      }
      const request = readRequest(this.head, this.id, this.rules);
      const code = 'code' in request ? request.code : this.head.bodyless ? undefined : 'INVALID_FRAMING';
      if (code !== undefined || 'code' in request) {
        this.answer(code ?? 'MALFORMED_REQUEST');
        return;
      }
      await this.admit(request);
    } catch (cause) {
      context.log.error({ err: cause, requestId: this.id }, 'a tunnel could not be opened');
      this.answer('GATE_FAILED');
    } finally {
      context.load.underWay -= 1;
    }
  }

  private async admit(request: ReadRequest): Promise<void> {
    this.request = request;
    if (isOfInterest(request)) this.context.proxyWatch.saw(request, this.head.peer, this.live.config);
    if (comesBack(request, this.context.pseudonym)) {
      this.answer('LOOP_DETECTED');
      return;
    }
    this.trace = this.live.tracer?.(request.facts);
    const pending = this.live.gate.rule(request.facts, this);
    this.upgrade.socket.once('close', () => this.wait.end());
    if ('then' in pending) this.wait.atMost(this.live.config.server.request_timeout);
    const ruling = await pending;
    this.wait.end();
    if (this.answered) return;
    if (this.upgrade.socket.destroyed) {
      this.finished('aborted', { ...NOTHING, status: undefined, reason: 'CLIENT_GONE' });
      return;
    }
    this.ruling = ruling;
    if (ruling.admitted) await this.open(request, ruling);
    else this.write(refusalText(ruling, false), 'refused', ruling.detail.reason);
  }

  private async open(request: ReadRequest, admission: Admission): Promise<void> {
    const { context, live, upgrade } = this;
    if (context.tunnels === undefined || context.load.ending) {
      this.answer(context.tunnels === undefined ? 'UPGRADE_NOT_SUPPORTED' : 'SHUTTING_DOWN');
      return;
    }
    const { backendUrl } = admission;
    const upstream = backendUrl === undefined ? live.upstreams.next() : live.upstreams.named?.(backendUrl);
    if (upstream === undefined) {
      this.answer(backendUrl === undefined ? 'NO_UPSTREAM' : 'UPSTREAM_UNREACHABLE');
      return;
    }
    this.upstream = upstream;
    const end = upstream.begin();
    try {
      const result = await context.tunnels.open({
        request: upgrade.request,
        socket: upgrade.socket,
        head: upgrade.head,
        facts: request.facts,
        admission,
        upstream,
        config: live.config,
        headers: requestHeaders({
          head: this.head,
          request,
          rules: this.rules,
          pseudonym: context.pseudonym,
          trace: this.trace?.headers,
        }),
        path: request.facts.path + request.facts.query,
        responseHeaders: [...admission.headers, [live.config.server.request_id_header, this.id]],
      });
      this.finished(outcomeOf(result), result);
    } finally {
      end();
    }
  }

  private answer(code: AnswerCode): void {
    if (this.answered) return;
    const outcome = OWN_ANSWERS[code].status < 500 ? 'invalid' : 'failed';
    this.write(ownAnswer(code, this.id, { ruling: this.ruling }), outcome, code);
  }

  private write(answer: AnswerText, outcome: Outcome, reason: string): void {
    const { socket } = this.upgrade;
    this.answered = true;
    answer.headers.push(this.live.config.server.request_id_header, this.id);
    socket.end(rawAnswer(answer), () => socket.destroy());
    this.finished(outcome, {
      status: answer.status,
      reason,
      ...NOTHING,
      bytesSent: Buffer.byteLength(answer.body),
    });
  }

  private finished(outcome: Outcome, end: TunnelEnd): void {
    const { head, request } = this;
    const finished = {
      id: this.id,
      outcome,
      method: head.method,
      scheme: head.scheme,
      host: request?.facts.host ?? '',
      path: request?.facts.path ?? '',
      protocol: 'websocket' as const,
      clientAddress: request?.facts.client.address ?? head.peer,
      rule: this.ruling?.detail.rule,
      upstream: this.upstream?.origin,
      durationMs: performance.now() - this.startedAt,
      traceId: this.trace?.traceId,
      ...end,
    };
    this.trace?.end(finished);
    this.context.traffic.finished(finished);
  }
}

function outcomeOf({ status, reason }: TunnelEnd): Outcome {
  if (status === undefined) return 'aborted';
  if (status === 101 || reason === undefined) return 'forwarded';
  return status < 500 ? 'refused' : 'failed';
}
