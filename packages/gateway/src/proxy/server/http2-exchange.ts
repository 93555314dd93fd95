import {
  constants,
  type IncomingHttpHeaders,
  type OutgoingHttpHeaders,
  type ServerHttp2Stream,
} from 'node:http2';
import type { Exchange, ExchangeListener, ResponseOptions } from '../exchange.ts';
import { writeTogether, type BatchedWriter } from './batched-writes.ts';

export interface StreamHead {
  readonly headers: IncomingHttpHeaders;
  /** Names and values by turns, pseudo-headers included. */
  readonly rawHeaders: readonly string[];
  readonly scheme: 'http' | 'https';
  readonly owner: StreamOwner;
}

/** What a connection is told about its streams. */
export interface StreamOwner {
  /** So many bytes of a response's body. */
  sent(bytes: number): void;
  /** See `Exchange`. */
  toleratesMalformed(): boolean;
}

/** A stream of HTTP/2. */
export class Http2Exchange implements Exchange, BatchedWriter {
  readonly protocol = 'HTTP/2.0';
  readonly method: string;
  readonly scheme: 'http' | 'https';
  readonly target: string;
  readonly authority: string | undefined;
  readonly rawHeaders: readonly string[];
  readonly peer: string | undefined;
  readonly bodyless: boolean;
  readonly body: ServerHttp2Stream;
  private readonly owner: StreamOwner;
  private listener: ExchangeListener | undefined;
  private trailers: readonly string[] = [];
  private ended = false;
  private cut = false;
  private head: { readonly headers: OutgoingHttpHeaders; readonly trailers: boolean } | undefined;

  constructor(stream: ServerHttp2Stream, { headers, rawHeaders, scheme, owner }: StreamHead) {
    this.body = stream;
    this.owner = owner;
    this.method = headers[':method'] ?? '';
    this.scheme = scheme;
    this.target = headers[':path'] ?? '';
    this.authority = headers[':authority'];
    this.rawHeaders = fieldsOf(rawHeaders);
    this.peer = stream.session?.socket.remoteAddress;
    this.bodyless = stream.endAfterHeaders;
    stream.on('close', () =>
      this.listener?.closed(this.ended && stream.rstCode === constants.NGHTTP2_NO_ERROR),
    );
    // Whatever breaks a stream shows as its end; without a listener it would end the process.
    stream.on('error', ignore);
  }

  /** The client, not we, ended it before it had a whole answer. */
  get brokenOff(): boolean {
    return !this.ended && !this.cut;
  }

  listen(listener: ExchangeListener): void {
    this.listener = listener;
  }

  sendContinue(): void {
    this.inform(100, []);
  }

  inform(status: number, headers: readonly string[]): void {
    if (!this.body.closed && !this.body.headersSent && this.head === undefined) {
      this.body.additionalHeaders({ ...headersOf(headers), ':status': status });
    }
  }

  /** What closes a connection of HTTP/1 ends only this stream: others on the connection are none of its concern. */
  respond(status: number, headers: string[], { trailers }: ResponseOptions): void {
    this.head = { headers: { ...headersOf(headers), ':status': status }, trailers };
  }

  flush(): void {
    writeTogether(this);
  }

  depart(): void {
    this.sendHead(false);
  }

  write(chunk: Buffer): boolean {
    const { body } = this;
    this.sendHead(false);
    this.owner.sent(chunk.length);
    if (body.closed || body.write(chunk)) return true;
    body.once('drain', () => this.listener?.drained());
    return false;
  }

  end(trailers: readonly string[] = []): void {
    this.trailers = trailers;
    this.ended = true;
    const { body } = this;
    // Headers that end the stream are how gRPC says no.
    this.sendHead(trailers.length === 0);
    // RFC 9113 §8.1: an answer that came before the end of the request asks the client to stop sending.
    if (!this.bodyless && !body.readableEnded) {
      body.once('finish', () => body.close(constants.NGHTTP2_NO_ERROR));
    }
    body.end();
    if (body.writableLength > 0) this.listener?.stalled();
  }

  answer(status: number, headers: string[], body: string, options: ResponseOptions): void {
    if (body !== '') headers.push('content-length', String(Buffer.byteLength(body)));
    this.respond(status, headers, options);
    if (body !== '' && this.method !== 'HEAD') this.write(Buffer.from(body));
    this.end();
  }

  /** The head waits for what follows it, so that a response without a body is one frame. */
  private sendHead(endStream: boolean): void {
    const { body, head } = this;
    this.head = undefined;
    if (head === undefined || body.closed) return;
    const waitForTrailers = head.trailers && !endStream;
    if (waitForTrailers) body.once('wantTrailers', () => body.sendTrailers(headersOf(this.trailers)));
    try {
      body.respond(head.headers, { endStream, waitForTrailers });
    } catch {
      // The upstream sent twice what HTTP/2 knows only once.
      this.destroy();
    }
  }

  toleratesMalformed(): boolean {
    return this.owner.toleratesMalformed();
  }

  destroy(): void {
    this.cut = true;
    // Not close(): that ends the stream in good order before it resets it, and a client would take the answer for
    // whole.
    this.body.destroy(new Error('the response cannot be completed'));
  }
}

function ignore(): void {
  // Nothing to do: see where it is used.
}

/**
 * Names and values by turns as HTTP/1 would have them: without pseudo-headers, and with one line of cookies (RFC 9113
 * §8.2.3).
 */
function fieldsOf(raw: readonly string[]): readonly string[] {
  let at = 0;
  while (raw[at]?.startsWith(':') === true) at += 2;
  const fields: string[] = [];
  let cookieAt: number | undefined;
  for (; at < raw.length; at += 2) {
    const name = raw[at] ?? '';
    const value = raw[at + 1] ?? '';
    if (name === 'cookie' && cookieAt !== undefined) {
      fields[cookieAt] += `; ${value}`;
      continue;
    }
    fields.push(name, value);
    if (name === 'cookie') cookieAt = fields.length - 1;
  }
  return fields;
}

/** Lines of one name become a list; names are in lower case. */
function headersOf(flat: readonly string[]): OutgoingHttpHeaders {
  const headers = new Map<string, string | string[]>();
  for (let at = 0; at < flat.length; at += 2) {
    const name = (flat[at] ?? '').toLowerCase();
    const value = flat[at + 1] ?? '';
    const present = headers.get(name);
    headers.set(name, present === undefined ? value : [present, value].flat());
  }
  return Object.fromEntries(headers);
}
