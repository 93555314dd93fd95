// Import this file only when tracing is on: it loads the SDK.
import { setTimeout as pause } from 'node:timers/promises';
import {
  ROOT_CONTEXT,
  SpanKind,
  SpanStatusCode,
  trace,
  TraceFlags,
  type Context,
  type Span,
  type Tracer as ApiTracer,
} from '@opentelemetry/api';
import { OTLPTraceExporter } from '@opentelemetry/exporter-trace-otlp-http';
import { resourceFromAttributes } from '@opentelemetry/resources';
import {
  BatchSpanProcessor,
  ParentBasedSampler,
  TraceIdRatioBasedSampler,
  TracerProvider,
  type SpanExporter,
} from '@opentelemetry/sdk-trace';
import type { Config } from '../config/config.ts';
import type { Log } from './log.ts';
import { formatTraceparent, parseTraceparent, tracestateOf } from './tracing.ts';
import type {
  CallTrace,
  FinishedCall,
  RequestTrace,
  RequestTracer,
  TracedCall,
  TracedRequest,
} from './tracing.ts';
import type { FinishedRequest } from './traffic.ts';

const MAX_QUEUED_SPANS = 2048;
const MAX_BATCH_SPANS = 512;
const BATCH_DELAY_MS = 1000;
const EXPORT_TIMEOUT_MS = 10_000;
const CLOSE_WITHIN_MS = 2000;
const MAX_ATTRIBUTE_LENGTH = 1024;
const COMPLAINT_INTERVAL_MS = 60_000;
const TRACES_PATH = '/v1/traces';
/** Anything else is a word that a client chose, and a span's name has few values. */
const KNOWN_METHODS: ReadonlySet<string> = new Set([
  'GET',
  'HEAD',
  'POST',
  'PUT',
  'PATCH',
  'DELETE',
  'OPTIONS',
  'CONNECT',
  'TRACE',
]);

export interface TracerParts {
  readonly config: Config['tracing'];
  readonly version: string;
  readonly log: Log;
  /** Where spans go instead of `config.endpoint`. */
  readonly exporter?: SpanExporter;
}

/** Spans for OpenTelemetry: one per request, one inside it per request to a server, and one per call of the service. */
export function otlpTracer({
  config,
  version,
  log,
  exporter = exporterFor(config),
}: TracerParts): RequestTracer {
  const provider = new TracerProvider({
    resource: resourceFromAttributes({ 'service.name': config.service_name, 'service.version': version }),
    sampler: new ParentBasedSampler({ root: new TraceIdRatioBasedSampler(config.sample_rate) }),
    spanLimits: { attributeValueLengthLimit: MAX_ATTRIBUTE_LENGTH },
    spanProcessors: [
      new BatchSpanProcessor({
        exporter: complaining(exporter, log),
        maxQueueSize: MAX_QUEUED_SPANS,
        maxExportBatchSize: MAX_BATCH_SPANS,
        scheduledDelayMillis: BATCH_DELAY_MS,
        exportTimeoutMillis: EXPORT_TIMEOUT_MS,
      }),
    ],
  });
  const tracer = provider.getTracer('spillgate', version);
  const open = new OpenTraces();
  const end = async (): Promise<void> => {
    const timer = new AbortController();
    const shutdown = provider.shutdown().catch((error: unknown) => {
      log.warn({ error: String(error) }, 'the last traces were not sent');
    });
    // A collector that does not answer must not keep a gateway from ending.
    const enough = pause(CLOSE_WITHIN_MS, undefined, { signal: timer.signal }).catch(() => undefined);
    await Promise.race([shutdown, enough]);
    timer.abort();
  };
  let ended: Promise<void> | undefined;
  return {
    start: (request) => {
      open.begin();
      return new TracedPassage(tracer, request, open);
    },
    startCall: (call) => {
      open.begin();
      return tracedCall(tracer, call, open);
    },
    idle: async () => open.idle(),
    close: async () => {
      ended ??= end();
      await ended;
    },
  };
}

