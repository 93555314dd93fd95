import {
  constants,
  type ClientHttp2Session,
  type ClientHttp2Stream,
  type IncomingHttpHeaders,
} from 'node:http2';
import { addAbortSignal } from 'node:stream';
import { errors } from 'undici';
import { http2Headers } from './http2-headers.ts';
import { errorOf } from './upstream-error.ts';
import type { RequestControl, ResponseHandler, UpstreamRequest } from './upstream-request.ts';

export interface ExchangeEvents {
  /** Once, when the stream is closed. */
  readonly onEnd: () => void;
  /** The server was silent for too long. */
  readonly onSilence: () => void;
}

/** One request and its response on one HTTP/2 stream. */
export class Exchange implements RequestControl {
  readonly #origin: string;
  readonly #request: UpstreamRequest;
  readonly #handler: ResponseHandler;
  #stream: ClientHttp2Stream | undefined;
  #events: ExchangeEvents | undefined;
  #timer: NodeJS.Timeout | undefined;
  #trailers: IncomingHttpHeaders = {};
  #responded = false;
  #ended = false;
  #paused = false;

  constructor(origin: string, request: UpstreamRequest, handler: ResponseHandler) {
    this.#origin = origin;
    this.#request = request;
    this.#handler = handler;
  }

  run(session: ClientHttp2Session, events: ExchangeEvents): void {
    const { body, headersTimeoutMs } = this.#request;
    try {
      this.#handler.onConnect(this);
      if (this.#ended) {
        events.onEnd();
        return;
      }
      const headers = http2Headers(this.#origin, this.#request);
      this.#stream = session.request(headers, { endStream: body === undefined });
    } catch (failure) {
      this.fail(errorOf(failure));
      events.onEnd();
      return;
    }
    this.#events = events;
    this.#listen(this.#stream, events);
    this.#watch(headersTimeoutMs, errors.HeadersTimeoutError, events);
    this.#send(this.#stream);
  }

  abort(reason: Error): void {
    if (this.#ended) return;
    // Somebody lost patience before there was an answer; perhaps nobody is there any more.
    if (!this.#responded) this.#events?.onSilence();
    this.fail(reason);
  }

  resume(): void {
    this.#paused = false;
    this.#timer?.refresh();
    this.#stream?.resume();
  }

  /** Tells the handler once, and lets the server know that nobody reads any more. */
  fail(error: Error): void {
    if (this.#ended) return;
    this.#ended = true;
    clearTimeout(this.#timer);
    this.#release();
    this.#handler.onError(error);
  }

  #listen(stream: ClientHttp2Stream, events: ExchangeEvents): void {
    stream.on('headers', (headers: IncomingHttpHeaders) => this.#inform(stream, headers));
    stream.once('response', (headers, flags) => {
      const endsHere = (flags & constants.NGHTTP2_FLAG_END_STREAM) !== 0;
      this.#respond(stream, endsHere ? this.#withoutTrailers(headers) : headers, events);
    });
    stream.once('trailers', (trailers: IncomingHttpHeaders) => {
      this.#trailers = trailers;
    });
    stream.once('end', () => this.#complete(stream));
    stream.on('error', (error: Error) => this.#broken(stream, error));
    stream.once('close', () => {
      this.#broken(stream, undefined);
      events.onEnd();
    });
  }

  /**
   * A gRPC error may be a single block of headers that counts as trailers ("Trailers-Only"). Whoever passes it on as headers and an empty body
   * loses the status, so it becomes what it stands for: headers, and trailers.
   */
  #withoutTrailers(headers: IncomingHttpHeaders): IncomingHttpHeaders {
    if (headers['grpc-status'] === undefined) return headers;
    const entries = Object.entries(headers).filter(
      ([name]) => name !== constants.HTTP2_HEADER_CONTENT_LENGTH,
    );
    this.#trailers = Object.fromEntries(entries.filter(([name]) => !BEFORE_THE_BODY.has(name)));
    return Object.fromEntries(entries.filter(([name]) => BEFORE_THE_BODY.has(name)));
  }

  /** A 1xx: `response` is still to come. */
  #inform(stream: ClientHttp2Stream, headers: IncomingHttpHeaders): void {
    if (this.#ended) return;
    const { [constants.HTTP2_HEADER_STATUS]: status, ...fields } = headers;
    this.#guarded(stream, () => this.#handler.onHeaders(Number(status), linesOf(fields)));
  }

  #respond(stream: ClientHttp2Stream, headers: IncomingHttpHeaders, events: ExchangeEvents): void {
    if (this.#ended) return;
    this.#responded = true;
    const { [constants.HTTP2_HEADER_STATUS]: status, ...fields } = headers;
    this.#watch(this.#request.bodyTimeoutMs, errors.BodyTimeoutError, events);
    stream.on('data', (chunk: Buffer) => {
      this.#timer?.refresh();
      if (!this.#ended) this.#guarded(stream, () => this.#handler.onData(chunk));
    });
    this.#guarded(stream, () => this.#handler.onHeaders(Number(status), linesOf(fields)));
  }

  #complete(stream: ClientHttp2Stream): void {
    // Node.js says `end` for a stream that was reset, too; `close` follows and tells that the response is cut off.
    if (this.#ended || !this.#responded || hasFailed(stream)) return;
    this.#ended = true;
    clearTimeout(this.#timer);
    this.#guarded(stream, () => {
      this.#handler.onComplete(linesOf(this.#trailers));
      return true;
    });
    // The whole response is there; what is left of the request's body interests nobody.
    if (!stream.writableEnded) this.#release();
  }

  #broken(stream: ClientHttp2Stream, cause: Error | undefined): void {
    if (this.#ended) return;
    const why = cause === undefined ? `code ${stream.rstCode}` : cause.message;
    const message = `${this.#origin} ended the stream before the response was complete: ${why}`;
    this.fail(new errors.SocketError(message));
  }

  #watch(timeoutMs: number, Timeout: TimeoutError, { onSilence }: ExchangeEvents): void {
    clearTimeout(this.#timer);
    this.#timer = undefined;
    if (timeoutMs === 0) return;
    const timer = setTimeout(() => {
      // A client that does not read is no silence of the server.
      if (this.#paused) {
        timer.refresh();
        return;
      }
      onSilence();
      this.fail(new Timeout(`${this.#origin} was silent for ${timeoutMs} ms`));
    }, timeoutMs);
    this.#timer = timer;
  }

  #send(stream: ClientHttp2Stream): void {
    const { body } = this.#request;
    if (body === undefined) return;
    body.once('error', (error) => this.fail(error));
    body.once('close', () => {
      if (!body.readableEnded && !this.#ended) this.fail(new Error('The body of the request broke off.'));
    });
    body.pipe(stream);
  }

  /** A handler that throws loses its own response, and nothing else; one that answers false has enough for now. */
  #guarded(stream: ClientHttp2Stream, tell: () => boolean): void {
    try {
      if (tell()) return;
      this.#paused = true;
      stream.pause();
    } catch (failure) {
      this.fail(errorOf(failure));
    }
  }

  #release(): void {
    this.#request.body?.destroy();
    // Not `stream.close(CANCEL)`: that ends the body before the reset, and half an upload would look whole.
    if (this.#stream !== undefined) addAbortSignal(AbortSignal.abort(), this.#stream);
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

type TimeoutError = typeof errors.HeadersTimeoutError | typeof errors.BodyTimeoutError;

/** Names and values by turns, a pair for each line. */
function linesOf(fields: IncomingHttpHeaders): string[] {
  return Object.entries(fields).flatMap(([name, value]) =>
    [value ?? []].flat().flatMap((line) => [name, line]),
  );
}
