import type { Delay } from 'spillgate/http';
import type { RuleOutcome, DelayListener } from '../rules/rule-outcome.ts';
import type { RequestTrace } from '../telemetry/tracing.ts';
import type { FinishedRequest, RequestOutcome } from '../telemetry/traffic.ts';
import type { AdmittedRequest, ConfigSnapshot, ProxyContext } from './context.ts';
import { type RequestHead, leavesBody, type Exchange, type ExchangeListener } from './exchange.ts';
import { Forwarding, type ForwardingFailure } from './forward/forwarding.ts';
import {
  GATEWAY_ERRORS,
  errorAnswer,
  refusalText,
  type GatewayErrorCode,
  type AnswerText,
  isMalformed,
} from './gateway-errors.ts';
import { RuleWait } from './request-timeouts.ts';
import {
  readRequest,
  requestIdOf,
  type ReadRequest,
  readingRules,
  type ReadingRules,
} from './request/read-request.ts';

// What happens to every request, whether it is answered or becomes a tunnel: read, admit, forward, finish. Each check
// of a request exists here and only here.
/** Why a request ended as it did. */
export interface Ending {
  readonly outcome: RequestOutcome;
  readonly reason: string | undefined;
}

/** What became of a request at its backend; all of it is unknown if it did not get there. */
interface Transfer {
  readonly status?: number | undefined;
  readonly upstream?: string | undefined;
  readonly bytesReceived?: number | undefined;
  readonly bytesSent?: number | undefined;
  /** Until the backend's headers. */
  readonly upstreamMs?: number | undefined;
}

export abstract class GatewayRequest implements DelayListener {
  protected readonly context: ProxyContext;
  protected readonly snapshot: ConfigSnapshot;
  protected readonly id: string;
  protected request: ReadRequest | undefined;
  /** An answer of our own has been sent, or the request has ended. */
  protected abstract readonly settled: boolean;
  private readonly head: RequestHead;
  private readonly rules: ReadingRules;
  private readonly startedAt = performance.now();
  private wait: RuleWait | undefined;
  private ruling: RuleOutcome | undefined;
  private trace: RequestTrace | undefined;
  private countedFor: string | undefined;
  private finished = false;

  constructor(head: RequestHead, context: ProxyContext) {
    this.head = head;
    this.context = context;
    // A reload does not change the configuration of a request that has begun.
    this.snapshot = context.snapshot();
    this.rules = readingRules(this.snapshot.config);
    this.id = requestIdOf(head, this.rules.requestIdHeader);
  }

  /** Never throws: what goes wrong in here ends this request, and no other. */
  start(): void {
    this.context.load.underWay += 1;
    this.context.traffic.started();
    try {
      const request = this.read();
      if (typeof request === 'string') this.answer(request);
      else this.admit(request);
    } catch (cause) {
      this.fail(cause);
    }
  }

  /** The request, or what is wrong with it. */
  protected read(): ReadRequest | GatewayErrorCode {
    const { context, head, snapshot } = this;
    if (context.load.underWay > snapshot.config.server.max_concurrent_requests) {
      return 'TOO_MANY_REQUESTS_UNDER_WAY';
    }
    const request = readRequest(head, this.id, this.rules);
    if (typeof request === 'string') return request;
    this.request = request;
    if (request.namesClient || request.facts.client.oddity !== undefined) {
      context.proxyWatch.saw(request, head.peer, snapshot.config);
    }
    if (comesBack(request, context.pseudonym)) return 'LOOP_DETECTED';
    return this.countsFor(request.facts.client.key) ? request : 'TOO_MANY_REQUESTS_OF_CLIENT';
  }

  /** Counts the request for its client; false if that has as many in flight as it may. */
  private countsFor(client: string | undefined): boolean {
    const { max_concurrent_requests_per_address: max } = this.snapshot.config.server;
    if (max === 0 || client === undefined) return true;
    const { byClient } = this.context.load;
    if (byClient.of(client) >= max) return false;
    byClient.add(client);
    this.countedFor = client;
    return true;
  }

