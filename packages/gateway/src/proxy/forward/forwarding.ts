import type { Admission } from '../../rules/gate.ts';
import type { Exchange } from '../exchange.ts';
import type { AnswerCode } from '../answers.ts';
import type { Live, ProxyContext, Trace } from '../context.ts';
import type { ReadingRules } from '../request/reading-rules.ts';
import type { Outcome } from '../../telemetry/traffic.ts';
import { BodyFailure, RequestBody, type BodyWatcher, type Turn } from '../request/request-body.ts';
import type { ReadRequest } from '../request/read-request.ts';
import type { Upstream } from '../upstreams/upstream.ts';
import type { RequestControl, ResponseHandler } from '../../http-client/index.ts';
import { requestHeaders } from './request-headers.ts';
import { addLimitHeaders, readTrailers, readUpstreamHead } from './response-headers.ts';
import { answerFor, mayTryAgain } from './upstream-failure.ts';
import { Patience, type Overdue } from './patience.ts';

/** 1xx responses of an upstream per request; more is not an answer. */
const MAX_INFORMATIONAL = 8;

/** Whose request it is, and who hears what becomes of it. */
export interface ForwardingOwner {
  readonly id: string;
  readonly exchange: Exchange;
  readonly context: ProxyContext;
  readonly live: Live;
  readonly rules: ReadingRules;
  readonly trace: Trace | undefined;
  readonly over: boolean;
  /** When it arrived, on the clock of `performance`. */
  readonly startedAt: number;
  upstream: string | undefined;
  upstreamMs: number | undefined;
  bytesSent: number;
  answer(code: AnswerCode): void;
  cut(reason: string, outcome?: Outcome): void;
  responded(status: number): void;
  withRequestId(headers: string[]): string[];
  leavesBody(): boolean;
}

/** An admitted request on its way to an upstream and back. The upstream's pool calls the `on...` methods. */
export class Forwarding implements BodyWatcher, ResponseHandler {
  private readonly passage: ForwardingOwner;
  private readonly exchange: Exchange;
  private readonly request: ReadRequest;
  private readonly admission: Admission;
  private readonly body: RequestBody | undefined;
  private readonly patience: Patience;
  private readonly startedAt = performance.now();
  private readonly wantsTrailers: boolean;
  private headers: string[] = [];
  private attempts = 0;
  private informational = 0;
  private responding = false;
  private done = false;
  private endUpstream: (() => void) | undefined;
  private control: RequestControl | undefined;

  constructor(passage: ForwardingOwner, request: ReadRequest, admission: Admission) {
    const { exchange, live } = passage;
    this.passage = passage;
    this.exchange = exchange;
    this.request = request;
    this.admission = admission;
    this.wantsTrailers = request.grpc || request.headers.tokens('te').includes('trailers');
    this.patience = new Patience((overdue) => this.expired(overdue));
    this.body = exchange.bodyless
      ? undefined
      : new RequestBody(exchange.body, live.config.backend.max_request_body_size, this);
  }

  get bytesReceived(): number {
    return this.body?.received ?? 0;
  }

  start(): void {
    const { passage, exchange, request, admission } = this;
    this.headers = requestHeaders({
      head: exchange,
      request,
      rules: passage.rules,
      pseudonym: passage.context.pseudonym,
      trace: passage.trace?.headers,
    });
    const timeoutMs = admission.timeoutMs ?? passage.live.config.server.request_timeout;
    // What it waited at the gate counts too.
    const leftMs = timeoutMs - (this.startedAt - passage.startedAt);
    if (timeoutMs > 0 && leftMs <= 0) {
      this.fail('REQUEST_TIMEOUT');
      return;
    }
    this.patience.wholeRequest(leftMs);
    if (this.body !== undefined) this.patience.wholeBody(passage.live.config.server.read_timeout);
    this.attempt();
  }

  private attempt(): void {
    const { upstreams } = this.passage.live;
    const { backendUrl } = this.admission;
    const upstream = backendUrl === undefined ? upstreams.next() : upstreams.named?.(backendUrl);
    if (upstream === undefined) {
      this.fail(backendUrl === undefined ? 'NO_UPSTREAM' : 'UPSTREAM_UNREACHABLE');
      return;
    }
    this.attempts += 1;
    this.passage.upstream = upstream.origin;
    this.endUpstream = upstream.begin();
    this.patience.waitFor('upstream', this.passage.live.config.backend.timeout);
    this.dispatch(upstream);
  }

