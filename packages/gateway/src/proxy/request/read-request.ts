import { randomUUID } from 'node:crypto';
import type { RequestFacts } from '../../rules/request-facts.ts';
import type { GatewayErrorCode } from '../gateway-errors.ts';
import type { RequestHead } from '../exchange.ts';
import { HeaderList } from './header-list.ts';
import type { ReadingRules } from './reading-rules.ts';
import { readTarget, type RequestTarget } from './request-target.ts';

/** A request that is well-formed and within all bounds. */
export interface ReadRequest {
  readonly facts: RequestFacts;
  readonly headers: HeaderList;
  /** The host with its port, as the backend may see it; empty if a request of HTTP/1.0 names none. */
  readonly hostHeader: string;
  /** Undefined if it is not known before its end, or there is no body. */
  readonly bodyLength: number | undefined;
  readonly expectsContinue: boolean;
  /** Answers of our own have to be such that a gRPC client understands them, and the upstream speaks HTTP/2. */
  readonly grpc: boolean;
  /** A header says, truly or not, on whose behalf the request was sent. */
  readonly namesClient: boolean;
}

/** Checks everything that can be checked before a rule is asked. */
export function readRequest(
  head: RequestHead,
  id: string,
  rules: ReadingRules,
): ReadRequest | GatewayErrorCode {
  const headers = new HeaderList(head.rawHeaders);
  const { max_headers, max_header_bytes, max_uri_bytes, encoded_slashes } = rules.config.server;
  if (headers.names.length > max_headers || headers.bytes() > max_header_bytes) {
    return 'HEADERS_TOO_LARGE';
  }
  if (head.target.length > max_uri_bytes) return 'URI_TOO_LONG';
  const unreadable = wrongMethod(head.method) ?? wrongHeader(head, headers) ?? wrongFraming(head, headers);
  if (unreadable !== undefined) return unreadable;
  const target = readTarget(head.target, encoded_slashes);
  if (target === undefined) return 'INVALID_TARGET';
  const hostHeader = readHost(head, headers, target);
  if (hostHeader === undefined) return 'INVALID_HOST';
  const bodyLength = lengthOf(headers);
  const { max_request_body_size } = rules.config.backend;
  if (max_request_body_size > 0 && bodyLength !== undefined && bodyLength > max_request_body_size) {
    return 'BODY_TOO_LARGE';
  }
  const expect = headers.lines('expect');
  if (expect.some((line) => line.toLowerCase() !== '100-continue')) return 'EXPECTATION_FAILED';
  const namesClient = headers.has('x-forwarded-for') || headers.has('forwarded');
  return {
    facts: {
      id,
      method: head.method,
      scheme: head.scheme,
      host: hostHeader.replace(PORT, '').toLowerCase(),
      path: target.path,
      otherPath: target.otherPath,
      query: target.query,
      headers,
      client: rules.clientOf(head.peer, namesClient ? headers : undefined),
    },
    headers,
    hostHeader,
    bodyLength: head.bodyless ? undefined : bodyLength,
    expectsContinue: expect.length > 0 && !head.bodyless && head.protocol !== 'HTTP/1.0',
    grpc: GRPC.test(headers.first('content-type') ?? ''),
    namesClient,
  };
}

/** Not `application/grpc-web`, which is made for HTTP/1.1. */
const GRPC = /^application\/grpc(?:$|[+; \t])/i;

const REQUEST_ID = /^[\w.:~+/=@-]{1,64}$/;

/** The client's own id if it is one, else a new one. */
export function requestIdOf(head: RequestHead, name: string): string {
  const { rawHeaders } = head;
  let found: string | undefined;
  for (let at = 0; at < rawHeaders.length; at += 2) {
    if (rawHeaders[at]?.length !== name.length || rawHeaders[at]?.toLowerCase() !== name) continue;
    if (found !== undefined) return randomUUID();
    found = rawHeaders[at + 1];
  }
  return found !== undefined && REQUEST_ID.test(found) ? found : randomUUID();
}

const METHOD = /^[A-Z][A-Z-]{0,31}$/;

function wrongMethod(method: string): GatewayErrorCode | undefined {
  if (!METHOD.test(method)) return 'MALFORMED_REQUEST';
  // TRACE would show a page what the gateway adds and what is meant to stay hidden from it (RFC 9110 §9.3.8).
  return method === 'CONNECT' || method === 'TRACE' ? 'METHOD_NOT_ALLOWED' : undefined;
}

const NAME = /^[\da-z!#$%&'*+.^`|~-]+$/;
const FORBIDDEN_IN_VALUE = /[^\t\x20-\x7e\x80-\xff]/;

function wrongHeader({ protocol }: RequestHead, { names, raw }: HeaderList): GatewayErrorCode | undefined {
  // The parser of HTTP/1 knows what a header may be made of; that of HTTP/2 is of another make, and lines mean nothing to it.
  const checkedAlready = protocol !== 'HTTP/2.0';
  for (let at = 0; at < names.length; at += 1) {
    const name = names[at] ?? '';
    // Servers that make variables of headers take X_Tenant_Id for X-Tenant-Id; so it could say what no rule has seen.
    if (name.includes('_')) return 'INVALID_HEADER';
    if (checkedAlready) continue;
    if (!NAME.test(name) || FORBIDDEN_IN_VALUE.test(raw[2 * at + 1] ?? '')) return 'INVALID_HEADER';
  }
  return undefined;
}

/** What the parser let through is looked at again: the backend must not read another end of the body than we did. */
function wrongFraming(head: RequestHead, headers: HeaderList): GatewayErrorCode | undefined {
  const lengths = headers.lines('content-length');
  const encodings = headers.lines('transfer-encoding');
  if (lengths.length > 1 || (lengths.length === 1 && !/^\d{1,15}$/.test(lengths[0] ?? ''))) {
    return 'INVALID_FRAMING';
  }
  if (encodings.length === 0) return undefined;
  const chunked = encodings.length === 1 && /^[\t ]*chunked[\t ]*$/i.test(encodings[0] ?? '');
  return chunked && lengths.length === 0 && head.protocol === 'HTTP/1.1' ? undefined : 'INVALID_FRAMING';
}

function lengthOf(headers: HeaderList): number | undefined {
  const length = headers.first('content-length');
  return length === undefined ? undefined : Number(length);
}

/** A port is 65535 at most. */
const HOST =
  /^(?:[\w.-]{1,253}|\[[\da-f:.]{2,45}\])(?::(?:\d{1,4}|[0-5]\d{4}|6[0-4]\d{3}|65[0-4]\d\d|655[0-2]\d|6553[0-5]))?$/i;
const PORT = /:\d+$/;

/** RFC 9112 §3.2: one Host, and the authority of an absolute target wins over it. In HTTP/1.0 there may be none. */
function readHost(head: RequestHead, headers: HeaderList, target: RequestTarget): string | undefined {
  const hosts = headers.lines('host');
  if (hosts.length > 1) return undefined;
  const [given] = hosts;
  if (head.protocol === 'HTTP/2.0') {
    // RFC 9113 §8.3.1: the two must agree.
    const differ = given !== undefined && head.authority !== undefined && given !== head.authority;
    if (differ || target.authority !== undefined) return undefined;
    return valid(head.authority ?? given);
  }
  if (given === undefined && head.protocol === 'HTTP/1.0') {
    return target.authority === undefined ? '' : valid(target.authority);
  }
  return valid(given) === undefined ? undefined : valid(target.authority ?? given);
}

function valid(host: string | undefined): string | undefined {
  return host !== undefined && HOST.test(host) ? host : undefined;
}
