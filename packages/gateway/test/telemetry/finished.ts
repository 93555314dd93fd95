import type { FinishedRequest } from '../../src/telemetry/traffic.ts';

/** A request that went well, as far as a test does not say otherwise. */
export function finished(changes: Partial<FinishedRequest> = {}): FinishedRequest {
  return {
    id: 'request-1',
    outcome: 'forwarded',
    reason: undefined,
    method: 'GET',
    scheme: 'http',
    host: 'api.example',
    path: '/items',
    protocol: 'HTTP/1.1',
    status: 200,
    clientAddress: '203.0.113.7',
    rule: 'items',
    upstream: 'http://10.0.0.1:3000',
    bytesReceived: 0,
    bytesSent: 10,
    durationMs: 12.345678,
    upstreamMs: 10,
    shadowDenied: false,
    traceId: undefined,
    ...changes,
  };
}
