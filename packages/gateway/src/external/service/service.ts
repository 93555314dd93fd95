import { readFileSync } from 'node:fs';
import type { Config } from '../../config/config.ts';
import type { ClientTls } from '../../http-client/index.ts';
import type { CacheHeaders } from '../freshness.ts';

/** What is sent to the service. */
export interface ServiceRequest {
  readonly key: string;
  readonly headers: Readonly<Record<string, string>>;
  /** Empty if it is not sent. */
  readonly method: string;
  readonly path: string;
}

export interface ServiceAnswer {
  /** With the documented names; not checked yet. */
  readonly value: unknown;
  /** Undefined where the protocol has none. */
  readonly cacheHeaders: CacheHeaders | undefined;
}

interface AskOptions {
  /** Ends the call; the client's own going away is never passed on. */
  readonly signal: AbortSignal;
  readonly timeoutMs: number;
}

/** A header that authenticates the gateway to the service. */
export interface ServiceAuth {
  readonly header: string;
  readonly value: string;
}

/** Asks the service over one protocol. */
export interface ServiceClient {
  /** Which service this is: answers of one are never taken for another's. */
  readonly id: string;
  /** Rejects with a `ServiceFailure`. */
  ask(request: ServiceRequest, options: AskOptions): Promise<ServiceAnswer>;
  close(): Promise<void>;
}

export type FailureReason =
  /** Nothing, or not everything, came in time. */
  | 'timeout'
  /** No connection, or it broke. */
  | 'unreachable'
  /** A status other than 200. */
  | 'status'
  /** 429: asked too often. */
  | 'rateLimited'
  /** 404: the service works, and does not know the key. */
  | 'unknownKey'
  | 'tooLarge'
  /** Not what the contract says. */
  | 'invalid';

interface FailureDetail extends ErrorOptions {
  readonly retryAfterMs?: number;
  readonly isOutage?: boolean;
}

const OUTAGES: readonly FailureReason[] = ['timeout', 'unreachable', 'status', 'rateLimited'];

export class ServiceFailure extends Error {
  readonly reason: FailureReason;
  /** The service does not want to be asked for so long. */
  readonly retryAfterMs: number;
  /** It says something about the service, not only about this one question. */
  readonly isOutage: boolean;

  constructor(reason: FailureReason, message: string, detail: FailureDetail = {}) {
    super(message, detail);
    this.name = 'ServiceFailure';
    this.reason = reason;
    this.retryAfterMs = detail.retryAfterMs ?? 0;
    this.isOutage = detail.isOutage ?? OUTAGES.includes(reason);
  }
}

/** An hour: whatever a service says, it is asked again some time. */
const MAX_RETRY_AFTER_MS = 3_600_000;

/** `Retry-After` in seconds or as a date (RFC 9110 §10.2.3); 0 if it says nothing. */
export function retryAfterMs(value: string | null | undefined, nowMs: number): number {
  if (value === null || value === undefined) return 0;
  const text = value.trim();
  const ms = /^\d{1,10}$/.test(text) ? Number(text) * 1000 : Date.parse(text) - nowMs;
  return ms > 0 ? Math.min(ms, MAX_RETRY_AFTER_MS) : 0;
}

type ClientTlsConfig = NonNullable<Config['rate_limit']['external']['http']>['tls'];

/** What a connection to the service is opened with. Throws if a file cannot be read. */
export function tlsOptions(tls: ClientTlsConfig): ClientTls {
  return {
    ...(tls.ca_file === undefined ? {} : { ca: readFileSync(tls.ca_file) }),
    ...(tls.cert_file === undefined ? {} : { cert: readFileSync(tls.cert_file) }),
    ...(tls.key_file === undefined ? {} : { key: readFileSync(tls.key_file) }),
    ...(tls.server_name === undefined ? {} : { servername: tls.server_name }),
    rejectUnauthorized: !tls.insecure_skip_verify,
  };
}
