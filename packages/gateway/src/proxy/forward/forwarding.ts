import type { GatewayErrorCode } from '../gateway-errors.ts';
import { leavesBody, type Exchange } from '../exchange.ts';
import type { AdmittedRequest } from '../gateway-request.ts';
import { RequestTimeouts, TransferRate, type Overdue } from '../request-timeouts.ts';
import { BodyFailure, RequestBody, type BodyWatcher, type BodyTurn } from './request-body.ts';
import { upstreamFor, type Upstream } from '../upstreams/upstream.ts';
import type { RequestControl, ResponseHandler } from '../../http-client/index.ts';
import { requestHeaders, addLimitHeaders, readTrailers, readUpstreamHead } from './headers.ts';
import { answerFor, mayTryAgain } from './upstream-failure.ts';

/** 1xx responses of an upstream per request; more is not an answer. */
const MAX_INFORMATIONAL = 8;

/** Why there is no whole answer; of a client that does not take it, nothing more can be said. */
export type ForwardingFailure = GatewayErrorCode | 'WRITE_TIMEOUT';

/** An admitted request on its way to an upstream and back. The upstream's pool calls the `on...` methods. */
export class Forwarding implements BodyWatcher, ResponseHandler {
  /** Of the upstream's answer, once that has begun to flow. */
  status: number | undefined;
  /** The server that was asked last. */
  upstream: string | undefined;
  upstreamMs: number | undefined;
  bytesSent = 0;
  private readonly admitted: AdmittedRequest;
  private readonly exchange: Exchange;
  private readonly failed: (failure: ForwardingFailure) => void;
  private readonly body: RequestBody | undefined;
  private readonly timeouts: RequestTimeouts;
  private readonly bodyRate: TransferRate;
  private readonly startedAt = performance.now();
  private readonly wantsTrailers: boolean;
  private headers: string[] = [];
  private attempts = 0;
  private informational = 0;
  private done = false;
  private endUpstream: (() => void) | undefined;
  private control: RequestControl | undefined;

  /** `failed` is called once at most: nothing follows of this request. */
  constructor(admitted: AdmittedRequest, exchange: Exchange, failed: (failure: ForwardingFailure) => void) {
    const { request, snapshot } = admitted;
    this.admitted = admitted;
    this.exchange = exchange;
    this.failed = failed;
    this.wantsTrailers = request.grpc || request.headers.tokens('te').includes('trailers');
    this.timeouts = new RequestTimeouts((overdue) => this.expired(overdue));
    this.bodyRate = new TransferRate(snapshot.config.server.min_body_rate);
    this.body = exchange.bodyless
      ? undefined
      : new RequestBody(exchange.body, snapshot.config.backend.max_request_body_size, this);
  }

  get bytesReceived(): number {
    return this.body?.received ?? 0;
  }

  start(): void {
    const { head, request, admission, context, snapshot, rules, trace, startedAt } = this.admitted;
    this.headers = requestHeaders({
      head,
      request,
      rules,
      pseudonym: context.pseudonym,
      trace: trace?.headers,
    });
    const timeoutMs = admission.timeoutMs ?? snapshot.config.server.request_timeout;
    // What it waited for the rules counts too.
    const leftMs = timeoutMs - (this.startedAt - startedAt);
    if (timeoutMs > 0 && leftMs <= 0) {
      this.fail('REQUEST_TIMEOUT');
      return;
    }
    this.timeouts.wholeRequest(leftMs);
    if (this.body !== undefined) this.timeouts.wholeBody(snapshot.config.server.read_timeout);
    this.attempt();
  }

  private attempt(): void {
    const { snapshot, admission } = this.admitted;
    const upstream = upstreamFor(snapshot.upstreams, admission.backendUrl);
    if (typeof upstream === 'string') {
      this.fail(upstream);
      return;
    }
    this.attempts += 1;
    this.upstream = upstream.origin;
    this.endUpstream = upstream.begin();
    this.timeouts.waitFor('upstream', snapshot.config.backend.timeout);
    this.dispatch(upstream);
  }

  private dispatch(upstream: Upstream): void {
    const { request, snapshot } = this.admitted;
    const { facts, grpc: overHttp2 } = request;
    const pool = overHttp2 ? upstream.http2 : upstream.pool;
    pool.send(
      {
        path: facts.path + facts.query,
        method: facts.method,
        headers: overHttp2 && this.wantsTrailers ? [...this.headers, 'te', 'trailers'] : this.headers,
        body: this.body,
        client: facts.client.key,
        // Our own clock runs from the last byte of the request, and is exact.
        headersTimeoutMs: 0,
        bodyTimeoutMs: snapshot.config.backend.body_idle_timeout,
      },
      this,
    );
  }

