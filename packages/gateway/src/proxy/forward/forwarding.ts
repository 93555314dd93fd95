import type { Readable } from 'node:stream';
import type { GatewayErrorCode } from '../gateway-errors.ts';
import type { AdmittedRequest } from '../context.ts';
import { ResponseMeter, type MeteredRequest } from '../../cost/response-meter.ts';
import type { MeasuredCost } from '../../cost/request-charge.ts';
import { leavesBody, type Exchange } from '../exchange.ts';
import { ReaderWatch, RequestTimeouts, TransferRate, type Overdue } from '../request-timeouts.ts';
import {
  BodyFailure,
  RequestBody,
  type BodyTurn,
  type BodyWatcher,
  type RequestBodyOptions,
} from './request-body.ts';
import type { Upstream } from '../upstreams/pooled-upstream.ts';
import type { RequestControl, ResponseHandler } from '../../http-client/index.ts';
import {
  requestHeaders,
  addLimitHeaders,
  readTrailers,
  readUpstreamHead,
  withReadableEncodings,
} from './headers.ts';
import { answerFor, mayTryAgain } from './upstream-failure.ts';

/** 1xx responses of an upstream per request; more is not an answer. */
const MAX_INFORMATIONAL = 8;
/** Less makes large bodies slow. */
const LEAST_BUFFER_BYTES = 16_384;
/**
 * A body whose length is unknown may be a stream of which little comes at a time: it is held back for so long at most.
 */
const MAX_HOLD_MS = 1000;
/** What all slow readers together may leave unread; beyond that they hold up their upstreams. */
const MAX_UNREAD_BYTES = 64 * 2 ** 20;

/** Why there is no whole answer; of a client that does not take it, nothing more can be said. */
export type ForwardingFailure = GatewayErrorCode | 'WRITE_TIMEOUT';

/** An admitted request on its way to an upstream and back. The upstream's pool calls the `on...` methods. */
export class Forwarding implements BodyWatcher, ResponseHandler, MeteredRequest {
  /** Of the upstream's answer, once that has begun to flow. */
  status: number | undefined;
  /** The server that was asked last. */
  upstream: string | undefined;
  upstreamMs: number | undefined;
  bytesSent = 0;
  /** The response was ended by us, because the budget of its client is spent. */
  cutShort = false;
  private readonly admitted: AdmittedRequest;
  private readonly exchange: Exchange;
  private readonly failed: (failure: ForwardingFailure) => void;
  private readonly body: RequestBody | undefined;
  private readonly timeouts: RequestTimeouts;
  private readonly bodyRate: TransferRate | undefined;
  private reader: ReaderWatch | undefined;
  private holding: NodeJS.Timeout | undefined;
  /** Of the response: given to the exchange, and not yet taken by the client. */
  private unread = 0;
  private readonly startedAt = performance.now();
  private readonly wantsTrailers: boolean;
  private headers: string[] = [];
  private attempts = 0;
  private informational = 0;
  private done = false;
  private endUpstream: (() => void) | undefined;
  private control: RequestControl | undefined;
  /** Finds out what the request costs, where that is known only afterwards. */
  private readonly meter: ResponseMeter | undefined;
  private reached = false;

  /** `body`: what is left to read of it. `failed` is called once at most: nothing follows of this request. */
  constructor(
    admitted: AdmittedRequest,
    exchange: Exchange,
    body: Readable | undefined,
    failed: (failure: ForwardingFailure) => void,
  ) {
    const { request, snapshot } = admitted;
    this.admitted = admitted;
    this.exchange = exchange;
    this.failed = failed;
    this.wantsTrailers = request.grpc || request.headers.tokens('te').includes('trailers');
    this.timeouts = new RequestTimeouts((overdue) => this.expired(overdue));
    if (body !== undefined) {
      this.bodyRate = new TransferRate(snapshot.config.server.min_body_rate);
      this.body = new RequestBody(body, bodyOptions(admitted), this);
    }
    const { charge } = admitted.admission;
    this.meter = charge === undefined ? undefined : new ResponseMeter(charge, this);
  }

  promptBytes(): number {
    return this.bytesReceived;
  }

  wasSent(): boolean {
    return this.reached;
  }

