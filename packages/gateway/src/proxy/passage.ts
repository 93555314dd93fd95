import { STATUS_CODES } from 'node:http';
import type { Delay, HeaderPair } from 'spillgate/http';
import type { Admission, Refusal, Ruling, Waiter } from '../rules/gate.ts';
import type { FinishedRequest, Outcome } from '../telemetry/traffic.ts';
import { grpcAnswer, OWN_ANSWERS, ownAnswer, type AnswerCode, type AnswerText } from './answers.ts';
import type { Live, ProxyContext, Trace } from './context.ts';
import type { Exchange, ExchangeListener } from './exchange.ts';
import { GateWait } from './gate-wait.ts';
import { Forwarding, type ForwardingOwner } from './forward/forwarding.ts';
import { readRequest, requestIdOf, type ReadRequest } from './request/read-request.ts';
import { readingRules, type ReadingRules } from './request/reading-rules.ts';

/** A refused body of this size at most is read and dropped, so that the connection can go on. */
const MAX_DROPPED_BODY_BYTES = 65_536;

/** The way of one request through the gateway, from its headers to the last byte of its response. */
export class Passage implements ExchangeListener, ForwardingOwner, Waiter {
  readonly exchange: Exchange;
  readonly context: ProxyContext;
  readonly live: Live;
  readonly rules: ReadingRules;
  readonly id: string;
  request: ReadRequest | undefined;
  trace: Trace | undefined;
  upstream: string | undefined;
  upstreamMs: number | undefined;
  bytesSent = 0;
  status: number | undefined;
  over = false;
  readonly startedAt = performance.now();
  private wait: GateWait | undefined;
  private forwarding: Forwarding | undefined;
  private ruling: Ruling | undefined;
  private outcome: Outcome | undefined;
  private reason: string | undefined;

  constructor(exchange: Exchange, context: ProxyContext) {
    this.exchange = exchange;
    this.context = context;
    this.live = context.live();
    this.rules = readingRules(this.live.config);
    this.id = requestIdOf(exchange, this.rules.requestIdHeader);
  }

  /** Never throws: what goes wrong in here ends this request, and no other. */
  start(): void {
    this.exchange.listen(this);
    this.context.load.underWay += 1;
    this.context.traffic.started();
    try {
      this.enter();
    } catch (cause) {
      this.gateFailed(cause);
    }
  }

  /** A response of our own, unless one has begun: that is cut off. */
  answer(code: AnswerCode): void {
    if (this.over) return;
    if (this.status !== undefined) {
      this.cut(code);
      return;
    }
    const { status } = OWN_ANSWERS[code];
    this.settle(status < 500 ? 'invalid' : 'failed', code);
    const { request, ruling } = this;
    this.send(ownAnswer(code, this.id, { grpc: request?.grpc, ruling }), status < 500 || this.leavesBody());
  }

  /** The upstream's answer has begun to flow. */
  responded(status: number): void {
    this.status = status;
    this.settle('forwarded', undefined);
  }

  /** A response that cannot be completed must not look complete. */
  cut(reason: string, outcome: Outcome = 'failed'): void {
    if (this.over) return;
    this.outcome = outcome;
    this.reason = reason;
    this.exchange.destroy();
  }

  /** What every response carries beside its own headers. */
  withRequestId(headers: string[]): string[] {
    headers.push(this.live.config.server.request_id_header, this.id);
    return headers;
  }

  /** The rest of a body that nobody will read: the connection cannot be used again. */
  leavesBody(): boolean {
    const { exchange } = this;
    return !exchange.bodyless && !exchange.body.readableEnded;
  }

  drained(): void {
    this.forwarding?.drained();
  }

  stalled(): void {
    this.forwarding?.stalled();
  }

  closed(complete: boolean): void {
    if (this.over) return;
    this.over = true;
    this.context.load.underWay -= 1;
    this.wait?.end();
    this.forwarding?.exchangeClosed();
    if (!complete && (this.outcome === undefined || this.outcome === 'forwarded')) {
      this.outcome = 'aborted';
      this.reason = 'CLIENT_GONE';
    }
    const finished = this.describe();
    this.trace?.end(finished);
    this.context.traffic.finished(finished);
  }