  protected stopCounting(): void {
    if (this.countedFor !== undefined) this.context.load.byClient.remove(this.countedFor);
    this.countedFor = undefined;
  }

  /** Asks the rules, and goes on with what they say. */
  private admit(request: ReadRequest): void {
    this.trace = this.snapshot.tracer?.(request.facts);
    const ruling = this.snapshot.ruleEngine.decide(request.facts, this);
    if (!('then' in ruling)) {
      this.ruled(request, ruling);
      return;
    }
    const { request_timeout: timeoutMs } = this.snapshot.config.server;
    if (timeoutMs > 0) this.waiting().atMost(timeoutMs);
    // Not `catch` behind it: that is a promise more, and every request that asks Redis passes here.
    ruling.then(
      (later) => this.ruledLater(request, later),
      (cause: unknown) => this.fail(cause),
    );
  }

  /** The rules say that the request waits for its turn. */
  waits(turn: Delay, timeoutMs: number | undefined): void {
    this.waiting().forTurn(turn, timeoutMs ?? this.snapshot.config.server.request_timeout);
  }

  private waiting(): RuleWait {
    this.wait ??= new RuleWait(this.startedAt, () => this.answer('REQUEST_TIMEOUT'));
    return this.wait;
  }

  private ruledLater(request: ReadRequest, ruling: RuleOutcome): void {
    try {
      this.ruled(request, ruling);
    } catch (cause) {
      this.fail(cause);
    }
  }

  private ruled(request: ReadRequest, ruling: RuleOutcome): void {
    this.wait?.end();
    // The client went away, or was told that it took too long: whatever was decided comes too late.
    if (this.settled) return;
    this.ruling = ruling;
    if (!ruling.admitted) {
      this.send(refusalText(ruling, this.speaksGrpc), { outcome: 'refused', reason: ruling.detail.reason });
      return;
    }
    const { head, context, snapshot, rules, trace, startedAt } = this;
    this.forward({ head, request, admission: ruling, context, snapshot, rules, trace, startedAt });
  }

  /** Sends an admitted request to a backend. */
  protected abstract forward(admitted: AdmittedRequest): void;

  /** Sends an answer of our own. */
  protected abstract send(answer: AnswerText, ending: Ending): void;

  protected answer(code: GatewayErrorCode): void {
    const outcome = GATEWAY_ERRORS[code].status < 500 ? 'invalid' : 'failed';
    const answer = errorAnswer(code, this.id, { grpc: this.speaksGrpc, ruling: this.ruling });
    this.send(answer, { outcome, reason: code });
  }

  protected get speaksGrpc(): boolean {
    return this.request?.grpc === true;
  }

  private fail(cause: unknown): void {
    this.context.log.error(
      { err: cause, requestId: this.id },
      'the gateway could not decide about a request',
    );
    this.answer('GATE_FAILED');
  }

  /** The client has its answer, or is gone. Only the first call counts. */
  protected finish({ outcome, reason }: Ending, transfer: Transfer = {}): void {
    if (this.finished) return;
    this.finished = true;
    this.context.load.underWay -= 1;
    this.stopCounting();
    this.wait?.end();
    const { head, request, trace } = this;
    const described: FinishedRequest = {
      id: this.id,
      outcome,
      reason,
      method: head.method,
      scheme: head.scheme,
      host: request?.facts.host ?? '',
      path: request?.facts.path ?? '',
      protocol: this.protocol,
      status: transfer.status,
      clientAddress: request?.facts.client.address ?? head.peer,
      rule: this.ruling?.detail.rule,
      upstream: transfer.upstream,
      bytesReceived: transfer.bytesReceived ?? 0,
      bytesSent: transfer.bytesSent ?? 0,
      durationMs: performance.now() - this.startedAt,
      upstreamMs: transfer.upstreamMs,
      traceId: trace?.traceId,
    };
    trace?.end(described);
    this.context.traffic.finished(described);
  }

