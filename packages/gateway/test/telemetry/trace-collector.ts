// What receives traces, over HTTP as the gateway sends them.
import { once } from 'node:events';
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { onTestFinished } from 'vitest';

export interface CollectedSpan {
  readonly name: string;
  readonly traceId: string;
  readonly parentSpanId: string | undefined;
  /** 2: an error. */
  readonly statusCode: number | undefined;
  readonly attributes: Readonly<Record<string, unknown>>;
}

export interface TraceCollector {
  readonly url: string;
  readonly spans: readonly CollectedSpan[];
  /** The paths of the requests that it heard of. */
  paths(): readonly unknown[];
}

/** OTLP in JSON. */
interface TracesMessage {
  readonly resourceSpans: readonly {
    readonly scopeSpans: readonly { readonly spans: readonly SpanMessage[] }[];
  }[];
}

interface SpanMessage extends Pick<CollectedSpan, 'name' | 'traceId'> {
  readonly parentSpanId?: string;
  readonly status?: { readonly code?: number };
  readonly attributes: readonly { readonly key: string; readonly value: Readonly<Record<string, unknown>> }[];
}

/** Ends with the test. */
export async function startTraceCollector(): Promise<TraceCollector> {
  const spans: CollectedSpan[] = [];
  const server: Server = createServer((asked, response) => {
    let text = '';
    asked.setEncoding('utf8').on('data', (chunk: string) => (text += chunk));
    asked.on('end', () => {
      const { resourceSpans } = JSON.parse(text) as TracesMessage;
      spans.push(...resourceSpans.flatMap(({ scopeSpans }) => scopeSpans.flatMap(spansIn)));
      response.setHeader('Content-Type', 'application/json').end('{}');
    });
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  onTestFinished(() => {
    server.close();
    server.closeAllConnections();
  });
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    spans,
    paths: () => spans.flatMap(({ attributes }) => attributes['url.path'] ?? []),
  };
}

function spansIn({ spans }: { readonly spans: readonly SpanMessage[] }): readonly CollectedSpan[] {
  return spans.map(({ name, traceId, parentSpanId, status, attributes }) => ({
    name,
    traceId,
    parentSpanId,
    statusCode: status?.code,
    attributes: Object.fromEntries(attributes.map(({ key, value }) => [key, Object.values(value)[0]])),
  }));
}
