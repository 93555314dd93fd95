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
  readonly start: (request: TracedRequest) => RequestTrace;
  /** Resolves as soon as no request that it follows is open. */
  readonly idle: () => Promise<void>;
  /** Sends what is left, for a bounded time. Once is enough, and more does no harm. */
  readonly close: () => Promise<void>;
}

export interface RequestTrace {
  /** 32 hexadecimal digits, for logs: the client's own where it sent one. */
  readonly traceId: string;
  /**
   * `traceparent`, and `tracestate` if there is one: they replace what the client sent under these names. Read them when
   * the request goes to a server, and only then: that begins the part of the trace which is the server's.
   */
  readonly headers: readonly (readonly [name: string, value: string])[];
  /** After the response, or what became of it. */
  end(request: FinishedRequest): void;
}
