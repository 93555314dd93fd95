import {
  constants,
  type IncomingHttpHeaders,
  type ServerHttp2Session,
  type ServerHttp2Stream,
  type OutgoingHttpHeaders,
} from 'node:http2';
import type { Socket } from 'node:net';
import type { ProxyContext } from '../context.ts';
import {
  type Exchange,
  type ExchangeListener,
  type ResponseOptions,
  writeTogether,
  type BatchedWriter,
} from '../exchange.ts';
import type { ClientCertificate } from '../../identity/identity.ts';
import { clientCertificateOf } from '../tls/server-tls.ts';
import { ProxiedRequest } from '../proxied-request.ts';
import { EmptyBytes, SMALL_PIECE_BYTES, type ConnectionOverhead } from './overhead-budget.ts';

/** Of every frame. */
const FRAME_HEAD_BYTES = 9;

export interface Http2ConnectionParts {
  readonly socket: Socket;
  readonly scheme: 'http' | 'https';
  readonly context: ProxyContext;
}

/** One client of HTTP/2. */
export class Http2Connection implements StreamOwner {
  readonly session: ServerHttp2Session;
  private readonly overhead: ConnectionOverhead;
  private readonly emptyBytes: EmptyBytes;
  private readonly context: ProxyContext;
  private readonly scheme: 'http' | 'https';
  private open = 0;
  private requests = 0;
  private idleSince = performance.now();

  constructor(session: ServerHttp2Session, { socket, scheme, context }: Http2ConnectionParts) {
    this.session = session;
    this.scheme = scheme;
    this.context = context;
    this.overhead = context.overhead.forPeer(socket.remoteAddress, () => this.cutOff());
    this.emptyBytes = new EmptyBytes(socket, this.overhead);
    session.on(
      'stream',
      (stream: ServerHttp2Stream, headers: IncomingHttpHeaders, _flags: number, rawHeaders: string[]) =>
        this.received(stream, headers, rawHeaders),
    );
    // The end of the session is the end of its streams, and they hear of it.
    session.on('error', (error: NodeJS.ErrnoException) => {
      if (error.code?.startsWith('ERR_HTTP2_') === true) this.overhead.spend('malformedRequest');
      session.destroy();
    });
    for (const event of ['ping', 'remoteSettings', 'priority']) {
      session.on(event, () => this.overhead.spend('controlFrame'));
    }
  }

  idleMs(): number | undefined {
    return this.open === 0 ? performance.now() - this.idleSince : undefined;
  }

  /** Whether a whole request has ever arrived. */
  get used(): boolean {
    return this.requests > 0;
  }

  /**
   * GOAWAY: what is in flight is answered, and nothing new is taken. Streams that pass the GOAWAY on the way are not
   * looked at, and the client knows that it can send them again elsewhere (RFC 9113 §8.7). Never at once: a session
   * that is closed in its own 'session' event corrupts the memory of the process (seen with Node.js 20), and 'stream'
   * comes in the middle of reading, too.
   */
  drain(): void {
    const { session } = this;
    setImmediate(() => {
      if (!session.closed && !session.destroyed) session.close();
    });
  }

  private received(
    stream: ServerHttp2Stream,
    headers: IncomingHttpHeaders,
    rawHeaders: readonly string[],
  ): void {
    this.requests += 1;
    this.open += 1;
    this.emptyBytes.carried(FRAME_HEAD_BYTES + lengthOf(rawHeaders));
    const exchange = new Http2Exchange(stream, { headers, rawHeaders, scheme: this.scheme, owner: this });
    stream.on('close', () => {
      this.open -= 1;
      this.idleSince = performance.now();
      if (exchange.brokenOff) this.overhead.spend('cancelledRequest');
    });
    if (!exchange.bodyless) this.countPieces(stream);
    const max = this.context.snapshot().config.server.max_requests_per_connection;
    if (this.context.draining || (max > 0 && this.requests >= max)) this.drain();
    setImmediate(() => this.start(exchange));
  }

  /**
   * Behind what has been read: a response that begins in the middle of it corrupts the memory of the process
   * (nodejs/node#65093). What was broken off in the same packet has cost nobody anything: no limit is charged, and no
   * backend hears of it.
   */
  private start(exchange: Http2Exchange): void {
    if (!exchange.body.closed) new ProxiedRequest(exchange, this.context).start();
  }

  /** What nobody heard of: frames that belong to no request, and those of streams that are closed. */
  chargeEmptyBytes(): void {
    this.emptyBytes.charge();
  }

  /** A client answers what it is sent with WINDOW_UPDATE. */
  sent(bytes: number): void {
    this.emptyBytes.carried(bytes);
  }

  toleratesMalformed(): boolean {
    this.overhead.spend('malformedRequest');
    return !this.overhead.usedUp;
  }

  /** Frames are counted where they arrive: who reads the body may come late, and until then each of them is kept. */
  private countPieces(stream: ServerHttp2Stream): void {
    let first = true;
    const push = stream.push.bind(stream);
    stream.push = (chunk: Buffer | null, encoding?: BufferEncoding) => {
      const bytes = chunk?.length ?? 0;
      this.emptyBytes.carried(bytes + FRAME_HEAD_BYTES);
      if (!first && chunk !== null && bytes < SMALL_PIECE_BYTES) {
        this.overhead.spend('smallPiece', SMALL_PIECE_BYTES - bytes);
      }
      first = false;
      return this.overhead.usedUp ? false : push(chunk, encoding);
    };
  }

  /**
   * A client that makes us do too much work for nothing is cut off (RFC 9113 §10.5); for the same reason as in `drain`
   * not at once.
   */
  private cutOff(): void {
    const { session } = this;
    setImmediate(() => session.destroy(new Error('the client floods'), constants.NGHTTP2_ENHANCE_YOUR_CALM));
  }
}

function lengthOf(texts: readonly string[]): number {
  let length = 0;
  for (const text of texts) length += text.length;
  return length;
}

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
  private written = 0;
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

  certificate(): ClientCertificate | undefined {
    const { session } = this.body;
    return session === undefined ? undefined : clientCertificateOf(session.socket);
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
    this.written += chunk.length;
    if (body.closed || body.write(chunk)) return true;
    body.once('drain', () => this.listener?.drained());
    return false;
  }

  takenBytes(): number {
    return this.written - this.body.writableLength;
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
