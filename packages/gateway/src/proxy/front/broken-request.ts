// Answers on connections where there is no request to speak of.
import { randomUUID } from 'node:crypto';
import type { IncomingMessage } from 'node:http';
import type { Duplex } from 'node:stream';
import { OWN_ANSWERS, ownAnswer, rawAnswer, type AnswerCode } from '../answers.ts';
import type { ProxyContext } from '../context.ts';

export interface BrokenConnection {
  readonly socket: Duplex;
  /** Undefined if it is none that serves HTTP/1. */
  readonly connection: { readonly responding: boolean; readonly busy: boolean; sendNow(): void } | undefined;
  readonly context: ProxyContext;
}

/** Says what was wrong with bytes that are no request, and closes: nobody knows where the next request would begin. */
export function answerParseError(error: NodeJS.ErrnoException, broken: BrokenConnection): void {
  const { socket, connection } = broken;
  const code = codeFor(error);
  // What was answered before is not lost because of what came after it.
  connection?.sendNow();
  // In the middle of an answer nothing can be said; a client that is gone hears nothing.
  if (code === undefined || !socket.writable || connection === undefined || connection.responding) {
    socket.destroy(error);
    return;
  }
  refuse(code, broken, { method: '', counted: !connection.busy });
}

/** `CONNECT` would make an open proxy of the gateway. */
export function answerConnect(
  request: IncomingMessage,
  { socket, context }: { readonly socket: Duplex; readonly context: ProxyContext },
): void {
  refuse('METHOD_NOT_ALLOWED', { socket, context }, { method: request.method ?? '', counted: true });
}

const OVERFLOWN_LINE = /^[A-Z]{1,32} [^\s]*$/;

function codeFor(error: NodeJS.ErrnoException & { rawPacket?: unknown }): AnswerCode | undefined {
  switch (error.code) {
    case 'HPE_HEADER_OVERFLOW':
      return Buffer.isBuffer(error.rawPacket) && OVERFLOWN_LINE.test(error.rawPacket.toString('latin1'))
        ? 'URI_TOO_LONG'
        : 'HEADERS_TOO_LARGE';
    case 'HPE_CHUNK_EXTENSIONS_OVERFLOW':
      return 'BODY_TOO_LARGE';
    case 'ERR_HTTP_REQUEST_TIMEOUT':
      return 'HEADER_TIMEOUT';
    default:
      return error.code?.startsWith('HPE_') === true ? 'MALFORMED_REQUEST' : undefined;
  }
}

function refuse(
  code: AnswerCode,
  { socket, context }: Pick<BrokenConnection, 'socket' | 'context'>,
  { method, counted }: { readonly method: string; readonly counted: boolean },
): void {
  const id = randomUUID();
  const answer = ownAnswer(code, id);
  answer.headers.push(context.live().config.server.request_id_header, id);
  socket.on('error', () => socket.destroy());
  socket.end(rawAnswer(answer), () => socket.destroy());
  if (!counted) return;
  context.traffic.finished({
    id,
    outcome: 'invalid',
    reason: code,
    method,
    scheme: 'encrypted' in socket ? 'https' : 'http',
    host: '',
    path: '',
    protocol: 'HTTP/1.1',
    status: OWN_ANSWERS[code].status,
    clientAddress: 'remoteAddress' in socket ? String(socket.remoteAddress) : undefined,
    rule: undefined,
    upstream: undefined,
    bytesReceived: 0,
    bytesSent: Buffer.byteLength(answer.body),
    durationMs: 0,
    upstreamMs: undefined,
    traceId: undefined,
  });
}
