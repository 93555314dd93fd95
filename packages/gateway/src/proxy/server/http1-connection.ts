import { randomUUID } from 'node:crypto';
import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import type { Duplex } from 'node:stream';
import type { ProxyContext } from '../context.ts';
import {
  GATEWAY_ERRORS,
  errorAnswer,
  isMalformed,
  rawResponse,
  type GatewayErrorCode,
} from '../gateway-errors.ts';
import { ProxiedRequest } from '../proxied-request.ts';
import {
  Http1Exchange,
  type ExchangeOwner,
  ClientMessage,
  isBodyless,
  type PieceListener,
} from './http1-exchange.ts';
import { stopReading } from './node-internals.ts';
import { EmptyBytes, SMALL_PIECE_BYTES, type ConnectionOverhead } from './overhead-budget.ts';

/**
 * While so many requests wait for the answers to those before them, the client is not read. What has been read is
 * served: Node.js parses all requests of a packet in one go, a few thousand at most.
 */
const MAX_PIPELINED = 256;
/** Reading goes on when so few are left. */
const FEW_PIPELINED = 128;
/** A client that closed its sending side may still read; most that do are gone. An answer has so long to begin. */
const HALF_CLOSE_GRACE_MS = 100;
/**
 * After an early answer: how long the rest of a body is read and dropped, so that the answer arrives before the reset.
 */
const LINGER_MS = 1000;
/** The length of a chunk and two line ends. */
const CHUNK_FRAMING_BYTES = 12;

/**
 * One client of HTTP/1. Its requests are answered one after the other, even if it pipelines: they may depend on each
 * other, and RFC 9112 §9.3.2 lets only safe ones run side by side.
 */
export class Http1Connection implements ExchangeOwner, PieceListener {
  readonly socket: Socket;
  private readonly context: ProxyContext;
  private readonly scheme: 'http' | 'https';
  private readonly overhead: ConnectionOverhead;
  private readonly emptyBytes: EmptyBytes;
  private firstPiece = true;
  private readonly waiting: ServerResponse[] = [];
  private current: Http1Exchange | undefined;
  private answered: IncomingMessage | undefined;
  private requests = 0;
  private ignored = 0;
  /** While nothing is read. */
  private readOn: (() => void) | undefined;
  private broken: (() => void) | undefined;
  /** The first request has begun, and its first line has not come to an end in what is known of it. */
  lineIsOpen = false;
  private tunnelled = false;
  private closed = false;
  private idleSince = performance.now();

  constructor(socket: Socket, scheme: 'http' | 'https', context: ProxyContext) {
    this.socket = socket;
    this.scheme = scheme;
    this.context = context;
    this.overhead = context.overhead.forPeer(socket.remoteAddress, () => socket.destroy());
    this.emptyBytes = new EmptyBytes(socket, this.overhead);
    socket.on('end', () => this.halfClosed());
  }

  /** How long nothing is in flight; undefined while something is. */
  idleMs(): number | undefined {
    if (this.current !== undefined || this.tunnelled) return undefined;
    return performance.now() - this.idleSince;
  }

  /** The rest of a refused body is read and dropped, and does not come to an end. */
  get drips(): boolean {
    return this.answered?.complete === false;
  }

  /** From now on the connection belongs to a tunnel. */
  handOver(): void {
    this.tunnelled = true;
  }

  /** A response has begun: nothing else may be written. */
  get responding(): boolean {
    return this.current?.headersSent === true;
  }

  /** What waits for the end of the turn. */
  sendNow(): void {
    this.current?.depart();
  }

  get busy(): boolean {
    return this.current !== undefined;
  }

  get last(): boolean {
    const max = this.context.snapshot().config.server.max_requests_per_connection;
    return max > 0 && this.requests >= max;
  }

  received(response: ServerResponse): void {
    if (this.socket.destroyed) return;
    const { max_header_bytes, max_uri_bytes } = this.context.snapshot().config.server;
    this.emptyBytes.carried(max_header_bytes + max_uri_bytes);
    this.watchBody(response.req);
    // Behind the answer that closes the connection nothing can be answered, so nothing may be charged.
    if (this.closed) this.ignored += 1;
    else if (this.current === undefined) this.serve(response);
    else this.enqueue(response);
    if (this.waiting.length + this.ignored >= MAX_PIPELINED) this.hold();
  }

