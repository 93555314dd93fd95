import { STATUS_CODES, type ServerResponse, IncomingMessage, type IncomingHttpHeaders } from 'node:http';
import type { Socket } from 'node:net';
import type { ClientCertificate } from '../../identity/identity.ts';
import { clientCertificateOf } from '../tls/server-tls.ts';
import { sentBytes } from './node-internals.ts';
import {
  type Exchange,
  type ExchangeListener,
  type RequestHead,
  type ResponseOptions,
  writeTogether,
  type BatchedWriter,
} from '../exchange.ts';

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
  private readonly connection: Socket;

  constructor(message: IncomingMessage, scheme: 'http' | 'https') {
    this.protocol = message.httpVersionMinor === 0 ? 'HTTP/1.0' : 'HTTP/1.1';
    this.method = message.method ?? '';
    this.scheme = scheme;
    this.target = message.url ?? '';
    this.rawHeaders = message.rawHeaders;
    this.connection = message.socket;
    this.peer = this.connection.remoteAddress;
    this.bodyless = isBodyless(message);
  }

  certificate(): ClientCertificate | undefined {
    return clientCertificateOf(this.connection);
  }
}

/** What may wait for the end of the turn: with the head before it and the end behind it, it goes out in one piece. */
const MAX_HELD_BYTES = 65_536;
/** Copying so few is cheaper than a write of several pieces. */
const MAX_COPIED_BYTES = 2048;

/** What a connection is told about its exchanges. */
export interface ExchangeOwner {
  /** No request after this one. */
  readonly last: boolean;
  /** The response says so. */
  closing(): void;
  finished(): void;
  /** See `Exchange`. */
  toleratesMalformed(): boolean;
}