/** How many requests are followed. */
class OpenTraces {
  private count = 0;
  private readonly idleListeners: (() => void)[] = [];

  begin(): void {
    this.count += 1;
  }

  end(): void {
    this.count -= 1;
    if (this.count === 0) for (const tell of this.idleListeners.splice(0)) tell();
  }

  async idle(): Promise<void> {
    if (this.count === 0) return;
    await new Promise<void>((resolve) => {
      this.idleListeners.push(resolve);
    });
  }
}

/** A request in the gateway, and inside that the time in which it was a server's. */
class TracedPassage implements RequestTrace {
  readonly traceId: string;
  private readonly tracer: ApiTracer;
  private readonly open: OpenTraces;
  private readonly name: string;
  private readonly span: Span;
  private readonly tracestate: string | undefined;
  private upstreamSpan: Span | undefined;

  constructor(tracer: ApiTracer, request: TracedRequest, open: OpenTraces) {
    const { context, tracestate } = parentOf(request);
    this.tracer = tracer;
    this.open = open;
    this.name = nameOf(request.method);
    this.tracestate = tracestate;
    this.span = tracer.startSpan(
      this.name,
      { kind: SpanKind.SERVER, attributes: requestAttributes(request) },
      context,
    );
    this.traceId = this.span.spanContext().traceId;
  }

  get headers(): RequestTrace['headers'] {
    this.upstreamSpan ??= this.tracer.startSpan(
      this.name,
      { kind: SpanKind.CLIENT, attributes: { 'http.request.method': this.name } },
      trace.setSpan(ROOT_CONTEXT, this.span),
    );
    const { traceId, spanId, traceFlags } = this.upstreamSpan.spanContext();
    const sampled = (traceFlags & TraceFlags.SAMPLED) !== 0;
    const traceparent = ['traceparent', formatTraceparent({ traceId, spanId, sampled })] as const;
    return this.tracestate === undefined ? [traceparent] : [traceparent, ['tracestate', this.tracestate]];
  }

  end(request: FinishedRequest): void {
    if (this.upstreamSpan !== undefined) endUpstreamSpan(this.upstreamSpan, request);
    endServerSpan(this.span, request);
    this.open.end();
  }
}

/** A call of the decision service. */
function tracedCall(tracer: ApiTracer, call: TracedCall, open: OpenTraces): CallTrace {
  const { context } = parentOf(call);
  const { name, attributes } = callDescription(call);
  const span = tracer.startSpan(name, { kind: SpanKind.SERVER, attributes }, context);
  return {
    end: (finished) => {
      if (span.isRecording()) describeCall(span, call, finished);
      span.end();
      open.end();
    },
  };
}

/** Codes of gRPC that are failures of the server, not of its caller: UNKNOWN, UNIMPLEMENTED, INTERNAL, UNAVAILABLE. */
const FAILED_RPC: ReadonlySet<number> = new Set([2, 12, 13, 14]);

function describeCall(span: Span, { protocol }: TracedCall, { status, decided }: FinishedCall): void {
  span.setAttribute(protocol === 'http' ? 'http.response.status_code' : 'rpc.grpc.status_code', status);
  if (decided !== undefined) {
    span.setAttributes({ 'spillgate.checks': decided.checks, 'spillgate.denied': decided.denied });
  }
  if (protocol === 'http' ? status >= 500 : FAILED_RPC.has(status)) fail(span, String(status));
}

function callDescription({ name, protocol }: TracedCall): {
  name: string;
  attributes: Record<string, string>;
} {
  if (protocol === 'http') {
    const [method = '', route = ''] = name.split(' ');
    const known = nameOf(method);
    return {
      name: `${known} ${route}`,
      attributes: { 'http.request.method': known, 'http.route': route },
    };
  }
  const [service = '', method = ''] = name.split('/');
  return { name, attributes: { 'rpc.system': 'grpc', 'rpc.service': service, 'rpc.method': method } };
}

