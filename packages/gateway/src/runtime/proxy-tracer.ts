import type { Tracer as ProxyTracer } from '../proxy/context.ts';
import type { Tracer, UpstreamTrace } from '../telemetry/tracing.ts';

/** The tracer as the proxy calls it. The span of the upstream begins when the proxy asks what to send along. */
export function proxyTracer(tracer: Tracer, upstreamOrigin: () => string): ProxyTracer {
  return (facts) => {
    const trace = tracer.start(facts);
    let upstream: UpstreamTrace | undefined;
    return {
      traceId: trace.traceId,
      get headers() {
        upstream ??= trace.upstream(upstreamOrigin());
        return upstream.headers;
      },
      end(request) {
        const { outcome, status, reason = outcome } = request;
        upstream?.end(outcome === 'forwarded' && status !== undefined ? { status } : { error: reason });
        trace.end(request);
      },
    };
  };
}