  private dispatch(upstream: Upstream): void {
    const { facts } = this.request;
    const overHttp2 = this.request.grpc;
    const pool = overHttp2 ? upstream.http2 : upstream.pool;
    pool.send(
      {
        path: facts.path + facts.query,
        method: facts.method,
        headers: overHttp2 && this.wantsTrailers ? [...this.headers, 'te', 'trailers'] : this.headers,
        body: this.body,
        // Our own clock runs from the last byte of the request, and is exact.
        headersTimeoutMs: 0,
        bodyTimeoutMs: this.passage.live.config.backend.body_idle_timeout,
      },
      this,
    );
  }

  bodyWanted(): void {
    if (this.request.expectsContinue && !this.responding) this.exchange.sendContinue();
  }

  /** Whoever has to move next gets its time to do so. Once the answer flows, the upstream decides how long it listens. */
  bodyTurn(turn: Turn): void {
    if (turn === 'nobody') this.patience.bodyComplete();
    if (this.responding || this.done) return;
    const { server, backend } = this.passage.live.config;
    if (turn === 'client') this.patience.waitFor('client', server.body_idle_timeout);
    else this.patience.waitFor('upstream', backend.timeout);
  }

  onConnect(control: RequestControl): void {
    this.control = control;
    if (this.done) control.abort(new BodyFailure('CLIENT_GONE'));
  }

  onHeaders(status: number, raw: readonly string[]): boolean {
    if (this.done) return true;
    const { passage, exchange } = this;
    const head = readUpstreamHead(raw, passage.rules.requestIdHeader);
    if (status < 200) {
      this.inform(status, head.headers);
      return true;
    }
    this.patience.waitForNobody();
    passage.upstreamMs = performance.now() - this.startedAt;
    addLimitHeaders(head, this.admission.headers);
    // It throws for headers that cannot be sent; then there is still room for an answer of our own.
    exchange.respond(status, passage.withRequestId(head.headers), {
      close: passage.context.draining || passage.leavesBody(),
      trailers: this.wantsTrailers && !head.lengthKnown,
    });
    this.responding = true;
    passage.responded(status);
    if (head.lengthKnown || !head.grpcStatus) exchange.flush();
    return true;
  }

  onData(chunk: Buffer): boolean {
    if (this.done) return false;
    this.passage.bytesSent += chunk.length;
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
    const { id: requestId, upstream = '', context } = this.passage;
    context.upstreamFailures.failed({ upstream, requestId, error });
    if (this.retries(error)) this.attempt();
    else this.fail(answerFor(error));
  }

  /** The client is slow. */
  stalled(): void {
    this.patience.waitFor('reader', this.passage.live.config.server.write_timeout);
  }

  drained(): void {
    this.patience.waitForNobody();
    this.control?.resume();
  }

  /** The client has its answer, or is gone. */
  exchangeClosed(): void {
    this.patience.end();
    this.abandon();
  }

  private retries(error: Error): boolean {
    const { facts } = this.request;
    return (
      !this.responding &&
      this.body === undefined &&
      this.attempts <= this.passage.live.config.backend.max_retries &&
      mayTryAgain(facts.method, error)
    );
  }

  private inform(status: number, headers: readonly string[]): void {
    this.informational += 1;
    if (this.informational > MAX_INFORMATIONAL) this.fail('UPSTREAM_BROKEN');
    else if (status === 103 && this.exchange.protocol !== 'HTTP/1.0') this.exchange.inform(status, headers);
  }

  private expired(overdue: Overdue): void {
    if (overdue === 'reader') this.passage.cut('WRITE_TIMEOUT', 'aborted');
    else if (overdue === 'request') this.fail('REQUEST_TIMEOUT');
    else this.fail(overdue === 'upstream' ? 'UPSTREAM_TIMEOUT' : 'BODY_TIMEOUT');
  }

  private fail(code: AnswerCode): void {
    this.abandon();
    this.patience.end();
    this.passage.answer(code);
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
