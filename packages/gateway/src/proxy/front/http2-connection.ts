import {
  constants,
  type IncomingHttpHeaders,
  type ServerHttp2Session,
  type ServerHttp2Stream,
} from 'node:http2';
import type { ProxyContext } from '../context.ts';
import { Passage } from '../passage.ts';
import { Http2Exchange } from './http2-exchange.ts';

const MAX_STREAM_ID = 2 ** 31 - 1;
/** Longer than a request and the word that there should be no more can pass each other on the way. */
const GOAWAY_GRACE_MS = 500;

/** One client of HTTP/2. */
export class Http2Connection {
  readonly session: ServerHttp2Session;
  private readonly context: ProxyContext;
  private readonly scheme: 'http' | 'https';
  private open = 0;
  private requests = 0;
  private draining = false;
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
  }

  idleMs(): number | undefined {
    return this.open === 0 ? performance.now() - this.idleSince : undefined;
  }

  /** Whether a whole request has ever arrived. */
  get used(): boolean {
    return this.requests > 0;
  }

  /**
   * Asks the client to open no more streams, and takes those that are on their way already; after that nothing new is taken, and what is
   * under way is answered (RFC 9113 §6.8).
   */
  drain(): void {
    const { session } = this;
    if (this.draining || session.closed || session.destroyed) return;
    this.draining = true;
    session.goaway(constants.NGHTTP2_NO_ERROR, MAX_STREAM_ID);
    setTimeout(() => session.close(), GOAWAY_GRACE_MS).unref();
  }

  private received(
    stream: ServerHttp2Stream,
    headers: IncomingHttpHeaders,
    rawHeaders: readonly string[],
  ): void {
    this.requests += 1;
    this.open += 1;
    stream.on('close', () => {
      this.open -= 1;
      this.idleSince = performance.now();
    });
    const max = this.context.live().config.server.max_requests_per_connection;
    if (max > 0 && this.requests >= max) this.drain();
    new Passage(
      new Http2Exchange(stream, { headers, rawHeaders, scheme: this.scheme }),
      this.context,
    ).start();
  }
}