function endUpstreamSpan(span: Span, { outcome, reason, status, upstream }: FinishedRequest): void {
  if (span.isRecording()) {
    if (upstream !== undefined) span.setAttributes(upstreamAttributes(upstream));
    if (outcome === 'forwarded' && status !== undefined) {
      span.setAttribute('http.response.status_code', status);
      // For the client every status of 400 and above is a failure; for the server only 500 and above.
      if (status >= 400) fail(span, String(status));
    } else {
      fail(span, reason ?? outcome);
    }
  }
  span.end();
}

function exporterFor({ endpoint }: Config['tracing']): SpanExporter {
  return new OTLPTraceExporter({
    ...(endpoint === undefined ? {} : { url: tracesUrl(endpoint) }),
    timeoutMillis: EXPORT_TIMEOUT_MS,
    concurrencyLimit: 2,
  });
}

/** Collectors are named by their origin as often as by the full address. */
export function tracesUrl(endpoint: string): string {
  const url = new URL(endpoint);
  if (url.pathname === '/') url.pathname = TRACES_PATH;
  return url.href;
}

/** Says that spans are lost, and not more than once a minute. */
function complaining(exporter: SpanExporter, log: Log): SpanExporter {
  let saidMs = -Infinity;
  return {
    export(spans, done) {
      exporter.export(spans, (result) => {
        const nowMs = performance.now();
        if (result.error !== undefined && nowMs - saidMs >= COMPLAINT_INTERVAL_MS) {
          saidMs = nowMs;
          log.warn({ error: result.error.message, spans: spans.length }, 'traces were not taken');
        }
        done(result);
      });
    },
    forceFlush: async () => exporter.forceFlush?.(),
    shutdown: () => exporter.shutdown(),
  };
}

function parentOf({ headers }: Pick<TracedRequest, 'headers'>): {
  context: Context;
  tracestate: string | undefined;
} {
  const parent = parseTraceparent(headers.lines('traceparent'));
  if (parent === undefined) return { context: ROOT_CONTEXT, tracestate: undefined };
  const { traceId, spanId, sampled } = parent;
  const traceFlags = sampled ? TraceFlags.SAMPLED : TraceFlags.NONE;
  return {
    context: trace.setSpanContext(ROOT_CONTEXT, { traceId, spanId, traceFlags, isRemote: true }),
    tracestate: tracestateOf(headers.lines('tracestate')),
  };
}

function endServerSpan(span: Span, request: FinishedRequest): void {
  const { outcome, reason, status, rule, protocol, clientAddress } = request;
  if (span.isRecording()) {
    span.setAttributes({
      'spillgate.outcome': outcome,
      'network.protocol.version': protocol.replace(/^HTTP\//, ''),
      ...(status === undefined ? {} : { 'http.response.status_code': status }),
      ...(rule === undefined ? {} : { 'spillgate.rule': rule }),
      ...(clientAddress === undefined ? {} : { 'client.address': clientAddress }),
    });
    const failed = outcome === 'failed' || (status !== undefined && status >= 500);
    if (failed) fail(span, reason ?? String(status));
  }
  span.end();
}

function fail(span: Span, why: string): void {
  span.setAttribute('error.type', why);
  span.setStatus({ code: SpanStatusCode.ERROR });
}

function requestAttributes({ id, method, scheme, host, path }: TracedRequest): Record<string, string> {
  return {
    'http.request.method': nameOf(method),
    'url.scheme': scheme,
    'server.address': host,
    'url.path': path,
    'spillgate.request_id': id,
  };
}

function upstreamAttributes(origin: string): Record<string, string | number> {
  if (!URL.canParse(origin)) return { 'server.address': origin };
  const { protocol, hostname, port } = new URL(origin);
  const known = protocol === 'https:' ? 443 : 80;
  return { 'server.address': hostname, 'server.port': port === '' ? known : Number(port) };
}

function nameOf(method: string): string {
  return KNOWN_METHODS.has(method) ? method : 'HTTP';
}
