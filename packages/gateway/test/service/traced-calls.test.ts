// Calls of the service in the traces of those who ask, as a collector sees them.
import { expect, test } from 'vitest';
import { PATIENCE_MS } from '../../../../test/patience.ts';
import { messageNamed } from '../../src/service/wire/proto-registry.ts';
import { startTraceCollector, type CollectedSpan } from '../telemetry/trace-collector.ts';
import { askRls, callGrpc, descriptor } from './rls-client.ts';
import { startTestService, type TestService } from './running-service.ts';

const TRACE_ID = '4bf92f3577b34da6a3ce929d0e0e4736';
const CALLER = '00f067aa0ba902b7';
const traceparent = `00-${TRACE_ID}-${CALLER}-01`;

const LIMITS = `
server: { client_address: { trusted_proxies: [loopback] } }
rate_limit:
  policies: { api: { algorithm: fixedWindow, quota: 1, window: 365d } }
  rules: [{ name: all, match: { path: "/**" }, policies: [api] }]
service: { rls: { descriptors: [{ domain: shop, entries: [{ key: user }], policies: [api] }] } }
`;

const RLS = 'envoy.service.ratelimit.v3.RateLimitService';
const AUTHORIZATION = 'envoy.service.auth.v3.Authorization';

/** A call twice: admitted, then denied. */
interface TracedWay {
  readonly name: string;
  readonly ask: (service: TestService) => Promise<unknown>;
  readonly span: string;
  readonly attributes: readonly [admitted: object, denied: object];
}

const asked = (service: TestService, headers: object, described: object): Promise<unknown> =>
  callGrpc({
    port: service.port,
    method: `${AUTHORIZATION}/Check`,
    input: messageNamed('envoy.service.auth.v3.CheckRequest'),
    output: messageNamed('envoy.service.auth.v3.CheckResponse'),
    metadata: { ...headers },
    fields: {
      attributes: {
        source: { address: { socketAddress: { address: '203.0.113.7', portValue: 4711 } } },
        request: { http: { method: 'GET', path: '/a', host: 'a', scheme: 'http', headers: described } },
      },
    },
  });

const OF_GRPC = { 'rpc.system': 'grpc', 'rpc.grpc.status_code': 0, 'spillgate.checks': 1 };
const ofHttp = (method: string, route: string, status: number): object => ({
  'http.request.method': method,
  'http.route': route,
  'http.response.status_code': status,
  'spillgate.checks': 1,
});

const AUTHORIZED = { ...OF_GRPC, 'rpc.service': AUTHORIZATION, 'rpc.method': 'Check' };
const LIMITED = { ...OF_GRPC, 'rpc.service': RLS, 'rpc.method': 'ShouldRateLimit' };

const WAYS: readonly TracedWay[] = [
  {
    name: 'ShouldRateLimit',
    ask: ({ port }) => askRls(port, { descriptors: [descriptor('user=ann')], metadata: { traceparent } }),
    span: `${RLS}/ShouldRateLimit`,
    attributes: [LIMITED, LIMITED],
  },
  {
    // Not the way that most of these calls take.
    name: 'ShouldRateLimit, compressed',
    ask: ({ port }) =>
      askRls(port, {
        descriptors: [descriptor('user=ann')],
        metadata: { traceparent },
        compressed: true,
      }),
    span: `${RLS}/ShouldRateLimit`,
    attributes: [LIMITED, LIMITED],
  },
  {
    name: 'POST /v1/check',
    ask: (service) => service.post('/v1/check', { policy: 'api', key: 'ann' }, { traceparent }),
    span: 'POST /v1/check',
    attributes: [ofHttp('POST', '/v1/check', 200), ofHttp('POST', '/v1/check', 200)],
  },
  {
    name: 'POST /json',
    ask: (service) =>
      service.post('/json', { domain: 'shop', descriptors: [descriptor('user=ann')] }, { traceparent }),
    span: 'POST /json',
    attributes: [ofHttp('POST', '/json', 200), ofHttp('POST', '/json', 429)],
  },
  {
    name: 'forward auth',
    ask: (service) =>
      service.ask('/v1/forward-auth', {
        headers: {
          'x-forwarded-method': 'GET',
          'x-forwarded-uri': '/a',
          'x-forwarded-host': 'a',
          'x-forwarded-for': '203.0.113.7',
          traceparent,
        },
      }),
    span: 'GET /v1/forward-auth',
    attributes: [ofHttp('GET', '/v1/forward-auth', 200), ofHttp('GET', '/v1/forward-auth', 429)],
  },
  {
    name: 'ext_authz over HTTP',
    ask: (service) =>
      service.ask('/v1/ext-authz/a', { headers: { 'x-forwarded-for': '203.0.113.7', traceparent } }),
    span: 'GET /v1/ext-authz',
    attributes: [ofHttp('GET', '/v1/ext-authz', 200), ofHttp('GET', '/v1/ext-authz', 429)],
  },
  {
    name: 'ext_authz over gRPC, in the trace of the proxy',
    ask: (service) => asked(service, { traceparent }, { traceparent: `00-${'1'.repeat(32)}-${CALLER}-01` }),
    span: `${AUTHORIZATION}/Check`,
    attributes: [AUTHORIZED, AUTHORIZED],
  },
  {
    name: 'ext_authz over gRPC, in the trace of the request where the proxy has none',
    ask: (service) => asked(service, {}, { traceparent }),
    span: `${AUTHORIZATION}/Check`,
    attributes: [AUTHORIZED, AUTHORIZED],
  },
];

