import { createServer } from 'node:http';
import { SpanKind, SpanStatusCode } from '@opentelemetry/api';
import type { ReadableSpan, SpanExporter } from '@opentelemetry/sdk-trace';
import * as fc from 'fast-check';
import { afterEach, describe, expect, test } from 'vitest';
import type { Config } from '../../src/config/config.ts';
import { otlpTracer, tracesUrl } from '../../src/telemetry/otlp-tracer.ts';
import {
  formatTraceparent,
  parseTraceparent,
  tracestateOf,
  type RequestTracer,
} from '../../src/telemetry/tracing.ts';
import { finished } from './finished.ts';

const TRACE_ID = '4bf92f3577b34da6a3ce929d0e0e4736';
const PARENT_ID = '00f067aa0ba902b7';
const SAMPLED = `00-${TRACE_ID}-${PARENT_ID}-01`;
const UNSAMPLED = `00-${TRACE_ID}-${PARENT_ID}-00`;

const tracers: RequestTracer[] = [];

afterEach(async () => {
  await Promise.all(tracers.splice(0).map((tracer) => tracer.close()));
});

interface Traced {
  readonly tracer: RequestTracer;
  readonly warnings: readonly string[];
  /** Ends the tracer; everything it sent. */
  readonly spans: () => Promise<readonly ReadableSpan[]>;
}

function traced(changes: Partial<Config['tracing']> = {}, exporter?: SpanExporter): Traced {
  const sent: ReadableSpan[] = [];
  const warnings: string[] = [];
  const ignore = (): void => undefined;
  const tracer = otlpTracer({
    config: { enabled: true, endpoint: undefined, service_name: 'edge', sample_rate: 1, ...changes },
    version: '1.2.3',
    log: { debug: ignore, info: ignore, error: ignore, warn: (_, message) => warnings.push(message) },
    exporter: exporter ?? {
      export: (spans, done) => {
        sent.push(...spans);
        done({ code: 0 });
      },
      shutdown: () => Promise.resolve(),
    },
  });
  tracers.push(tracer);
  return {
    tracer,
    warnings,
    spans: async () => {
      await tracer.close();
      return sent;
    },
  };
}

function request(headers: Readonly<Record<string, readonly string[]>> = {}, method = 'GET') {
  return {
    id: 'request-1',
    method,
    scheme: 'http' as const,
    host: 'api.example',
    path: '/items',
    headers: { lines: (name: string) => headers[name] ?? [] },
  };
}