  bodyWanted(): void {
    if (this.admitted.request.expectsContinue && this.status === undefined) this.exchange.sendContinue();
  }

  /** The side that has to act next gets its time to do so. Once the response flows, the upstream decides how long it listens. */
  bodyTurn(turn: BodyTurn): void {
    if (turn === 'nobody') this.timeouts.bodyComplete();
    if (this.status !== undefined || this.done) return;
    const { server, backend } = this.admitted.snapshot.config;
    const nowMs = performance.now();
    if (!this.bodyRate.arrived(this.bytesReceived, nowMs)) {
      this.fail('BODY_TIMEOUT');
      return;
    }
    if (turn === 'client') {
      this.bodyRate.wait(nowMs);
      this.timeouts.waitFor('client', server.body_idle_timeout);
    } else {
      this.timeouts.waitFor('upstream', backend.timeout);
    }
  }

  onConnect(control: RequestControl): void {
    this.control = control;
    if (this.done) control.abort(new BodyFailure('CLIENT_GONE'));
  }

  onHeaders(status: number, raw: readonly string[]): boolean {
    if (this.done) return true;
    const { admitted, exchange } = this;
    const { rules, context, admission, request } = admitted;
    const head = readUpstreamHead(raw, rules.requestIdHeader);
    if (status < 200) {
      this.inform(status, head.headers);
      return true;
    }
    this.timeouts.waitForNobody();
    this.upstreamMs = performance.now() - this.startedAt;
    addLimitHeaders(head, admission.headers);
    head.headers.push(rules.config.server.request_id_header, request.facts.id);
    // It throws for headers that cannot be sent; then there is still room for an answer of our own.
    exchange.respond(status, head.headers, {
      close: context.draining || leavesBody(exchange),
      trailers: this.wantsTrailers && !head.lengthKnown,
    });
    this.status = status;
    if (head.lengthKnown || !head.grpcStatus) exchange.flush();
    return true;
  }

  onData(chunk: Buffer): boolean {
    if (this.done) return false;
    this.bytesSent += chunk.length;
    if (this.exchange.write(chunk)) return true;
    this.stalled();
    return false;
  }

  onComplete(trailers: readonly string[]): void {
    if (this.done) return;
    this.settle();
    this.exchange.end(this.wantsTrailers ? readTrailers(trailers) : undefined);
  }

  onError(error: Error): void {
    if (this.done) return;
    this.endUpstream?.();
    this.control = undefined;
    if (error instanceof BodyFailure) {
      // A client that is gone needs no answer: the exchange says that it closed.
      if (error.code !== 'CLIENT_GONE') this.fail(error.code);
      return;
    }
    const { context, request } = this.admitted;
    context.upstreamFailures.failed({ upstream: this.upstream ?? '', requestId: request.facts.id, error });
    if (this.retries(error)) this.attempt();
    else this.fail(answerFor(error));
  }

  /** The client is slow. */
  stalled(): void {
    this.timeouts.waitFor('reader', this.admitted.snapshot.config.server.write_timeout);
  }

  drained(): void {
    this.timeouts.waitForNobody();
    this.control?.resume();
  }

  /** The client has its answer, or is gone. */
  exchangeClosed(): void {
    this.timeouts.end();
    this.abandon();
  }

  private retries(error: Error): boolean {
    const { request, snapshot } = this.admitted;
    return (
      this.status === undefined &&
      this.body === undefined &&
      this.attempts <= snapshot.config.backend.max_retries &&
      mayTryAgain(request.facts.method, error)
    );
  }

  private inform(status: number, headers: readonly string[]): void {
    this.informational += 1;
    if (this.informational > MAX_INFORMATIONAL) this.fail('UPSTREAM_BROKEN');
    else if (status === 103 && this.exchange.protocol !== 'HTTP/1.0') this.exchange.inform(status, headers);
  }

  private expired(overdue: Overdue): void {
    if (overdue === 'reader') this.fail('WRITE_TIMEOUT');
    else if (overdue === 'request') this.fail('REQUEST_TIMEOUT');
    else this.fail(overdue === 'upstream' ? 'UPSTREAM_TIMEOUT' : 'BODY_TIMEOUT');
  }

  private fail(failure: ForwardingFailure): void {
    this.abandon();
    this.timeouts.end();
    this.failed(failure);
  }

  /** Nothing that the upstream still says matters. */
  private abandon(): void {
    if (this.done) return;
    const { control } = this;
    this.settle();
    this.body?.destroy();
    control?.abort(new BodyFailure('CLIENT_GONE'));
  }

  private settle(): void {
    this.done = true;
    this.control = undefined;
    this.endUpstream?.();
  }
}
