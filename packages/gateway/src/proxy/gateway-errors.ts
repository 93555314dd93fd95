// Every answer of the proxy itself: one table of codes, and how they look.
import { STATUS_CODES } from 'node:http';
import { plainProblem, type HeaderPair } from 'spillgate/http';
import type { GATEWAY_ERROR_CODES } from '../config/schema/answers.ts';
import type { Refusal, RuleOutcome } from '../rules/rule-outcome.ts';

interface GatewayError {
  readonly status: number;
  readonly detail: string;
}

/** Codes stay the same forever: clients and dashboards read them. */
export const GATEWAY_ERRORS = {
  MALFORMED_REQUEST: { status: 400, detail: 'The request is not well-formed HTTP.' },
  INVALID_TARGET: {
    status: 400,
    detail: 'The path is not well-formed, or has no normal form that all servers agree on.',
  },
  INVALID_HOST: { status: 400, detail: 'The Host is missing, repeated, contradictory, or not a host.' },
  INVALID_HEADER: {
    status: 400,
    detail: 'A header has a name with an underscore, or characters that are not allowed.',
  },
  INVALID_FRAMING: {
    status: 400,
    detail: 'Content-Length and Transfer-Encoding leave doubt about where the body ends.',
  },
  AMBIGUOUS_BODY: {
    status: 400,
    detail: 'The body says twice, or too late, what requests are counted by, or it is not JSON to its end.',
  },
  INVALID_HANDSHAKE: { status: 400, detail: 'This is not how a WebSocket is opened (RFC 6455 §4.1).' },
  ORIGIN_NOT_ALLOWED: { status: 403, detail: 'Pages of this origin may not open a WebSocket here.' },
  CORS_NOT_ALLOWED: {
    status: 403,
    detail:
      'Pages of this origin may not send this request: not at all, or not with this method or these headers.',
  },
  METHOD_NOT_ALLOWED: { status: 405, detail: 'This gateway does not forward this method.' },
  HEADER_TIMEOUT: { status: 408, detail: 'The headers took too long to arrive.' },
  BODY_TIMEOUT: { status: 408, detail: 'The body took too long to arrive.' },
  BODY_TOO_LARGE: { status: 413, detail: 'The body is larger than this gateway forwards.' },
  URI_TOO_LONG: { status: 414, detail: 'The path and query are longer than this gateway reads.' },
  EXPECTATION_FAILED: { status: 417, detail: 'Only "Expect: 100-continue" can be met.' },
  TOO_MANY_REQUESTS_OF_CLIENT: { status: 429, detail: 'You have as many requests in flight as you may.' },
  TOO_MANY_TUNNELS: { status: 429, detail: 'You have as many WebSockets open as you may.' },
  HEADERS_TOO_LARGE: {
    status: 431,
    detail: 'There are more headers, or larger ones, than this gateway reads.',
  },
  GATE_FAILED: { status: 500, detail: 'The gateway could not decide about this request.' },
  UPGRADE_NOT_SUPPORTED: { status: 501, detail: 'This gateway does not open tunnels.' },
  UPSTREAM_UNREACHABLE: { status: 502, detail: 'The service behind the gateway could not be reached.' },
  UPSTREAM_BROKEN: {
    status: 502,
    detail: 'The service behind the gateway broke off, or did not answer as its protocol wants it.',
  },
  NO_BACKEND: { status: 502, detail: 'The configuration of the gateway names no service for this request.' },
  NO_UPSTREAM: { status: 503, detail: 'No server of the service behind the gateway is healthy.' },
  TOO_MANY_REQUESTS_UNDER_WAY: {
    status: 503,
    detail: 'The gateway has as many requests under way as it may.',
  },
  MAINTENANCE: { status: 503, detail: 'The service is closed for maintenance.' },
  AUTHORIZATION_UNAVAILABLE: {
    status: 503,
    detail: 'Whether this request may pass cannot be found out at the moment.',
  },
  SHUTTING_DOWN: { status: 503, detail: 'The gateway is shutting down and opens no tunnels.' },
  UPSTREAM_BUSY: { status: 503, detail: 'Too many requests wait for the service behind the gateway.' },
  UPSTREAM_TIMEOUT: { status: 504, detail: 'The service behind the gateway did not answer in time.' },
  REQUEST_TIMEOUT: { status: 504, detail: 'The request took longer altogether than it may.' },
  LOOP_DETECTED: { status: 508, detail: 'The request came back to the gateway that forwarded it.' },
} as const satisfies Readonly<Record<(typeof GATEWAY_ERROR_CODES)[number], GatewayError>>;

export type GatewayErrorCode = keyof typeof GATEWAY_ERRORS;

/** 400, 405, 414, 417, 431: nobody could have served it. */
const MALFORMED: ReadonlySet<number> = new Set([400, 405, 414, 417, 431]);

