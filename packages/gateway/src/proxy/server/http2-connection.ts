import {
  constants,
  type IncomingHttpHeaders,
  type ServerHttp2Session,
  type ServerHttp2Stream,
} from 'node:http2';
import { TokenMeter } from 'spillgate/internal';
import type { ProxyContext } from '../context.ts';
import { ProxiedRequest } from '../proxied-request.ts';
import { Http2Exchange } from './http2-exchange.ts';

/** Requests that a client begins and breaks off: each one costs us a request to a backend, and the client nothing. */
const MAX_BROKEN_OFF = 500;
const BROKEN_OFF_PER_S = 30;
/** DATA frames that carry next to nothing cost as much as others. The first one of a body does not count, so that short bodies are free. */
const SMALL_BYTES = 64;
const MAX_SMALL_FRAMES = 10_000;
const SMALL_FRAMES_PER_S = 10_000;
/** PING, SETTINGS and PRIORITY. Clients that measure the way send a PING per round trip. */
const MAX_CONTROL_FRAMES = 2000;
const CONTROL_FRAMES_PER_S = 1000;

/** One client of HTTP/2. */
export class Http2Connection {
  readonly session: ServerHttp2Session;
  private readonly brokenOff = new TokenMeter(MAX_BROKEN_OFF, BROKEN_OFF_PER_S);
  private readonly smallFrames = new TokenMeter(MAX_SMALL_FRAMES, SMALL_FRAMES_PER_S);
  private readonly controlFrames = new TokenMeter(MAX_CONTROL_FRAMES, CONTROL_FRAMES_PER_S);
  private readonly context: ProxyContext;
  private readonly scheme: 'http' | 'https';
  private cutOff = false;
  private open = 0;
  private requests = 0;
  private idleSince = performance.now();

  constructor(session: ServerHttp2Session, scheme: 'http' | 'https', context: ProxyContext) {
    this.session = session;
    this.scheme = scheme;
    this.context = context;
    session.on(
      'stream',
      (stream: ServerHttp2Stream, headers: IncomingHttpHeaders, _flags: number, rawHeaders: string[]) =>
        this.received(stream, headers, rawHeaders),
    );
    // The end of the session is the end of its streams, and they hear of it.
    session.on('error', () => session.destroy());
    for (const event of ['ping', 'remoteSettings', 'priority']) {
      session.on(event, () => this.spend(this.controlFrames));
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
   * GOAWAY: what is in flight is answered, and nothing new is taken. Streams that pass the GOAWAY on the way are not looked at, and the client
   * knows that it can send them again elsewhere (RFC 9113 §8.7). Never at once: a session that is closed in
   * its own 'session' event corrupts the memory of the process (seen with Node.js 20), and 'stream' comes in the middle of reading, too.
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
    const exchange = new Http2Exchange(stream, { headers, rawHeaders, scheme: this.scheme });
    stream.on('close', () => {
      this.open -= 1;
      this.idleSince = performance.now();
      if (exchange.brokenOff) this.spend(this.brokenOff);
    });
    if (!exchange.bodyless) this.countSmallFrames(stream);
    const max = this.context.snapshot().config.server.max_requests_per_connection;
    if (this.context.draining || (max > 0 && this.requests >= max)) this.drain();
    setImmediate(() => this.start(exchange));
  }

  /**
   * Behind what has been read: a response that begins in the middle of it corrupts the memory of the process (nodejs/node#65093). What was broken off
   * in the same packet has cost nobody anything: no limit is charged, and no backend hears of it.
   */
  private start(exchange: Http2Exchange): void {
    if (!exchange.body.closed) new ProxiedRequest(exchange, this.context).start();
  }

  /** Frames are counted where they arrive: who reads the body may come late, and until then each of them is kept. */
  private countSmallFrames(stream: ServerHttp2Stream): void {
    let first = true;
    const push = stream.push.bind(stream);
    stream.push = (chunk: Buffer | null, encoding?: BufferEncoding) => {
      if (!first && chunk !== null && chunk.length < SMALL_BYTES) this.spend(this.smallFrames);
      first = false;
      return push(chunk, encoding);
    };
  }

  /** A client that makes us do too much work for nothing is cut off (RFC 9113 §10.5); for the same reason as in `drain` not at once. */
  private spend(budget: TokenMeter): void {
    if (this.cutOff || budget.take(performance.now())) return;
    this.cutOff = true;
    const { session } = this;
    setImmediate(() => session.destroy(new Error('the client floods'), constants.NGHTTP2_ENHANCE_YOUR_CALM));
  }
}
