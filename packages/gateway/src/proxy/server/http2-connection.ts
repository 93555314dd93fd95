import {
  constants,
  type IncomingHttpHeaders,
  type ServerHttp2Session,
  type ServerHttp2Stream,
} from 'node:http2';
import type { Socket } from 'node:net';
import type { ProxyContext } from '../context.ts';
import { ProxiedRequest } from '../gateway-request.ts';
import { Http2Exchange, type StreamOwner } from './http2-exchange.ts';
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
