import { appendHeaders, type HeaderPair } from 'spillgate/http';

/** RFC 9110 §7.6.1. `Trailer` goes on where trailers do. */
const ONE_HOP: ReadonlySet<string> = new Set([
  'connection',
  'keep-alive',
  'proxy-connection',
  'proxy-authenticate',
  'te',
  'transfer-encoding',
  'upgrade',
  'http2-settings',
]);

/** What an upstream answered, as far as it matters how it is passed on. */
export interface UpstreamHead {
  /** Names and values by turns, ready for the client but for what the gateway adds. */
  readonly headers: string[];
  readonly lengthKnown: boolean;
  readonly tellsOfLimits: boolean;
  /** gRPC's way of saying no: nothing follows. */
  readonly grpcStatus: boolean;
}

/** `raw`: names and values by turns, as they were sent. */
export function readUpstreamHead(raw: readonly string[], requestIdHeader: string): UpstreamHead {
  const headers: string[] = [];
  let named: ReadonlySet<string> | undefined;
  let lengthKnown = false;
  let tellsOfLimits = false;
  let grpcStatus = false;
  for (let at = 0; at < raw.length; at += 2) {
    const name = raw[at] ?? '';
    const value = raw[at + 1] ?? '';
    const lower = name.toLowerCase();
    if (lower === 'connection') named = withNamed(named, value);
    if (ONE_HOP.has(lower) || lower === requestIdHeader) continue;
    if (lower === 'content-length') lengthKnown = true;
    else if (lower === 'grpc-status') grpcStatus = true;
    else if (LIMIT_HEADER.test(lower)) tellsOfLimits = true;
    headers.push(name, value);
  }
  const kept = named === undefined ? headers : without(headers, named);
  return { headers: kept, lengthKnown, tellsOfLimits, grpcStatus };
}

const LIMIT_HEADER = /^(?:x-)?ratelimit|^(?:retry-after|access-control-expose-headers)$/;

/** Adds what the gateway says about limits, after what the upstream said about its own. */
export function addLimitHeaders(head: UpstreamHead, pairs: readonly HeaderPair[]): void {
  const { headers, tellsOfLimits } = head;
  if (tellsOfLimits) {
    appendHeaders(
      { get: (name) => valueOf(headers, name), set: (name, value) => replace(headers, name, value) },
      pairs,
    );
    return;
  }
  for (const [name, value] of pairs) headers.push(name, value);
}

/** The trailers that are passed on: what frames or routes a message means nothing behind its body (RFC 9110 §6.5.1). */
export function readTrailers(raw: readonly string[]): readonly string[] {
  return raw.length === 0 ? raw : without(raw, FRAMING);
}

const FRAMING: ReadonlySet<string> = new Set([...ONE_HOP, 'content-length', 'host', 'trailer', 'set-cookie']);

const ORDINARY_CONNECTION = /^(?:keep-alive|close)$/i;

function withNamed(
  named: ReadonlySet<string> | undefined,
  connection: string,
): ReadonlySet<string> | undefined {
  if (ORDINARY_CONNECTION.test(connection)) return named;
  const tokens = connection
    .toLowerCase()
    .split(',')
    .map((token) => token.trim())
    .filter((token) => token !== 'content-length');
  return new Set([...(named ?? []), ...tokens]);
}

function without(headers: readonly string[], names: ReadonlySet<string>): string[] {
  const kept: string[] = [];
  for (let at = 0; at < headers.length; at += 2) {
    const name = headers[at] ?? '';
    if (!names.has(name.toLowerCase())) kept.push(name, headers[at + 1] ?? '');
  }
  return kept;
}

function valueOf(headers: readonly string[], name: string): string | undefined {
  const lower = name.toLowerCase();
  const values: string[] = [];
  for (let at = 0; at < headers.length; at += 2) {
    if (headers[at]?.toLowerCase() === lower) values.push(headers[at + 1] ?? '');
  }
  return values.length === 0 ? undefined : values.join(', ');
}

function replace(headers: string[], name: string, value: string): void {
  const lower = name.toLowerCase();
  for (let at = headers.length - 2; at >= 0; at -= 2) {
    if (headers[at]?.toLowerCase() === lower) headers.splice(at, 2);
  }
  headers.push(name, value);
}
