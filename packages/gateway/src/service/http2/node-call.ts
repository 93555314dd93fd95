// A call on a stream of ours in the shape that Node.js gives requests and responses, for all that is not asked often.
import { Readable, Writable } from 'node:stream';
import type { Socket } from 'node:net';
import type { IncomingHttpHeaders, OutgoingHttpHeaders } from 'node:http2';
import type { CallRequest, CallResponse } from '../http/call.ts';
import { ERROR } from './frames.ts';
import { encodeHeaders } from './hpack.ts';
import type { ServiceStream } from './stream.ts';

/** Takes over a stream that nobody listens to yet. */
export function nodeCall(
  stream: ServiceStream,
  socket: Socket,
): { readonly request: CallRequest; readonly response: CallResponse } {
  const request = new StreamRequest(stream, socket);
  const response = new StreamResponse(stream);
  stream.listener = {
    data: (chunk) => request.keep(chunk),
    end: () => void request.push(null),
    closed: (code) => {
      request.over(code, response.writableEnded);
      response.emit('close');
    },
  };
  // Whoever writes to a call that is over finds out by 'close'.
  response.on('error', () => undefined);
  if (stream.head.headers.expect?.toLowerCase() === '100-continue') stream.inform(CONTINUE);
  // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- they have what the service and connect-node use
  return { request, response } as unknown as { request: CallRequest; response: CallResponse };
}

const CONTINUE = encodeHeaders([], 100);

/** What Node.js makes of the request of a stream. */
class StreamRequest extends Readable {
  readonly httpVersion = '2.0';
  readonly httpVersionMajor = 2;
  readonly httpVersionMinor = 0;
  readonly headers: IncomingHttpHeaders;
  readonly rawHeaders: readonly string[];
  readonly method: string;
  readonly url: string;
  readonly authority: string | undefined;
  readonly socket: Socket;
  /** What connect-node asks about a call that is over. */
  readonly stream = { rstCode: ERROR.none as number };
  private readonly call: ServiceStream;
  /** Bytes that wait here to be read. */
  private held = 0;

  constructor(call: ServiceStream, socket: Socket) {
    // 'close' says that the call is over, not that its body was read.
    super({ autoDestroy: false });
    const { headers, method, path, fields } = call.head;
    this.call = call;
    this.headers = headers;
    this.rawHeaders = fields.flatMap(({ name, value }) => [name, value]);
    this.method = method;
    this.url = path;
    this.authority = headers[':authority'] ?? headers.host;
    this.socket = socket;
  }

  get complete(): boolean {
    return this.call.remoteEnded || this.call.isOver;
  }

  /** True: it was read at once, or there is room for more. */
  keep(chunk: Buffer): boolean {
    if (this.push(chunk)) return true;
    this.held += chunk.length;
    return false;
  }

  over(code: number | undefined, answered: boolean): void {
    this.giveCredit();
    this.stream.rstCode = code ?? ERROR.none;
    if (code !== undefined && !answered) this.emit('aborted');
    if (!this.readableEnded) this.push(null);
    this.emit('close');
  }

  override _read(): void {
    this.giveCredit();
  }

  private giveCredit(): void {
    const { held } = this;
    if (held === 0) return;
    this.held = 0;
    this.call.credit(held);
  }
}

/** What belongs to a connection of HTTP/1. */
const OF_CONNECTION = new Set(['connection', 'keep-alive', 'transfer-encoding', 'upgrade']);

/** What Node.js makes of the response of a stream. */
class StreamResponse extends Writable {
  statusCode = 200;
  private readonly call: ServiceStream;
  private readonly headers = new Map<string, readonly string[]>();
  private trailers: Buffer | undefined;

  constructor(call: ServiceStream) {
    super({ autoDestroy: false });
    this.call = call;
  }

  get headersSent(): boolean {
    return this.call.headersSent;
  }

  setHeader(name: string, value: string | number | readonly string[]): this {
    this.headers.set(name.toLowerCase(), typeof value === 'object' ? value : [String(value)]);
    return this;
  }

  writeHead(status: number, headers: OutgoingHttpHeaders = {}): this {
    this.statusCode = status;
    for (const [name, value] of Object.entries(headers)) {
      if (value !== undefined) this.setHeader(name, value);
    }
    return this;
  }

  addTrailers(headers: OutgoingHttpHeaders): void {
    this.trailers = encodeHeaders(
      Object.entries(headers).flatMap(([name, value]) =>
        [value ?? []].flat().map((each) => [name.toLowerCase(), String(each)] as const),
      ),
    );
  }

  override _write(chunk: Buffer, _encoding: string, sent: () => void): void {
    this.sendHeaders(false);
    this.call.write(chunk, sent);
  }

  override _final(sent: () => void): void {
    this.sendHeaders(this.trailers === undefined);
    this.call.finish(this.trailers);
    sent();
  }

  private sendHeaders(isLast: boolean): void {
    if (this.headersSent) return;
    this.headers.set('date', [new Date().toUTCString()]);
    const pairs = [...this.headers]
      .filter(([name]) => !OF_CONNECTION.has(name))
      .flatMap(([name, values]) => values.map((value) => [name, value] as const));
    this.call.respond(encodeHeaders(pairs, this.statusCode), isLast);
  }
}