export class Http1Exchange extends Http1Head implements Exchange, BatchedWriter {
  readonly body: IncomingMessage;
  private readonly response: ServerResponse;
  private readonly owner: ExchangeOwner;
  private listener: ExchangeListener | undefined;
  /** The first part of the body. */
  private held: string | Buffer | undefined;
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
    writeTogether(this);
  }

  write(chunk: Buffer): boolean {
    if (!this.flowing && this.held === undefined && chunk.length <= MAX_HELD_BYTES) {
      this.held = chunk.length <= MAX_COPIED_BYTES ? chunk.toString('latin1') : chunk;
      return true;
    }
    this.release();
    if (this.response.write(chunk)) return true;
    this.response.once('drain', () => this.listener?.drained());
    return false;
  }

  takenBytes(): number {
    const socket = socketOf(this.response);
    return socket === null ? 0 : sentBytes(socket);
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
    const bytes = Buffer.from(body);
    // RFC 9110 §8.6: not with a 204.
    if (status !== 204) headers.push('Content-Length', String(bytes.length));
    this.respond(status, headers, options);
    this.held = bytes.toString('latin1');
    this.end();
  }

  toleratesMalformed(): boolean {
    return this.owner.toleratesMalformed();
  }

  depart(): void {
    const { response, departs } = this;
    this.departs = false;
    if (!departs || response.destroyed) return;
    if (this.ended) this.finish();
    else if (this.held !== undefined) this.release();
    else if (!this.flowing) this.sendHead();
  }

  private sendHead(): void {
    this.flowing = true;
    this.response.flushHeaders();
  }

  private release(): void {
    const { held } = this;
    this.flowing = true;
    this.held = undefined;
    // An encoding says nothing about bytes.
    if (held !== undefined) this.response.write(held, 'latin1');
  }

  private finish(): void {
    const { response, held } = this;
    this.flowing = true;
    this.held = undefined;
    if (held === undefined) response.end();
    else if (response.chunkedEncoding) response.end(held, 'latin1');
    else this.finishAtOnce(held);
    if ((response.socket?.writableLength ?? 0) > 0) this.listener?.stalled();
  }

  /** `end(held)` would write two pieces, the second of them empty, and that takes longer than one. */
  private finishAtOnce(held: string | Buffer): void {
    const { response } = this;
    response.write(held, 'latin1');
    response.socket?.uncork();
    response.end();
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

/**
 * After an offer of another protocol Node.js drops what came in the same packet: the next request may begin anywhere.
 */
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

/** All that Node.js and the front look up by name before a request is read: how it goes on, and where it ends. */
const LOOKED_UP: ReadonlySet<string> = new Set([
  'te',
  'expect',
  'upgrade',
  'content-length',
  'transfer-encoding',
]);
const LENGTHS: ReadonlySet<number> = new Set(Array.from(LOOKED_UP, (name) => name.length));
const NO_FIELDS: IncomingHttpHeaders = Object.freeze({});

/**
 * Hears of every piece of a body where it arrives: who reads the body may come late, and until then each of them is
 * kept.
 */
export interface PieceListener {
  /** False: the connection is about to end, and nothing more is kept. */
  pieceArrived(bytes: number): boolean;
}

/**
 * A request that asks for another protocol only if that is a WebSocket. Node.js stops reading HTTP on a connection that
 * asks for any upgrade; clients that offer `Upgrade: h2c` would hang, and what follows their headers would be taken for
 * something else (RFC 9110 §7.8 lets us ignore the offer).
 *
 * Its `headers` has the few fields of `LOOKED_UP` and no other: Node.js asks it for `Expect` each time, and would make
 * an object of all of them, which nobody reads here. `rawHeaders` has them all.
 */
export class ClientMessage extends IncomingMessage {
  /** Also of protocols that are not spoken here. */
  upgradeAsked = false;
  pieces: PieceListener | undefined = undefined;
  /** It has to wait for its turn on the connection: nobody has looked at it yet. */
  waits = false;
  private fields: IncomingHttpHeaders | undefined = undefined;

  static {
    // Node.js has an accessor there too, which its declarations call a property.
    Object.defineProperty(this.prototype, 'headers', {
      get(this: ClientMessage) {
        this.fields ??= lookedUp(this.rawHeaders);
        return this.fields;
      },
    });
  }

  /** Where there is no body, nobody waits for its end, and ending a stream takes longer than reading the headers. */
  override push(chunk: unknown, encoding?: BufferEncoding): boolean {
    if (chunk === null && isBodyless(this)) return false;
    if (this.pieces?.pieceArrived(Buffer.isBuffer(chunk) ? chunk.length : 0) === false) return false;
    return super.push(chunk, encoding);
  }

  /**
   * A client that leaves may leave thousands of pipelined requests behind, and Node.js ends each with events that
   * nobody hears.
   */
  override destroy(error?: Error): this {
    return this.waits ? this : super.destroy(error);
  }

  get upgrade(): boolean {
    return (
      this.upgradeAsked && (this.method === 'CONNECT' || this.headers.upgrade?.toLowerCase() === 'websocket')
    );
  }

  set upgrade(asked: boolean | null) {
    this.upgradeAsked = asked === true;
  }
}

/** Nothing follows its headers. */
export function isBodyless({ headers }: IncomingMessage): boolean {
  const length = headers['content-length'];
  return (length === undefined || length === '0') && headers['transfer-encoding'] === undefined;
}

/** Several lines of a name are one list, as with Node.js. */
function lookedUp(raw: readonly string[]): IncomingHttpHeaders {
  let fields: Record<string, string> | undefined;
  for (let at = 0; at < raw.length; at += 2) {
    const name = raw[at] ?? '';
    if (!LENGTHS.has(name.length)) continue;
    const lower = name.toLowerCase();
    if (!LOOKED_UP.has(lower)) continue;
    const value = raw[at + 1] ?? '';
    const before = fields?.[lower];
    fields ??= {};
    fields[lower] = before === undefined ? value : `${before}, ${value}`;
  }
  return fields ?? NO_FIELDS;
}
