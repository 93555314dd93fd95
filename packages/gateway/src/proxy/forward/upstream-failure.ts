import type { AnswerCode } from '../answers.ts';

const UNREACHABLE: ReadonlySet<string> = new Set([
  'ECONNREFUSED',
  'ENOTFOUND',
  'EAI_AGAIN',
  'EHOSTUNREACH',
  'ENETUNREACH',
  'EADDRNOTAVAIL',
  'ENOENT',
  'ADDRESS_FORBIDDEN',
  'POOL_CLOSED',
]);
const TIMEOUTS: ReadonlySet<string> = new Set([
  'CONNECT_TIMEOUT',
  'HEADERS_TIMEOUT',
  'BODY_TIMEOUT',
  'ETIMEDOUT',
]);
/** The connection broke, and another one may hold. */
const BROKEN_CONNECTION: ReadonlySet<string> = new Set([
  'ECONNRESET',
  'EPIPE',
  'ECONNREFUSED',
  'CONNECTION_LOST',
]);

function codeOf(error: unknown): string {
  return typeof error === 'object' && error !== null && 'code' in error ? String(error.code) : '';
}

/** What the client is told about an upstream that failed before its answer began. */
export function answerFor(error: unknown): AnswerCode {
  const code = codeOf(error);
  if (TIMEOUTS.has(code)) return 'UPSTREAM_TIMEOUT';
  if (code === 'QUEUE_FULL') return 'UPSTREAM_BUSY';
  return UNREACHABLE.has(code) ? 'UPSTREAM_UNREACHABLE' : 'UPSTREAM_BROKEN';
}

/** RFC 9110 §9.2.2. */
const IDEMPOTENT: ReadonlySet<string> = new Set(['GET', 'HEAD', 'OPTIONS', 'PUT', 'DELETE']);

/** Whether the same request may be sent again after this. */
export function mayTryAgain(method: string, error: unknown): boolean {
  return IDEMPOTENT.has(method) && BROKEN_CONNECTION.has(codeOf(error));
}
