import {
  constants,
  type ClientHttp2Session,
  type ClientHttp2Stream,
  type IncomingHttpHeaders,
  type OutgoingHttpHeaders,
} from 'node:http2';
import { addAbortSignal } from 'node:stream';
import {
  errorOf,
  HttpClientError,
  type HttpClientErrorCode,
  type OutgoingRequest,
  type RequestControl,
  type ResponseHandler,
} from '../request.ts';

export interface Http2CallEvents {
  /** Once, when the stream is closed. */
  readonly onEnd: () => void;
  /** The server was silent for too long. */
  readonly onSilence: () => void;
}

/** One request and its response on one HTTP/2 stream. */
export class Http2Call implements RequestControl {
  private readonly origin: string;
  private readonly request: OutgoingRequest;
  private readonly handler: ResponseHandler;
  private stream: ClientHttp2Stream | undefined;
  private events: Http2CallEvents | undefined;
  private timer: NodeJS.Timeout | undefined;
  private trailers: IncomingHttpHeaders = {};
  private responded = false;
  private ended = false;
  private paused = false;

  constructor(origin: string, request: OutgoingRequest, handler: ResponseHandler) {
    this.origin = origin;
    this.request = request;
    this.handler = handler;
  }

  run(session: ClientHttp2Session, events: Http2CallEvents): void {
    const { body, headersTimeoutMs } = this.request;
    try {
      this.handler.onConnect(this);
      if (this.ended) {
        events.onEnd();
        return;
      }
      const headers = http2Headers(this.origin, this.request);
      this.stream = session.request(headers, { endStream: body === undefined });
    } catch (failure) {
      this.fail(errorOf(failure));
      events.onEnd();
      return;
    }
    this.events = events;
    this.listen(this.stream, events);
    this.watch(headersTimeoutMs, 'HEADERS_TIMEOUT', events);
    this.send(this.stream);
  }

  abort(reason: Error): void {
    if (this.ended) return;
    // The caller gave up before there was a response.
    if (!this.responded) this.events?.onSilence();
    this.fail(reason);
  }

  resume(): void {
    this.paused = false;
    this.timer?.refresh();
    this.stream?.resume();
  }

  /** Tells the handler once, and lets the server know that nobody reads any more. */
  fail(error: Error): void {
    if (this.ended) return;
    this.ended = true;
    clearTimeout(this.timer);
    this.release();
    this.handler.onError(error);
  }

  private listen(stream: ClientHttp2Stream, events: Http2CallEvents): void {
    stream.on('headers', (headers: IncomingHttpHeaders) => this.inform(stream, headers));
    stream.once('response', (headers, flags) => {
      const endsHere = (flags & constants.NGHTTP2_FLAG_END_STREAM) !== 0;
      this.respond(stream, endsHere ? this.withoutTrailers(headers) : headers, events);
    });
    stream.once('trailers', (trailers: IncomingHttpHeaders) => {
      this.trailers = trailers;
    });
    stream.once('end', () => this.complete(stream));
    stream.on('error', (error: Error) => this.broken(stream, error));
    stream.once('close', () => {
      this.broken(stream, undefined);
      events.onEnd();
    });
  }

  /**
   * A gRPC error may be a single block of headers that counts as trailers ("Trailers-Only"). Passing it on as headers
   * and an empty body loses the status, so it becomes what it stands for: headers, and trailers.
   */
  private withoutTrailers(headers: IncomingHttpHeaders): IncomingHttpHeaders {
    if (headers['grpc-status'] === undefined) return headers;
    const entries = Object.entries(headers).filter(
      ([name]) => name !== constants.HTTP2_HEADER_CONTENT_LENGTH,
    );
    this.trailers = Object.fromEntries(entries.filter(([name]) => !BEFORE_THE_BODY.has(name)));
    return Object.fromEntries(entries.filter(([name]) => BEFORE_THE_BODY.has(name)));
  }

  /** A 1xx: `response` is still to come. */
  private inform(stream: ClientHttp2Stream, headers: IncomingHttpHeaders): void {
    if (this.ended) return;
    const { [constants.HTTP2_HEADER_STATUS]: status, ...fields } = headers;
    this.guarded(stream, () => this.handler.onHeaders(Number(status), linesOf(fields)));
  }

  private respond(stream: ClientHttp2Stream, headers: IncomingHttpHeaders, events: Http2CallEvents): void {
    if (this.ended) return;
    this.responded = true;
    const { [constants.HTTP2_HEADER_STATUS]: status, ...fields } = headers;
    this.watch(this.request.bodyTimeoutMs, 'BODY_TIMEOUT', events);
    stream.on('data', (chunk: Buffer) => {
      this.timer?.refresh();
      if (!this.ended) this.guarded(stream, () => this.handler.onData(chunk));
    });
    this.guarded(stream, () => this.handler.onHeaders(Number(status), linesOf(fields)));
  }