  /** What the request has cost; undefined if nobody can tell. */
  async measure(): Promise<MeasuredCost | undefined> {
    return this.meter?.measure();
  }

  get bytesReceived(): number {
    return this.body?.received ?? 0;
  }

  start(): void {
    const { head, request, admission, route, context, snapshot, rules, trace, startedAt } = this.admitted;
    this.headers = requestHeaders({
      head,
      request,
      route,
      rules,
      pseudonym: context.pseudonym,
      trace: trace?.headers,
    });
    const { charge } = admission;
    if (charge !== undefined) this.headers = withReadableEncodings(this.headers, charge.settle);
    const timeoutMs = admission.timeoutMs ?? snapshot.config.server.request_timeout;
    // What it waited for the rules counts too.
    const leftMs = timeoutMs - (this.startedAt - startedAt);
    if (timeoutMs > 0 && leftMs <= 0) {
      this.fail('REQUEST_TIMEOUT');
      return;
    }
    this.timeouts.wholeRequest(leftMs);
    if (this.body !== undefined) this.timeouts.wholeBody(snapshot.config.server.read_timeout);
    if (this.body === undefined || request.grpc || snapshot.config.backend.request_buffer_size === 0) {
      this.attempt();
    } else {
      this.holdBack(this.body);
    }
  }

  /** Whoever sends a body slowly, on purpose or not, has no connection to an upstream in the meantime. */
  private holdBack(body: RequestBody): void {
    if (this.admitted.request.bodyLength === undefined) {
      this.holding = setTimeout(() => body.release(), MAX_HOLD_MS);
    }
    body.hold();
  }

  bodyReady(): void {
    clearTimeout(this.holding);
    if (!this.done) this.attempt();
  }

  bodyFailed(failure: BodyFailure): void {
    clearTimeout(this.holding);
    this.onError(failure);
  }

  private attempt(): void {
    const { route } = this.admitted;
    const upstream = route.next();
    if (typeof upstream === 'string') {
      this.fail(upstream);
      return;
    }
    this.attempts += 1;
    this.upstream = upstream.origin;
    this.endUpstream = upstream.begin();
    this.timeouts.waitFor('upstream', route.backend.timeout);
    this.dispatch(upstream);
  }

  private dispatch(upstream: Upstream): void {
    const { request, route } = this.admitted;
    const { facts, grpc: overHttp2 } = request;
    const pool = overHttp2 ? upstream.http2 : upstream.pool;
    pool.send(
      {
        path: route.target,
        method: facts.method,
        headers: overHttp2 && this.wantsTrailers ? [...this.headers, 'te', 'trailers'] : this.headers,
        body: this.body,
        client: facts.client.key,
        // Our own clock runs from the last byte of the request, and is exact.
        headersTimeoutMs: 0,
        bodyTimeoutMs: route.backend.body_idle_timeout,
      },
      this,
    );
  }

  bodyWanted(): void {
    if (this.admitted.request.expectsContinue && this.status === undefined) this.exchange.sendContinue();
  }

  /**
   * The side that has to act next gets its time to do so. Once the response flows, the upstream decides how long it
   * listens.
   */
  bodyTurn(turn: BodyTurn): void {
    if (turn === 'nobody') this.timeouts.bodyComplete();
    if (this.status !== undefined || this.done) return;
    const { server } = this.admitted.snapshot.config;
    const nowMs = performance.now();
    if (this.bodyRate?.arrived(this.bytesReceived, nowMs) === false) {
      this.fail('BODY_TIMEOUT');
      return;
    }
    if (turn === 'client') {
      this.bodyRate?.wait(nowMs);
      this.timeouts.waitFor('client', server.body_idle_timeout);
    } else {
      this.timeouts.waitFor('upstream', this.admitted.route.backend.timeout);
    }
  }