  pieceArrived(bytes: number): boolean {
    this.emptyBytes.carried(bytes + CHUNK_FRAMING_BYTES);
    if (!this.firstPiece && bytes > 0 && bytes < SMALL_PIECE_BYTES) {
      this.overhead.spend('smallPiece', SMALL_PIECE_BYTES - bytes);
    }
    this.firstPiece = false;
    return !this.overhead.usedUp;
  }

  toleratesMalformed(): boolean {
    this.overhead.spend('malformedRequest');
    return !this.overhead.usedUp;
  }

  chargeEmptyBytes(): void {
    if (!this.tunnelled) this.emptyBytes.charge();
  }

  /**
   * What has come now is not a request. `answer` says so and closes, behind the answers to all that came before; it
   * hears whether nobody else counts what was broken.
   */
  brokenBy(answer: (counted: boolean) => void): void {
    if (this.broken !== undefined || this.closed) return;
    if (this.drips || (this.responding && this.current?.body.complete === false)) {
      // The rest of a body is wrong whose answer has begun: nothing else can be said.
      this.socket.destroy();
    } else if (this.current === undefined || !this.current.body.complete) {
      answer(this.current === undefined);
    } else {
      this.broken = () => answer(true);
      this.hold();
    }
  }

  closing(): void {
    this.closed = true;
    const { socket } = this;
    const request = this.current?.body;
    if (request === undefined || request.complete) return;
    socket.destroySoon = () => {
      socket.end();
      request.resume();
      setTimeout(() => socket.destroy(), LINGER_MS).unref();
    };
  }

  finished(): void {
    this.answered = this.current?.body;
    this.current = undefined;
    this.idleSince = performance.now();
    if (this.socket.destroyed || this.closed) return;
    const next = this.waiting.shift();
    if (this.broken !== undefined && next?.req.complete !== true) {
      this.broken();
    } else if (next !== undefined) {
      this.serve(next);
      if (this.broken === undefined && this.waiting.length <= FEW_PIPELINED) this.release();
    }
  }

  private watchBody(message: IncomingMessage): void {
    this.firstPiece = true;
    if (message instanceof ClientMessage && !isBodyless(message)) message.pieces = this;
  }

  /** Nothing is read any more; the next request has to wait. */
  private hold(): void {
    this.readOn ??= stopReading(this.socket);
  }

  private release(): void {
    this.readOn?.();
    this.readOn = undefined;
  }

  private enqueue(response: ServerResponse): void {
    this.waiting.push(response);
    if (response.req instanceof ClientMessage) response.req.waits = true;
  }

  private serve(response: ServerResponse): void {
    if (response.req instanceof ClientMessage) response.req.waits = false;
    this.requests += 1;
    this.lineIsOpen = false;
    this.current = new Http1Exchange(response, this.scheme, this);
    new ProxiedRequest(this.current, this.context).start();
  }

  private halfClosed(): void {
    if (this.current === undefined || this.responding) return;
    setTimeout(() => {
      if (!this.responding) this.socket.destroy();
    }, HALF_CLOSE_GRACE_MS).unref();
  }
}

// From here on: answers on connections where there is not a request to speak of.

interface BrokenConnection {
  readonly socket: Duplex;
  /** Undefined if it is none that serves HTTP/1. */
  readonly connection:
    | Pick<Http1Connection, 'brokenBy' | 'lineIsOpen' | 'sendNow' | 'toleratesMalformed'>
    | undefined;
  readonly context: ProxyContext;
}

/** Says what was wrong with bytes that are not request, and closes: nobody knows where the next request would begin. */
export function answerParseError(error: NodeJS.ErrnoException, broken: BrokenConnection): void {
  const { socket, connection } = broken;
  const code = codeFor(error, connection?.lineIsOpen === true);
  // What was answered before is not lost because of what came after it.
  connection?.sendNow();
  // A client that is gone hears nothing.
  if (code === undefined || !socket.writable || connection === undefined) socket.destroy(error);
  else connection.brokenBy((counted) => refuse(code, broken, { method: '', counted }));
}

