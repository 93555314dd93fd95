import type { IncomingHttpHeaders, ServerHttp2Session, ServerHttp2Stream } from 'node:http2';
import type { ProxyContext } from '../context.ts';
import { Passage } from '../passage.ts';
import { Http2Exchange } from './http2-exchange.ts';

/** One client of HTTP/2. */
export class Http2Connection {
  readonly session: ServerHttp2Session;
  private readonly context: ProxyContext;
  private readonly scheme: 'http' | 'https';
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
  }

  idleMs(): number | undefined {
    return this.open === 0 ? performance.now() - this.idleSince : undefined;
  }

  /** Whether a whole request has ever arrived. */
  get used(): boolean {
    return this.requests > 0;
  }

  /**
   * GOAWAY: what is under way is answered, and nothing new is taken. Streams that pass the GOAWAY on the way are not looked at, and the client
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
    stream.on('close', () => {
      this.open -= 1;
      this.idleSince = performance.now();
    });
    const max = this.context.live().config.server.max_requests_per_connection;
    if (this.context.draining || (max > 0 && this.requests >= max)) this.drain();
    new Passage(
      new Http2Exchange(stream, { headers, rawHeaders, scheme: this.scheme }),
      this.context,
    ).start();
  }
}