describe('a request', () => {
  test('has a span of its own, and one inside it for the backend', async () => {
    const { tracer, spans } = traced();
    const trace = tracer.start(request());
    void trace.headers;
    trace.end(finished());

    const [client, server] = await spans();

    expect(server).toMatchObject({
      name: 'GET',
      kind: SpanKind.SERVER,
      parentSpanContext: undefined,
      status: { code: SpanStatusCode.UNSET },
      attributes: {
        'http.request.method': 'GET',
        'url.scheme': 'http',
        'url.path': '/items',
        'server.address': 'api.example',
        'client.address': '203.0.113.7',
        'http.response.status_code': 200,
        'network.protocol.version': '1.1',
        'spillgate.outcome': 'forwarded',
        'spillgate.rule': 'items',
        'spillgate.request_id': 'request-1',
      },
      resource: { attributes: { 'service.name': 'edge', 'service.version': '1.2.3' } },
    });
    expect(client).toMatchObject({
      name: 'GET',
      kind: SpanKind.CLIENT,
      attributes: { 'server.address': '10.0.0.1', 'server.port': 3000, 'http.response.status_code': 200 },
    });
    expect(client?.parentSpanContext?.spanId).toBe(server?.spanContext().spanId);
    expect(trace.traceId).toBe(server?.spanContext().traceId);
  });

  test('continues the trace of its client, and so does the backend', async () => {
    const { tracer, spans } = traced({ sample_rate: 0 });
    const trace = tracer.start(request({ traceparent: [SAMPLED], tracestate: ['vendor=1', 'other=2'] }));
    const { headers } = trace;
    trace.end(finished({ upstream: 'https://backend' }));

    const [client, server] = await spans();

    expect(trace.traceId).toBe(TRACE_ID);
    expect(server?.parentSpanContext?.spanId).toBe(PARENT_ID);
    expect(headers).toEqual([
      ['traceparent', `00-${TRACE_ID}-${client?.spanContext().spanId}-01`],
      ['tracestate', 'vendor=1,other=2'],
    ]);
    expect(client?.attributes).toMatchObject({ 'server.port': 443 });
  });

  test('that its client does not trace is not traced, and the backend hears so', async () => {
    const { tracer, spans } = traced({ sample_rate: 1 });
    const trace = tracer.start(request({ traceparent: [UNSAMPLED] }));
    const { headers } = trace;
    trace.end(finished());

    expect(headers).toEqual([['traceparent', expect.stringMatching(`^00-${TRACE_ID}-[0-9a-f]{16}-00$`)]]);
    expect(await spans()).toEqual([]);
  });

  test('without a usable parent begins a trace, and what came with it is dropped', () => {
    const { tracer } = traced();

    const trace = tracer.start(request({ traceparent: ['nonsense'], tracestate: ['vendor=1'] }));

    expect(trace.traceId).toMatch(/^[0-9a-f]{32}$/);
    expect(trace.headers).toEqual([
      ['traceparent', expect.stringMatching(`^00-${trace.traceId}-[0-9a-f]{16}-01$`)],
    ]);
  });

  test('is traced as often as the rate says', async () => {
    const { tracer, spans } = traced({ sample_rate: 0.25 });
    for (let at = 0; at < 2000; at += 1) tracer.start(request()).end(finished());

    const { length } = await spans();

    expect(length).toBeGreaterThan(400);
    expect(length).toBeLessThan(600);
  });

  test('that failed says why', async () => {
    const { tracer, spans } = traced();
    const trace = tracer.start(request());
    void trace.headers;
    trace.end(finished({ outcome: 'failed', status: 502, reason: 'UPSTREAM_UNREACHABLE' }));

    expect(await spans()).toMatchObject([
      { status: { code: SpanStatusCode.ERROR }, attributes: { 'error.type': 'UPSTREAM_UNREACHABLE' } },
      { status: { code: SpanStatusCode.ERROR }, attributes: { 'error.type': 'UPSTREAM_UNREACHABLE' } },
    ]);
  });

  test('asked for twice, the headers are the same: another try is no other request', () => {
    const trace = traced().tracer.start(request());

    expect(trace.headers).toEqual(trace.headers);
  });

  test('an answer of 404 is a failure for who asked, and none for who answered', async () => {
    const { tracer, spans } = traced();
    const trace = tracer.start(request());
    void trace.headers;
    trace.end(finished({ status: 404 }));

    expect(await spans()).toMatchObject([
      { kind: SpanKind.CLIENT, status: { code: SpanStatusCode.ERROR } },
      { kind: SpanKind.SERVER, status: { code: SpanStatusCode.UNSET } },
    ]);
  });

  test('that was refused is no failure', async () => {
    const { tracer, spans } = traced();
    tracer.start(request()).end(finished({ outcome: 'refused', status: 429, rule: undefined }));

    const [server, ...others] = await spans();

    expect(others).toEqual([]);
    expect(server).toMatchObject({
      status: { code: SpanStatusCode.UNSET },
      attributes: { 'spillgate.outcome': 'refused' },
    });
    expect(server?.attributes).not.toHaveProperty('spillgate.rule');
  });

  test('a made-up method does not become the name of a span, and a path is bounded', async () => {
    const { tracer, spans } = traced();
    tracer.start({ ...request({}, 'MADEUP'), path: `/${'x'.repeat(5000)}` }).end(finished());

    const [server] = await spans();

    expect(server?.name).toBe('HTTP');
    expect(JSON.stringify(server?.attributes)).not.toContain('MADEUP');
    expect(String(server?.attributes['url.path'])).toHaveLength(1024);
  });
});

