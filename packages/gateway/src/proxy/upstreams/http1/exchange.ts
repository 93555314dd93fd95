import type { RequestControl, ResponseHandler, UpstreamRequest } from '../upstream-request.ts';
import type { RequestHead } from './request-head.ts';

/** Who has a request at the moment: the queue, or a connection. */
export interface ExchangeHolder {
  abort(exchange: Http1Exchange, reason: Error): void;
  resume(exchange: Http1Exchange): void;
}

/** One request and what becomes of it. */
export class Http1Exchange implements RequestControl {
  readonly request: UpstreamRequest;
  readonly head: RequestHead;
  private readonly handler: ResponseHandler;
  private readonly ended: () => void;
  private holder: ExchangeHolder | undefined;

  /** `ended` is called once, before the handler hears of the end. */
  constructor(request: UpstreamRequest, head: RequestHead, handler: ResponseHandler, ended: () => void) {
    this.request = request;
    this.head = head;
    this.handler = handler;
    this.ended = ended;
  }

  heldBy(holder: ExchangeHolder): void {
    this.holder = holder;
  }

  abort(reason: Error): void {
    this.holder?.abort(this, reason);
  }

  resume(): void {
    this.holder?.resume(this);
  }

  begin(): void {
    this.handler.onConnect(this);
  }

  respond(status: number, headers: readonly string[]): boolean {
    return this.handler.onHeaders(status, headers);
  }

  receive(chunk: Buffer): boolean {
    return this.handler.onData(chunk);
  }

  complete(trailers: readonly string[]): void {
    this.holder = undefined;
    this.ended();
    this.handler.onComplete(trailers);
  }

  fail(error: Error): void {
    if (this.holder === undefined) return;
    this.holder = undefined;
    this.ended();
    this.handler.onError(error);
  }
}