/** The request itself is wrong, whatever the load and the limits are. */
export function isMalformed(code: GatewayErrorCode): boolean {
  return MALFORMED.has(GATEWAY_ERRORS[code].status);
}

/** Of the answers that say in JSON what is wrong. */
export const PROBLEM_TYPE = 'application/problem+json';

export interface AnswerText {
  readonly status: number;
  readonly headers: string[];
  readonly body: string;
}

export interface ErrorAnswerOptions {
  readonly grpc?: boolean | undefined;
  /** Of the ruling, if there was one. */
  readonly ruling?: RuleOutcome | undefined;
}

/** RFC 9457, or what a gRPC client understands. Who was admitted was charged, and hears how much is left. */
export function errorAnswer(
  code: GatewayErrorCode,
  requestId: string,
  options: ErrorAnswerOptions = {},
): AnswerText {
  const { grpc = false, ruling } = options;
  const { status, detail } = GATEWAY_ERRORS[code];
  const limits = ruling?.admitted === true ? flat(ruling.headers) : [];
  if (grpc) return grpcAnswer(status, `${code}: ${detail}`, limits);
  const problem = { ...plainProblem(status, detail), title: STATUS_CODES[status], code, requestId };
  return {
    status,
    headers: ['Content-Type', PROBLEM_TYPE, ...limits],
    body: JSON.stringify(problem),
  };
}

/** What a refused request gets. */
export function refusalText({ problem, headers }: Refusal, requestId: string, grpc: boolean): AnswerText {
  if (grpc) return grpcAnswer(problem.status, problem.detail, flat(headers));
  return {
    status: problem.status,
    headers: [...flat(headers), 'Content-Type', PROBLEM_TYPE],
    body: JSON.stringify({ ...problem, requestId }),
  };
}

/** What a request gets that the authorization service refuses. */
export function unauthorizedText(
  {
    status,
    headers,
    body,
  }: { readonly status: number; readonly headers: readonly string[]; readonly body: string },
  grpc: boolean,
): AnswerText {
  const detail = 'You may not send this request.';
  if (grpc) return grpcAnswer(status, detail, []);
  if (body !== '') return { status, headers: [...headers], body };
  const problem = { ...plainProblem(status, detail), title: STATUS_CODES[status] };
  return {
    status,
    headers: [...headers, 'Content-Type', PROBLEM_TYPE],
    body: JSON.stringify(problem),
  };
}

function flat(pairs: readonly HeaderPair[]): string[] {
  const headers: string[] = [];
  for (const [name, value] of pairs) headers.push(name, value);
  return headers;
}

/**
 * https://github.com/grpc/grpc/blob/master/doc/http-grpc-status-mapping.md, but 429 says that something is exhausted.
 */
const GRPC_STATUS: ReadonlyMap<number, number> = new Map([
  [400, 13],
  [401, 16],
  [403, 7],
  [404, 12],
  [408, 4],
  [413, 8],
  [429, 8],
  [431, 8],
  [500, 13],
  [501, 12],
  [504, 4],
]);
const GRPC_UNAVAILABLE = 14;
const GRPC_UNKNOWN = 2;

const NOT_IN_GRPC_MESSAGE = /[^ -$&-~]+/gu;

/** As `grpc-message` carries it. */
export function grpcMessage(text: string): string {
  return text.replace(NOT_IN_GRPC_MESSAGE, encodeURIComponent);
}

/** Trailers only: https://github.com/grpc/grpc/blob/master/doc/PROTOCOL-HTTP2.md#responses */
export function grpcAnswer(status: number, message: string, headers: readonly string[]): AnswerText {
  const grpcStatus = GRPC_STATUS.get(status) ?? (status >= 500 ? GRPC_UNAVAILABLE : GRPC_UNKNOWN);
  return {
    status: 200,
    headers: [
      'content-type',
      'application/grpc',
      'grpc-status',
      String(grpcStatus),
      'grpc-message',
      grpcMessage(message),
      ...headers,
    ],
    body: '',
  };
}

/**
 * A whole HTTP/1.1 message, for connections that have no response object; the connection ends after it. In bytes,
 * because the body is UTF-8 and headers are not.
 */
export function rawResponse({ status, headers, body }: AnswerText): Buffer {
  let head = `HTTP/1.1 ${status} ${STATUS_CODES[status] ?? ''}\r\nDate: ${new Date().toUTCString()}\r\nConnection: close\r\n`;
  for (let at = 0; at < headers.length; at += 2) head += `${headers[at]}: ${headers[at + 1]}\r\n`;
  const bytes = Buffer.from(body);
  if (status !== 204) head += `Content-Length: ${bytes.length}\r\n`;
  return Buffer.concat([Buffer.from(`${head}\r\n`, 'latin1'), bytes]);
}