describe('a collector', () => {
  test('gets OTLP over HTTP', async () => {
    const bodies: string[] = [];
    const server = createServer((incoming, response) => {
      let body = '';
      incoming.setEncoding('utf8').on('data', (chunk: string) => {
        body += chunk;
      });
      incoming.on('end', () => {
        bodies.push(`${incoming.method} ${incoming.url} ${body}`);
        response.writeHead(200, { 'content-type': 'application/json' }).end('{}');
      });
    });
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
    const address = server.address();
    const endpoint = `http://127.0.0.1:${typeof address === 'object' ? address?.port : ''}`;
    const ignore = (): void => undefined;
    const tracer = otlpTracer({
      config: { enabled: true, endpoint, service_name: 'edge', sample_rate: 1 },
      version: '1.2.3',
      log: { debug: ignore, info: ignore, warn: ignore, error: ignore },
    });

    tracer.start(request()).end(finished());
    await tracer.close();
    await new Promise((resolve) => server.close(resolve));

    expect(bodies).toHaveLength(1);
    expect(bodies[0]).toMatch(/^POST \/v1\/traces \{.*"service\.name".*"edge".*"url\.path"/s);
  });

  test('that fails is complained about once and at the end, and stops nothing', async () => {
    const { tracer, warnings, spans } = traced(
      {},
      {
        export: (_, done) => done({ code: 1, error: new Error('refused') }),
        shutdown: () => Promise.resolve(),
      },
    );
    for (let at = 0; at < 2000; at += 1) tracer.start(request()).end(finished());

    await spans();

    expect(warnings).toEqual(['traces were not taken', 'the last traces were not sent']);
  });

  test('that does not answer keeps no gateway from ending', async () => {
    const { tracer, spans } = traced({}, { export: () => undefined, shutdown: () => Promise.resolve() });
    tracer.start(request()).end(finished());

    // That it ends at all: the collector never would.
    await expect(spans()).resolves.toBeDefined();
  });

  test.each([
    ['http://collector:4318', 'http://collector:4318/v1/traces'],
    ['http://collector:4318/', 'http://collector:4318/v1/traces'],
    ['https://collector/otlp/v1/traces', 'https://collector/otlp/v1/traces'],
  ])('named %s is asked at %s', (endpoint, url) => {
    expect(tracesUrl(endpoint)).toBe(url);
  });
});

describe('traceparent', () => {
  test.each([
    [[SAMPLED], true],
    [[UNSAMPLED], false],
    [[`00-${TRACE_ID}-${PARENT_ID}-ff`], true],
    [[`cc-${TRACE_ID}-${PARENT_ID}-01-what-the-future-will-be-like`], true],
  ])('%j can be used', (lines, sampled) => {
    expect(parseTraceparent(lines)).toEqual({ traceId: TRACE_ID, spanId: PARENT_ID, sampled });
  });

  test.each([
    [[]],
    [['']],
    [[SAMPLED, SAMPLED]],
    [[`${SAMPLED} `]],
    [[`${SAMPLED}-more`]],
    [[`cc${SAMPLED.slice(2)}.more`]],
    [[`ff${SAMPLED.slice(2)}`]],
    [[SAMPLED.toUpperCase()]],
    [[`00-${'0'.repeat(32)}-${PARENT_ID}-01`]],
    [[`00-${TRACE_ID}-${'0'.repeat(16)}-01`]],
    [[`00-${TRACE_ID.slice(1)}-${PARENT_ID}-01`]],
    [[`cc${SAMPLED.slice(2)}-${'x'.repeat(300)}`]],
  ])('%j cannot', (lines) => {
    expect(parseTraceparent(lines)).toBeUndefined();
  });

  test('whatever is sent, what is passed on is well formed', () => {
    fc.assert(
      fc.property(
        fc.array(fc.string(), { maxLength: 3 }),
        fc.array(fc.string(), { maxLength: 3 }),
        (parents, states) => {
          const { tracer } = shared;
          for (const [name, value] of tracer.start(request({ traceparent: parents, tracestate: states }))
            .headers) {
            expect(value).toMatch(
              name === 'traceparent' ? /^00-[0-9a-f]{32}-[0-9a-f]{16}-0[01]$/ : /^[\t\u0020-\u007e]+$/,
            );
          }
        },
      ),
    );
  });

  test('is written as it is read', () => {
    for (const line of [SAMPLED, UNSAMPLED]) {
      const parsed = parseTraceparent([line]);
      expect(parsed === undefined ? undefined : formatTraceparent(parsed)).toBe(line);
    }
  });
});

describe('tracestate', () => {
  test.each([
    [['a=1'], 'a=1'],
    [['a=1', '', 'b=2'], 'a=1,b=2'],
    [[], undefined],
    [['a=1\r\nX: y'], undefined],
    [['a=ä'], undefined],
    [['x'.repeat(512)], 'x'.repeat(512)],
    [['x'.repeat(513)], undefined],
  ])('of %j is %j', (lines, expected) => {
    expect(tracestateOf(lines)).toBe(expected);
  });
});

const shared = traced({ sample_rate: 0 });