  protected get isFinished(): boolean {
    return this.finished;
  }

  protected get protocol(): FinishedRequest['protocol'] {
    return this.head.protocol;
  }
}

/** Whether a request has passed this gateway before. */
function comesBack({ headers }: ReadRequest, pseudonym: string): boolean {
  return headers.has('via') && headers.lines('via').some((line) => line.includes(pseudonym));
}

/** A refused body of this size at most is read and dropped, so that the connection can go on. */
const MAX_DROPPED_BODY_BYTES = 65_536;

/** A request that gets an answer, of a backend or of our own. */
export class ProxiedRequest extends GatewayRequest implements ExchangeListener {
  private readonly exchange: Exchange;
  private forwarding: Forwarding | undefined;
  private answered: { readonly status: number; readonly bytesSent: number } | undefined;
  /** Undefined as long as the backend's answer is all that was said. */
  private ending: Ending | undefined;

  constructor(exchange: Exchange, context: ProxyContext) {
    super(exchange, context);
    this.exchange = exchange;
    exchange.listen(this);
  }

  protected override get settled(): boolean {
    return this.isFinished || this.answered !== undefined;
  }

  protected override forward(admitted: AdmittedRequest): void {
    this.forwarding = new Forwarding(admitted, this.exchange, (failure) => this.forwardingFailed(failure));
    this.forwarding.start();
  }

  private forwardingFailed(failure: ForwardingFailure): void {
    if (failure === 'WRITE_TIMEOUT') this.cutOff({ outcome: 'aborted', reason: failure });
    else this.answer(failure);
  }

  /** An answer that has begun is cut off instead: no other can be sent behind it. */
  protected override answer(code: GatewayErrorCode): void {
    if (this.isFinished) return;
    const begun = this.answered !== undefined || this.forwarding?.status !== undefined;
    if (begun) this.cutOff({ outcome: 'failed', reason: code });
    else if (isMalformed(code) && !this.exchange.toleratesMalformed()) {
      this.ending = { outcome: 'invalid', reason: code };
    } else super.answer(code);
  }

  protected override send({ status, headers, body }: AnswerText, ending: Ending): void {
    this.answered = { status, bytesSent: Buffer.byteLength(body) };
    this.ending ??= ending;
    headers.push(this.snapshot.config.server.request_id_header, this.id);
    this.exchange.answer(status, headers, body, {
      close: this.context.draining || this.closesBehind(ending),
      trailers: false,
    });
  }

  private closesBehind({ outcome }: Ending): boolean {
    if (outcome === 'invalid') return true;
    if (!leavesBody(this.exchange)) return false;
    const { bodyLength = Infinity, expectsContinue } = this.request ?? {};
    return outcome !== 'refused' || expectsContinue === true || bodyLength > MAX_DROPPED_BODY_BYTES;
  }

  /** A response that cannot be completed must not look complete. */
  private cutOff(ending: Ending): void {
    if (this.isFinished) return;
    this.ending = ending;
    this.exchange.destroy();
  }

  drained(): void {
    this.forwarding?.drained();
  }

  stalled(): void {
    this.forwarding?.stalled();
  }

  closed(complete: boolean): void {
    const { forwarding } = this;
    forwarding?.exchangeClosed();
    const gone: Ending = { outcome: 'aborted', reason: 'CLIENT_GONE' };
    const ending = this.ending ?? (complete ? { outcome: 'forwarded', reason: undefined } : gone);
    this.finish(ending, {
      status: this.answered?.status ?? forwarding?.status,
      upstream: forwarding?.upstream,
      bytesReceived: forwarding?.bytesReceived,
      bytesSent: this.answered?.bytesSent ?? forwarding?.bytesSent,
      upstreamMs: forwarding?.upstreamMs,
    });
  }
}