  private complete(stream: ClientHttp2Stream): void {
    // Node.js says `end` for a stream that was reset, too; `close` follows and tells that the response is cut off.
    if (this.ended || !this.responded || hasFailed(stream)) return;
    this.ended = true;
    clearTimeout(this.timer);
    this.guarded(stream, () => {
      this.handler.onComplete(linesOf(this.trailers));
      return true;
    });
    // The whole response is there; what is left of the request's body interests nobody.
    if (!stream.writableEnded) this.release();
  }

  private broken(stream: ClientHttp2Stream, cause: Error | undefined): void {
    if (this.ended) return;
    const why = cause === undefined ? `code ${stream.rstCode}` : cause.message;
    const message = `${this.origin} ended the stream before the response was complete: ${why}`;
    this.fail(new HttpClientError('CONNECTION_LOST', message));
  }

  private watch(timeoutMs: number, code: HttpClientErrorCode, { onSilence }: Http2CallEvents): void {
    clearTimeout(this.timer);
    this.timer = undefined;
    if (timeoutMs === 0) return;
    const timer = setTimeout(() => {
      // A client that does not read does not make the server silent.
      if (this.paused) {
        timer.refresh();
        return;
      }
      onSilence();
      this.fail(new HttpClientError(code, `${this.origin} was silent for ${timeoutMs} ms`));
    }, timeoutMs);
    this.timer = timer;
  }

  private send(stream: ClientHttp2Stream): void {
    const { body } = this.request;
    if (body === undefined) return;
    body.once('error', (error) => this.fail(error));
    body.once('close', () => {
      if (!body.readableEnded && !this.ended) this.fail(new Error('The body of the request broke off.'));
    });
    body.pipe(stream);
  }

  /** A handler that throws loses its own response, and nothing else; one that answers false has enough for now. */
  private guarded(stream: ClientHttp2Stream, tell: () => boolean): void {
    try {
      if (tell()) return;
      this.paused = true;
      stream.pause();
    } catch (failure) {
      this.fail(errorOf(failure));
    }
  }

  private release(): void {
    this.request.body?.destroy();
    // Not `stream.close(CANCEL)`: that ends the body before the reset, and half an upload would look whole.
    if (this.stream !== undefined) addAbortSignal(AbortSignal.abort(), this.stream);
  }
}

/** What is a header even where all headers are trailers. */
const BEFORE_THE_BODY: ReadonlySet<string> = new Set([
  constants.HTTP2_HEADER_STATUS,
  'content-type',
  'date',
  'server',
  'via',
]);

function hasFailed({ rstCode }: ClientHttp2Stream): boolean {
  return rstCode > constants.NGHTTP2_NO_ERROR;
}

/** Names and values by turns, a pair for each line. */
function linesOf(fields: IncomingHttpHeaders): string[] {
  return Object.entries(fields).flatMap(([name, value]) =>
    [value ?? []].flat().flatMap((line) => [name, line]),
  );
}

/** They belong to one connection and do not exist in HTTP/2 (RFC 9113 §8.2.2). */
const CONNECTION_FIELDS: ReadonlySet<string> = new Set([
  'connection',
  'keep-alive',
  'proxy-connection',
  'transfer-encoding',
  'upgrade',
  'http2-settings',
  'expect',
]);

/** The headers of a request as node:http2 takes them. The origin is in its normal form. */
export function http2Headers(
  origin: string,
  { method, path, headers }: Pick<OutgoingRequest, 'method' | 'path' | 'headers'>,
): OutgoingHttpHeaders {
  // A map: an object has a `constructor` before any client has sent one.
  const fields = new Map<string, string | string[]>();
  for (let at = 0; at < headers.length; at += 2) {
    add(fields, (headers[at] ?? '').toLowerCase(), headers[at + 1] ?? '');
  }
  const host = fields.get('host');
  fields.delete('host');
  return {
    ...Object.fromEntries(fields),
    [constants.HTTP2_HEADER_METHOD]: method,
    [constants.HTTP2_HEADER_PATH]: path,
    [constants.HTTP2_HEADER_SCHEME]: origin.slice(0, origin.indexOf(':')),
    [constants.HTTP2_HEADER_AUTHORITY]:
      typeof host === 'string' ? host : origin.slice(origin.indexOf('//') + 2),
  };
}

function add(fields: Map<string, string | string[]>, name: string, value: string): void {
  if (CONNECTION_FIELDS.has(name) || (name === 'te' && value.toLowerCase() !== 'trailers')) return;
  const before = fields.get(name);
  fields.set(name, before === undefined ? value : [before, value].flat());
}
