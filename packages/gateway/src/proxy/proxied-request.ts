import { type BodyFacts, type BodyReading, bodyComplaint, unreadBody } from '../cost/body-fields.ts';
import type { MeasuredCost } from '../cost/request-charge.ts';
import type { AdmittedRequest, Ending, ProxyContext, Transfer } from './context.ts';
import { leavesBody, type Exchange, type ExchangeListener } from './exchange.ts';
import { Forwarding, type ForwardingFailure } from './forward/forwarding.ts';
import { PeekedBody } from './forward/request-body.ts';
import { isMalformed, type AnswerText, type GatewayErrorCode } from './gateway-errors.ts';
import { GatewayRequest } from './gateway-request.ts';

/** A refused body of this size at most is read and dropped, so that the connection can go on. */
const MAX_DROPPED_BODY_BYTES = 65_536;

/** A request that gets an answer, of a backend or of our own. */
export class ProxiedRequest extends GatewayRequest implements ExchangeListener {
  private readonly exchange: Exchange;
  private forwarding: Forwarding | undefined;
  private peeked: PeekedBody | undefined;
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
    const { exchange } = this;
    const body = exchange.bodyless ? undefined : (this.peeked ?? exchange.body);
    this.forwarding = new Forwarding(admitted, exchange, body, (failure) => this.forwardingFailed(failure));
    this.forwarding.start();
  }

  /** Reads the beginning of the body, for a rule that wants to know what it says. */
  async readBody(reading: BodyReading): Promise<BodyFacts> {
    const { exchange, request } = this;
    if (request === undefined || exchange.bodyless) return unreadBody(0, undefined);
    const { headers, bodyLength, expectsContinue } = request;
    const complaint = bodyComplaint(
      headers.lines('content-type').join(),
      headers.lines('content-encoding').join(),
    );
    if (complaint !== undefined) return unreadBody(bodyLength ?? 0, complaint);
    if (expectsContinue) {
      exchange.sendContinue();
      this.request = { ...request, expectsContinue: false };
    }
    this.peeked = new PeekedBody(exchange.body, reading);
    return this.peeked.peek({
      reading,
      length: bodyLength,
      timeoutMs: this.snapshot.config.server.body_idle_timeout,
      timedOut: () => this.answer('BODY_TIMEOUT'),
    });
  }

  protected override async measure(transfer: Transfer): Promise<MeasuredCost | undefined> {
    return this.forwarding === undefined ? super.measure(transfer) : this.forwarding.measure();
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
    this.exchange.answer(status, headers, body, {
      close: this.context.draining || this.closesBehind(ending),
      trailers: false,
    });
  }

  private closesBehind({ outcome }: Ending): boolean {
    if (outcome === 'invalid') return true;
    if (!leavesBody(this.exchange)) return false;
    const { bodyLength = Infinity, expectsContinue } = this.request ?? {};
    const isDone = outcome === 'refused' || outcome === 'answered';
    return !isDone || expectsContinue === true || bodyLength > MAX_DROPPED_BODY_BYTES;
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
    const answered: Ending =
      forwarding?.cutShort === true
        ? { outcome: 'refused', reason: 'budgetSpent' }
        : { outcome: 'forwarded', reason: undefined };
    const ending = this.ending ?? (complete ? answered : gone);
    this.finish(ending, {
      status: this.answered?.status ?? forwarding?.status,
      upstream: forwarding?.upstream,
      bytesReceived: forwarding?.bytesReceived,
      bytesSent: this.answered?.bytesSent ?? forwarding?.bytesSent,
      upstreamMs: forwarding?.upstreamMs,
    });
  }
}
