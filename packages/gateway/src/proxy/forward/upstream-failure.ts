import type { Log } from '../../telemetry/log.ts';
import type { GatewayErrorCode } from '../gateway-errors.ts';

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
export function answerFor(error: unknown): GatewayErrorCode {
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

/** A server that is down fails requests by the thousand; one line per second says enough. */
const QUIET_MS = 1000;
/** Servers that rulings name are as many as there are tenants. */
const MAX_UPSTREAMS = 1000;

export interface FailedAttempt {
  readonly upstream: string;
  readonly requestId: string;
  readonly error: Error;
}

/** Tells the log about servers that fail: in one line, and at most once per second for each. */
export class UpstreamFailureLog {
  private readonly log: Log;
  private readonly nowMs: () => number;
  private readonly said = new Map<string, { readonly atMs: number; unsaid: number }>();

  constructor(log: Log, nowMs: () => number = () => performance.now()) {
    this.log = log;
    this.nowMs = nowMs;
  }

  failed({ upstream, requestId, error }: FailedAttempt): void {
    const atMs = this.nowMs();
    const last = this.said.get(upstream);
    if (last !== undefined && atMs - last.atMs < QUIET_MS) {
      last.unsaid += 1;
      return;
    }
    this.remember(upstream, atMs);
    this.log.warn(
      { upstream, requestId, detail: detailOf(error), unsaid: last?.unsaid ?? 0 },
      'an upstream failed',
    );
  }

  /** In the order in which they were said, so that the one to drop is the first. */
  private remember(upstream: string, atMs: number): void {
    this.said.delete(upstream);
    const [oldest] = this.said.keys();
    if (this.said.size >= MAX_UPSTREAMS && oldest !== undefined) this.said.delete(oldest);
    this.said.set(upstream, { atMs, unsaid: 0 });
  }
}

/** A stack says nothing here: it ends in the pool of connections. */
function detailOf(error: Error): string {
  const first: unknown = error instanceof AggregateError ? error.errors[0] : undefined;
  // A name with several addresses: the first of them says why, and the whole says nothing.
  const { message, name } = error.message === '' && first instanceof Error ? first : error;
  return message === '' ? name : message;
}
