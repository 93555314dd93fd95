import type { FinishedRequest } from './traffic.ts';

/** What a tracer looks at; the facts that rules see are more than that. */
export interface TracedRequest {
  readonly id: string;
  readonly method: string;
  readonly scheme: 'http' | 'https';
  readonly host: string;
  readonly path: string;
  readonly headers: { lines(name: string): readonly string[] };
}

/**
 * Follows requests through the gateway. Where nothing is traced there is no tracer at all: then the headers of the
 * client pass as they are. It never throws.
 */
export interface Tracer {
  /** A request has arrived. */
  start(request: TracedRequest): RequestTrace;
  /** Sends what is left. */
  close(): Promise<void>;
}

export interface RequestTrace {
  /** 32 hexadecimal digits, for logs: the client's own where it sent one. */
  readonly traceId: string;
  /** The request goes to a server; call it again for another try. */
  upstream(origin: string): UpstreamTrace;
  /** After the response, or what became of it. */
  end(request: FinishedRequest): void;
}

export interface UpstreamTrace {
  /** `traceparent`, and `tracestate` if there is one: they replace what the client sent under these names. */
  readonly headers: readonly (readonly [name: string, value: string])[];
  /** The headers of the response have arrived, or why they never will. */
  end(result: { readonly status: number } | { readonly error: string }): void;
}

/** Headers of the client that a tracer replaces. */
export const TRACE_HEADERS: readonly string[] = ['traceparent', 'tracestate'];
