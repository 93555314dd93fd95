import type { CounterName, LabelValues } from './metric-table.ts';

/** What became of a request. */
export type RequestOutcome =
  /** The backend answered. */
  | 'forwarded'
  /** The gateway answered as it is configured to, before any rule: a preflight of CORS. */
  | 'answered'
  /** A rule said no. */
  | 'refused'
  /** The request itself was wrong: 4xx of our own. */
  | 'invalid'
  /** The backend could not answer, or a bound of the gateway was met: 5xx of our own. */
  | 'failed'
  /** The client went away. */
  | 'aborted';

/** One finished request: one line of the access log, one observation of each metric. */
export interface FinishedRequest {
  readonly id: string;
  readonly outcome: RequestOutcome;
  /** Why, where the gateway answered itself: `BODY_TOO_LARGE`, `UPSTREAM_TIMEOUT`, ... */
  readonly reason: string | undefined;
  /** What it showed and why that was not accepted, such as `apiKey expired`. */
  readonly rejected?: string | undefined;
  readonly method: string;
  readonly scheme: 'http' | 'https';
  readonly host: string;
  /** Without query: that may hold secrets. */
  readonly path: string;
  readonly protocol: 'HTTP/1.0' | 'HTTP/1.1' | 'HTTP/2.0' | 'websocket';
  /** Undefined if the client went away before there was one. */
  readonly status: number | undefined;
  readonly clientAddress: string | undefined;
  readonly rule: string | undefined;
  /** Whom it was counted for, by policy; printable, secrets are hashed. */
  readonly counted?: readonly { readonly policy: string; readonly key: string }[] | undefined;
  /** It passed only because what is against it is in shadow mode. */
  readonly shadowDenied: boolean;
  /** The name of the API key that was accepted. */
  readonly apiKey?: string | undefined;
  /** A policy has charged it: not if one refused it, if none counts it, or if it never came to the rules. */
  readonly charged?: boolean | undefined;
  /** What it was charged, where that is not 1, and whether that is an estimate. */
  readonly cost?: { readonly cost: number; readonly estimated: boolean } | undefined;
  readonly upstream: string | undefined;
  readonly bytesReceived: number;
  readonly bytesSent: number;
  readonly durationMs: number;
  /** Until the backend's headers. */
  readonly upstreamMs: number | undefined;
  readonly traceId: string | undefined;
}

/** The setting that a connection would have gone beyond. */
export type ConnectionBound = 'max_connections' | 'max_connections_per_address' | 'max_overhead_per_address';

/** Hears of traffic. It never throws, and never slows a request down for long. */
export interface TrafficListener {
  /** A request has arrived; `finished` follows in any case. */
  started(): void;
  finished(request: FinishedRequest): void;
  connectionOpened(): void;
  connectionClosed(): void;
  tunnelOpened(): void;
  tunnelClosed(): void;
  /** Anything else that is only counted, by its name in the table of metrics. */
  count<Name extends CounterName>(metric: Name, ...labels: LabelValues<Name>): void;
}