  private enter(): void {
    const { context, exchange, live } = this;
    if (context.load.underWay > live.config.server.max_concurrent_requests) {
      this.answer('TOO_MANY_REQUESTS_UNDER_WAY');
      return;
    }
    const request = readRequest(exchange, this.id, this.rules);
    if ('code' in request) {
      this.answer(request.code);
      return;
    }
    this.request = request;
    if (isOfInterest(request)) context.proxyWatch.saw(request, exchange.peer, live.config);
    if (comesBack(request, context.pseudonym)) {
      this.answer('LOOP_DETECTED');
      return;
    }
    this.trace = live.tracer?.(request.facts);
    const ruling = live.gate.rule(request.facts, this);
    if ('then' in ruling) {
      const { request_timeout: timeoutMs } = live.config.server;
      if (timeoutMs > 0) this.waiting().atMost(timeoutMs);
      ruling.then(
        (later) => this.ruledLater(request, later),
        (cause: unknown) => this.gateFailed(cause),
      );
    } else {
      this.ruled(request, ruling);
    }
  }

  /** The gate says that the request waits for its turn. */
  waits(turn: Delay, timeoutMs: number | undefined): void {
    this.waiting().forTurn(turn, timeoutMs ?? this.live.config.server.request_timeout);
  }

  private waiting(): GateWait {
    this.wait ??= new GateWait(this.startedAt, () => this.answer('REQUEST_TIMEOUT'));
    return this.wait;
  }

  private ruled(request: ReadRequest, ruling: Ruling): void {
    this.wait?.end();
    // It went away, or was told that it took too long: whatever was decided comes too late.
    if (this.over || this.status !== undefined) return;
    this.ruling = ruling;
    if (ruling.admitted) this.forward(request, ruling);
    else this.refuse(request, ruling);
  }

  /** Not `catch` behind it: that is a promise more, and every request that asks Redis passes here. */
  private ruledLater(request: ReadRequest, ruling: Ruling): void {
    try {
      this.ruled(request, ruling);
    } catch (cause) {
      this.gateFailed(cause);
    }
  }

  private forward(request: ReadRequest, admission: Admission): void {
    this.forwarding = new Forwarding(this, request, admission);
    this.forwarding.start();
  }

  private refuse(request: ReadRequest, refusal: Refusal): void {
    this.settle('refused', refusal.detail.reason);
    const { bodyLength = Infinity, expectsContinue } = request;
    const close = this.leavesBody() && (expectsContinue || bodyLength > MAX_DROPPED_BODY_BYTES);
    this.send(refusalText(refusal, request.grpc), close);
  }

  private gateFailed(cause: unknown): void {
    this.context.log.error({ err: cause, requestId: this.id }, 'the gate could not decide about a request');
    this.answer('GATE_FAILED');
  }

  private send({ status, headers, body }: AnswerText, close: boolean): void {
    this.status = status;
    this.bytesSent = Buffer.byteLength(body);
    this.exchange.answer(status, this.withRequestId(headers), body, {
      close: close || this.context.draining,
      trailers: false,
    });
  }

  private settle(outcome: Outcome, reason: string | undefined): void {
    this.outcome ??= outcome;
    this.reason ??= reason;
  }

  private describe(): FinishedRequest {
    const { exchange, request, ruling } = this;
    return {
      id: this.id,
      outcome: this.outcome ?? 'failed',
      reason: this.reason,
      method: exchange.method,
      scheme: exchange.scheme,
      host: request?.facts.host ?? '',
      path: request?.facts.path ?? '',
      protocol: exchange.protocol,
      status: this.status,
      clientAddress: request?.facts.client.address ?? exchange.peer,
      rule: ruling?.detail.rule,
      upstream: this.upstream,
      bytesReceived: this.forwarding?.bytesReceived ?? 0,
      bytesSent: this.bytesSent,
      durationMs: performance.now() - this.startedAt,
      upstreamMs: this.upstreamMs,
      traceId: this.trace?.traceId,
    };
  }
}

/** Whether it tells something about the proxies that are trusted. */
export function isOfInterest({ namesClient, facts }: ReadRequest): boolean {
  return namesClient || facts.client.oddity !== undefined;
}

/** Whether a request has passed this gateway before. */
export function comesBack({ headers }: ReadRequest, pseudonym: string): boolean {
  return headers.has('via') && headers.lines('via').some((line) => line.includes(pseudonym));
}

export function refusalText({ status, headers, body }: Refusal, grpc: boolean): AnswerText {
  if (!grpc) return { status, headers: flat(headers), body };
  const told = headers.filter(([name]) => !/^content-/i.test(name));
  return grpcAnswer(status, detailOf(body) ?? STATUS_CODES[status] ?? 'refused', flat(told));
}

function flat(pairs: readonly HeaderPair[]): string[] {
  const headers: string[] = [];
  for (const [name, value] of pairs) headers.push(name, value);
  return headers;
}

/** The sentence of a problem body, for clients that cannot read one. */
function detailOf(body: string): string | undefined {
  try {
    const problem: unknown = JSON.parse(body);
    return typeof problem === 'object' && problem !== null && 'detail' in problem
      ? String(problem.detail)
      : undefined;
  } catch {
    return undefined;
  }
}
