import { STATUS_CODES, type IncomingMessage, type ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import { departTogether, type Departing } from './departures.ts';
import { ClientMessage } from './http1-message.ts';
import type { Exchange, ExchangeListener, RequestHead, ResponseOptions } from '../exchange.ts';

/** What a request of HTTP/1 says, also one that asks for a tunnel. */
export class Http1Head implements RequestHead {
  readonly protocol: RequestHead['protocol'];
  readonly method: string;
  readonly scheme: 'http' | 'https';
  readonly target: string;
  readonly authority = undefined;
  readonly rawHeaders: readonly string[];
  readonly peer: string | undefined;
  readonly bodyless: boolean;

  constructor(message: IncomingMessage, scheme: 'http' | 'https') {
    this.protocol = message.httpVersionMinor === 0 ? 'HTTP/1.0' : 'HTTP/1.1';
    this.method = message.method ?? '';
    this.scheme = scheme;
    this.target = message.url ?? '';
    this.rawHeaders = message.rawHeaders;
    this.peer = message.socket.remoteAddress;
    const length = message.headers['content-length'];
    this.bodyless =
      (length === undefined || length === '0') && message.headers['transfer-encoding'] === undefined;
  }
}

/** As text a small body goes out in one piece with the head; larger ones are not copied. */
const MAX_HELD_BYTES = 2048;

/** What a connection is told about its exchanges. */
export interface ExchangeOwner {
  /** No request after this one. */
  readonly last: boolean;
  /** The response says so. */
  closing(): void;
  finished(): void;
}

export class Http1Exchange extends Http1Head implements Exchange, Departing {
  readonly body: IncomingMessage;
  private readonly response: ServerResponse;
  private readonly owner: ExchangeOwner;
  private listener: ExchangeListener | undefined;
  /** A small first part of the body, as text: with the head and the end of the response it goes out in one piece. */
  private held: string | undefined;
  private encoding: 'latin1' | 'utf8' = 'latin1';
  /** The head has been sent: whatever comes now is written at once. */
  private flowing = false;
  private ended = false;
  private departs = false;

  constructor(response: ServerResponse, scheme: 'http' | 'https', owner: ExchangeOwner) {
    super(response.req, scheme);
    this.body = response.req;
    this.response = response;
    this.owner = owner;
    response.on('close', () => {
      this.listener?.closed(response.writableFinished);
      owner.finished();
    });
    // Whatever breaks shows as the end of the exchange; without a listener it would end the process.
    this.body.on('error', ignore);
    response.on('error', ignore);
  }

  get headersSent(): boolean {
    return this.response.headersSent;
  }

  listen(listener: ExchangeListener): void {
    this.listener = listener;
  }

  sendContinue(): void {
    this.response.writeContinue();
  }

  inform(status: number, headers: readonly string[]): void {
    if (status !== 103) return;
    // Written as it is: `writeEarlyHints` takes only `Link`.
    let text = 'HTTP/1.1 103 Early Hints\r\n';
    for (let at = 0; at < headers.length; at += 2) text += `${headers[at]}: ${headers[at + 1]}\r\n`;
    socketOf(this.response)?.write(`${text}\r\n`, 'latin1');
  }

  respond(status: number, headers: string[], { close, trailers }: ResponseOptions): void {
    if (close || this.owner.last || losesTrack(this.body)) {
      headers.push('Connection', 'close');
      this.owner.closing();
    }
    const hasTrailers =
      trailers && this.protocol === 'HTTP/1.1' && this.method !== 'HEAD' && !WITHOUT_BODY.has(status);
    // Node.js throws for trailers that are announced where they have no place.
    if (!hasTrailers) removeTrailer(headers);
    // With its text: Node.js keeps the one of a head that could not be sent.
    this.response.writeHead(status, STATUS_CODES[status] ?? 'unknown', headers);
  }

  flush(): void {
    if (this.departs) return;
    this.departs = true;
    departTogether(this);
  }

  write(chunk: Buffer): boolean {
    if (!this.flowing && this.held === undefined && chunk.length <= MAX_HELD_BYTES) {
      this.held = chunk.toString('latin1');
      return true;
    }
    this.flow();
    if (this.response.write(chunk)) return true;
    this.response.once('drain', () => this.listener?.drained());
    return false;
  }

  end(trailers: readonly string[] = []): void {
    if (trailers.length > 0) this.response.addTrailers(pairsOf(trailers));
    this.ended = true;
    this.flush();
  }

  answer(status: number, headers: string[], body: string, options: ResponseOptions): void {
    // The head of such a response could not be sent, and Node.js would still drop the body of the answer instead of it.
    if (WITHOUT_BODY.has(this.response.statusCode)) {
      this.destroy();
      return;
    }
    headers.push('Content-Length', String(Buffer.byteLength(body)));
    this.respond(status, headers, options);
    this.held = body;
    this.encoding = 'utf8';
    this.end();
  }

  depart(): void {
    const { response, held, encoding, departs } = this;
    this.departs = false;
    if (!departs || response.destroyed) return;
    if (!this.ended) {
      this.flow();
      return;
    }
    this.flowing = true;
    this.held = undefined;
    if (held === undefined) response.end();
    else response.end(held, encoding);
    if ((response.socket?.writableLength ?? 0) > 0) this.listener?.stalled();
  }

  private flow(): void {
    if (this.flowing) return;
    this.flowing = true;
    if (this.held === undefined) this.response.flushHeaders();
    else this.response.write(this.held, this.encoding);
    this.held = undefined;
  }

  destroy(): void {
    const socket = socketOf(this.response);
    // A client of HTTP/1.0 takes the end of the connection for the end of the body; only a reset says otherwise.
    if (this.protocol === 'HTTP/1.0' && this.scheme === 'http' && socket !== null) socket.resetAndDestroy();
    else this.response.destroy();
  }
}

const WITHOUT_BODY: ReadonlySet<number> = new Set([204, 304]);

function removeTrailer(headers: string[]): void {
  for (let at = headers.length - 2; at >= 0; at -= 2) {
    if (headers[at]?.length === 7 && headers[at]?.toLowerCase() === 'trailer') headers.splice(at, 2);
  }
}

function ignore(): void {
  // Nothing to do: see where it is used.
}

/** After an offer of another protocol Node.js drops what came in the same packet: the next request may begin anywhere. */
function losesTrack(request: IncomingMessage): boolean {
  return request instanceof ClientMessage && request.upgradeAsked;
}

/** A response that waits behind another one has no socket yet. */
function socketOf(response: ServerResponse): Socket | null {
  return response.socket;
}

function pairsOf(flat: readonly string[]): [string, string][] {
  const pairs: [string, string][] = [];
  for (let at = 0; at < flat.length; at += 2) pairs.push([flat[at] ?? '', flat[at + 1] ?? '']);
  return pairs;
}