async function startTraced(config = LIMITS) {
  const collector = await startTraceCollector();
  // Only what a caller traces.
  const tracing = `tracing: { enabled: true, endpoint: "${collector.url}", sample_rate: 0 }`;
  const service = await startTestService(`${tracing}\n${config}`);
  /** All of them, in the order in which the calls ended. */
  const spans = async (count: number): Promise<readonly CollectedSpan[]> => {
    await expect.poll(() => collector.spans.length, { timeout: PATIENCE_MS }).toBe(count);
    return collector.spans;
  };
  return { service, spans };
}

test.each(WAYS)('$name', async ({ ask, span, attributes: [admitted, denied] }) => {
  const { service, spans } = await startTraced();

  await ask(service);
  await ask(service);

  const ofCaller = { name: span, traceId: TRACE_ID, parentSpanId: CALLER };
  expect(await spans(2)).toEqual([
    expect.objectContaining({ ...ofCaller, attributes: { ...admitted, 'spillgate.denied': 0 } }),
    expect.objectContaining({ ...ofCaller, attributes: { ...denied, 'spillgate.denied': 1 } }),
  ]);
});

test('a batch is one span, with how many of its checks were denied', async () => {
  const { service, spans } = await startTraced();
  const check = { policy: 'api', key: 'ann' };

  await service.post('/v1/check', { checks: [check, check, check] }, { traceparent });

  expect((await spans(1))[0]?.attributes).toMatchObject({ 'spillgate.checks': 3, 'spillgate.denied': 2 });
});

test('a call that the service cannot answer is an error in the trace, a mistake of the caller is not', async () => {
  const { service, spans } = await startTraced(
    `${LIMITS}\nredis: { endpoints: ["127.0.0.1:1"], dial_timeout: 100ms }`.replace(
      'rate_limit:',
      'rate_limit:\n  failure_policy: failClosed',
    ),
  );

  await askRls(service.port, { descriptors: [descriptor('user=ann')], metadata: { traceparent } });
  await askRls(service.port, { descriptors: [], metadata: { traceparent } });

  const ends = (await spans(2)).map(({ attributes, statusCode }) => [
    attributes['rpc.grpc.status_code'],
    statusCode,
  ]);
  expect(ends).toEqual([
    [14, 2],
    [3, 0],
  ]);
});

test('probes, callers without the token and calls that nobody traces leave no span', async () => {
  const { service, spans } = await startTraced(
    LIMITS.replace('service: {', 'service: { token: correct-horse-battery,'),
  );
  const check = { policy: 'api', key: 'ann' };
  const authorization = 'Bearer correct-horse-battery';

  await service.ask('/healthcheck', { headers: { traceparent } });
  await service.post('/v1/check', check, { traceparent });
  await askRls(service.port, { descriptors: [descriptor('user=ann')], metadata: { traceparent } });
  await service.post('/v1/check', check, { authorization });
  await service.post('/v1/peek', check, { authorization, traceparent });

  expect((await spans(1)).map(({ name }) => name)).toEqual(['POST /v1/peek']);
});