  onConnect(control: RequestControl): void {
    this.control = control;
    this.reached = true;
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
    this.meter?.head(status, raw);
    this.timeouts.waitForNobody();
    this.upstreamMs = performance.now() - this.startedAt;
    addLimitHeaders(head, admission.headers);
    head.headers.push(rules.config.server.request_id_header, request.facts.id);
    const headers = rules.cors?.responseFromBackend(head.headers, exchange.rawHeaders) ?? head.headers;
    // It throws for headers that cannot be sent; then there is still room for an answer of our own.
    exchange.respond(status, headers, {
      close: context.draining || leavesBody(exchange),
      trailers: this.wantsTrailers && !head.lengthKnown,
    });
    this.status = status;
    if (head.lengthKnown || !head.grpcStatus) exchange.flush();
    return true;
  }

  onData(chunk: Buffer): boolean {
    if (this.done) return false;
    const { meter } = this;
    const passed = meter?.pass(chunk) ?? chunk.length;
    const goesOn = this.write(passed < chunk.length ? chunk.subarray(0, passed) : chunk);
    if (meter?.isOver === true) this.budgetSpent();
    return goesOn;
  }

  private write(chunk: Buffer): boolean {
    this.bytesSent += chunk.length;
    if (this.exchange.write(chunk)) return true;
    if (this.unread === 0) this.stalled();
    this.leaveUnread(chunk.length);
    const { response_buffer_size: bufferBytes } = this.admitted.snapshot.config.backend;
    return this.unread < bufferBytes && this.admitted.context.load.unreadBytes < MAX_UNREAD_BYTES;
  }

  /** Ends the response as its protocol says that something went wrong: it is whole, and the client sees why. */
  budgetSpent(): void {
    if (this.done || this.meter === undefined) return;
    const { control } = this;
    this.cutShort = true;
    this.write(this.meter.lastEvent());
    this.settle();
    this.body?.destroy();
    control?.abort(new BodyFailure('CLIENT_GONE'));
    this.exchange.end();
  }

  private leaveUnread(bytes: number): void {
    this.unread += bytes;
    this.admitted.context.load.unreadBytes += bytes;
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
    const failure = answerFor(error);
    // Nobody has got it, and nobody can have worked on it.
    if (failure === 'UPSTREAM_UNREACHABLE' || failure === 'UPSTREAM_BUSY') this.reached = false;
    if (this.retries(error)) this.attempt();
    else this.fail(failure);
  }

  /** The client is slow. */
  stalled(): void {
    const { write_timeout, min_read_rate } = this.admitted.snapshot.config.server;
    this.reader ??= new ReaderWatch({
      timeoutMs: write_timeout,
      bytesPerS: min_read_rate,
      taken: () => this.exchange.takenBytes(),
      tooSlow: () => this.fail('WRITE_TIMEOUT'),
    });
    this.reader.stalled();
  }

  drained(): void {
    this.leaveUnread(-this.unread);
    this.reader?.goesOn();
    this.control?.resume();
  }

  /** The client has its answer, or is gone. */
  exchangeClosed(): void {
    this.leaveUnread(-this.unread);
    this.reader?.end();
    this.timeouts.end();
    this.abandon();
  }

  private retries(error: Error): boolean {
    const { request, route } = this.admitted;
    return (
      this.status === undefined &&
      this.body === undefined &&
      this.attempts <= route.backend.max_retries &&
      mayTryAgain(request.facts.method, error)
    );
  }

  private inform(status: number, headers: readonly string[]): void {
    this.informational += 1;
    if (this.informational > MAX_INFORMATIONAL) this.fail('UPSTREAM_BROKEN');
    else if (status === 103 && this.exchange.protocol !== 'HTTP/1.0') this.exchange.inform(status, headers);
  }

  private expired(overdue: Overdue): void {
    if (overdue === 'request') this.fail('REQUEST_TIMEOUT');
    else this.fail(overdue === 'upstream' ? 'UPSTREAM_TIMEOUT' : 'BODY_TIMEOUT');
  }

  private fail(failure: ForwardingFailure): void {
    this.abandon();
    this.reader?.end();
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
    clearTimeout(this.holding);
    this.control = undefined;
    this.endUpstream?.();
  }
}

function bodyOptions({ snapshot }: AdmittedRequest): RequestBodyOptions {
  const { max_request_body_size, request_buffer_size } = snapshot.config.backend;
  return { maxBytes: max_request_body_size, bufferBytes: Math.max(request_buffer_size, LEAST_BUFFER_BYTES) };
}