/** `CONNECT` would make an open proxy of the gateway. */
export function answerConnect(request: IncomingMessage, broken: BrokenConnection): void {
  const { socket, connection } = broken;
  // Node.js no longer listens for errors of this socket.
  socket.on('error', () => socket.destroy());
  connection?.brokenBy(() =>
    refuse('METHOD_NOT_ALLOWED', broken, { method: request.method ?? '', counted: true }),
  );
}

interface ParseError extends NodeJS.ErrnoException {
  /** Only what was read last. */
  readonly rawPacket?: unknown;
  readonly bytesParsed?: number;
}

function codeFor(error: ParseError, lineIsOpen: boolean): GatewayErrorCode | undefined {
  switch (error.code) {
    case 'HPE_HEADER_OVERFLOW':
      return isInTarget(error, lineIsOpen) ? 'URI_TOO_LONG' : 'HEADERS_TOO_LARGE';
    case 'HPE_CHUNK_EXTENSIONS_OVERFLOW':
      return 'BODY_TOO_LARGE';
    case 'ERR_HTTP_REQUEST_TIMEOUT':
      return 'HEADER_TIMEOUT';
    default:
      return error.code?.startsWith('HPE_') === true ? 'MALFORMED_REQUEST' : undefined;
  }
}

/**
 * A method and a target without an end; a header has a colon before its first space. Before the method the end of a
 * body may stand.
 */
const OPEN_LINE = /^\n[^\s:]+ \S*$/;
const OPEN_LINE_ALONE = /^[A-Z-]{1,32} [/h]\S*$/;

/**
 * Whether what became too large is the target, and not a header. The parser stops behind the piece of it that was too
 * much.
 */
function isInTarget({ rawPacket, bytesParsed = 0 }: ParseError, lineIsOpen: boolean): boolean {
  if (!Buffer.isBuffer(rawPacket)) return false;
  const read = rawPacket.toString('latin1', 0, bytesParsed);
  const next = rawPacket.toString('latin1', bytesParsed, bytesParsed + 1);
  // Behind a target stands the version; behind the name of a header, which ends with its colon, a space may stand as
  // well.
  if (next === ' ') return !read.endsWith(':') || endsInTarget(read);
  // Behind a target without a version stands a line end; of a header's, the first half has been read.
  if (next !== '') return next === '\r';
  // It goes on in the next packet. Where it began is known if that was in this one.
  if (endsInTarget(read)) return true;
  return lineIsOpen && !/\s/.test(read);
}

function endsInTarget(read: string): boolean {
  const lineEnd = read.lastIndexOf('\n');
  return lineEnd === -1 ? OPEN_LINE_ALONE.test(read) : OPEN_LINE.test(read.slice(lineEnd));
}

function refuse(
  code: GatewayErrorCode,
  { socket, connection, context }: BrokenConnection,
  { method, counted }: { readonly method: string; readonly counted: boolean },
): void {
  if (isMalformed(code) && connection?.toleratesMalformed() === false) return;
  const id = randomUUID();
  const answer = errorAnswer(code, id);
  answer.headers.push(context.snapshot().config.server.request_id_header, id);
  socket.on('error', () => socket.destroy());
  socket.end(rawResponse(answer), () => socket.destroy());
  if (!counted) return;
  context.traffic.started();
  context.traffic.finished({
    id,
    outcome: 'invalid',
    reason: code,
    method,
    scheme: 'encrypted' in socket ? 'https' : 'http',
    host: '',
    path: '',
    protocol: 'HTTP/1.1',
    status: GATEWAY_ERRORS[code].status,
    clientAddress: 'remoteAddress' in socket ? String(socket.remoteAddress) : undefined,
    rule: undefined,
    upstream: undefined,
    bytesReceived: 0,
    bytesSent: Buffer.byteLength(answer.body),
    durationMs: 0,
    upstreamMs: undefined,
    shadowDenied: false,
    traceId: undefined,
  });
}
