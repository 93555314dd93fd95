// Answers on connections where there is not a request to speak of.
import { randomUUID } from 'node:crypto';
import type { IncomingMessage } from 'node:http';
import type { Duplex } from 'node:stream';
import {
  GATEWAY_ERRORS,
  errorAnswer,
  isMalformed,
  rawResponse,
  type GatewayErrorCode,
} from '../gateway-errors.ts';
import type { ProxyContext } from '../context.ts';
import type { Http1Connection } from './http1-connection.ts';

export interface BrokenConnection {
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
