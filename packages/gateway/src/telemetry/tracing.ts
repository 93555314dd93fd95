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
export interface RequestTracer {
  /** A request has arrived. */
  readonly start: (request: TracedRequest) => RequestTrace;
  /** A call of the decision service has arrived. */
  readonly startCall: (call: TracedCall) => CallTrace;
  /** Resolves as soon as no request or call that it follows is open. */
  readonly idle: () => Promise<void>;
  /** Sends what is left, for a bounded time. Once is enough, and more does no harm. */
  readonly close: () => Promise<void>;
}

export interface RequestTrace {
  /** 32 hexadecimal digits, for logs: the client's own where it sent one. */
  readonly traceId: string;
  /**
   * `traceparent`, and `tracestate` if there is one: they replace what the client sent under these names. Read them
   * when the request goes to a server, and only then: that begins the part of the trace which is the server's.
   */
  readonly headers: readonly (readonly [name: string, value: string])[];
  /** After the response, or what became of it. */
  end(request: FinishedRequest): void;
}

/** A call of the decision service. */
export interface TracedCall {
  /** The method and the path of an endpoint (`POST /v1/check`), or a service of gRPC with its method. */
  readonly name: string;
  readonly protocol: 'http' | 'grpc';
  /** Those of the caller: where it is part of a trace, the call is, too. */
  readonly headers: { lines(name: string): readonly string[] };
}

export interface CallTrace {
  end(call: FinishedCall): void;
}

export interface FinishedCall {
  /** Of the protocol. */
  readonly status: number;
  /** What was decided; undefined: nothing. */
  readonly decided?: DecidedCount | undefined;
}

/** How many checks one call had, and how many of them were denied. */
export interface DecidedCount {
  readonly checks: number;
  readonly denied: number;
}

// https://www.w3.org/TR/trace-context/

export interface TraceContext {
  readonly traceId: string;
  readonly spanId: string;
  readonly sampled: boolean;
}

const TRACEPARENT = /^([\da-f]{2})-([\da-f]{32})-([\da-f]{16})-([\da-f]{2})(-.*)?$/;
const NO_TRACE = '0'.repeat(32);
const NO_SPAN = '0'.repeat(16);
const MAX_TRACEPARENT_LENGTH = 256;
const MAX_TRACESTATE_LENGTH = 512;
const TRACESTATE = /^[\x20-\x7e\t]*$/;

/** What the client says it is part of; undefined when it says nothing that can be used. */
export function parseTraceparent(lines: readonly string[]): TraceContext | undefined {
  const [line = '', second] = lines;
  if (second !== undefined || line.length > MAX_TRACEPARENT_LENGTH) return undefined;
  const [, version, traceId = NO_TRACE, spanId = NO_SPAN, flags = '00', more] = TRACEPARENT.exec(line) ?? [];
  if (traceId === NO_TRACE || spanId === NO_SPAN || version === 'ff') return undefined;
  // Only versions to come may say more.
  if (version === '00' && more !== undefined) return undefined;
  return { traceId, spanId, sampled: (Number.parseInt(flags, 16) & 1) === 1 };
}

/** Passed on as it is; undefined when it is empty, too long or no header value. */
export function tracestateOf(lines: readonly string[]): string | undefined {
  const state = lines.filter((line) => line !== '').join(',');
  return state !== '' && state.length <= MAX_TRACESTATE_LENGTH && TRACESTATE.test(state) ? state : undefined;
}

export function formatTraceparent({ traceId, spanId, sampled }: TraceContext): string {
  return `00-${traceId}-${spanId}-${sampled ? '01' : '00'}`;
}
