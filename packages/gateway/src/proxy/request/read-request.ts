import { randomUUID } from 'node:crypto';
import { clientAddress, peerTrust, type ClientAddress } from 'spillgate/http';
import type { Config } from '../../config/config.ts';
import type { RequestFacts, HeaderFields } from '../../rules/request-facts.ts';
import { CorsPolicy } from '../cors/cors.ts';
import type { RequestHead } from '../exchange.ts';
import type { GatewayErrorCode } from '../gateway-errors.ts';
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
      certificate: rules.readsCertificates ? head.certificate?.() : undefined,
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
  // The parser of HTTP/1 knows what a header may be made of; that of HTTP/2 is of another make, and lines mean nothing
  // to it.
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

/** What a configuration says about reading requests, made once for all of them. */
export interface ReadingRules {
  readonly config: Config;
  readonly requestIdHeader: string;
  /** What pages of other origins may do; undefined if the configuration says nothing about them. */
  readonly cors: CorsPolicy | undefined;
  /** Without headers: where none of them could say who the client is. */
  clientOf(peer: string | undefined, headers: HeaderList | undefined): ClientAddress;
  /** What a connection is counted by: the address of its peer, or the network of that. */
  keyOfPeer(peer: string | undefined): string | undefined;
  /** Whether the peer may say who the client is. */
  trustsPeer(peer: string | undefined): boolean;
  /** Clients may show a certificate in the TLS handshake. */
  readonly readsCertificates: boolean;
  /** Headers that say who or what a request is about: nobody can have them removed by naming them in `Connection`. */
  readonly lasting: ReadonlySet<string>;
  /**
   * Headers of a client that are not forwarded: those of one hop, those that are ours, and those that the configuration
   * removes.
   */
  readonly notForwarded: ReadonlySet<string>;
}

const known = new WeakMap<Config, ReadingRules>();

export function readingRules(config: Config): ReadingRules {
  const found = known.get(config);
  if (found !== undefined) return found;
  const made = makeRules(config);
  known.set(config, made);
  return made;
}

const LASTING = [
  'host',
  'content-length',
  'content-type',
  'content-encoding',
  'authorization',
  'cookie',
  'forwarded',
  'via',
  'traceparent',
  'tracestate',
];

/**
 * RFC 9110 §7.6.1, and what belongs to our own connection with the client. `Trailer`: trailers of requests are not
 * forwarded.
 */
const ONE_HOP = [
  'connection',
  'keep-alive',
  'proxy-connection',
  'proxy-authenticate',
  'proxy-authorization',
  'te',
  'trailer',
  'transfer-encoding',
  'upgrade',
  'http2-settings',
  'expect',
  'host',
];
const OURS = ['via', 'forwarded'];

const NO_LINES = (): readonly string[] => [];

function makeRules(config: Config): ReadingRules {
  const { trusted_proxies, trusted_hops, source, ipv6_prefix } = config.server.client_address;
  const options = {
    trustedProxies: trusted_hops === undefined ? trusted_proxies : { hops: trusted_hops },
    source,
    ipv6Prefix: ipv6_prefix,
  };
  const addressOf = clientAddress(options);
  const ofPeer = (peer: string | undefined): ClientAddress => addressOf({ peer, headerLines: NO_LINES });
  const requestIdHeader = config.server.request_id_header.toLowerCase();
  return {
    config,
    requestIdHeader,
    cors: config.cors === undefined ? undefined : new CorsPolicy(config.cors, config),
    clientOf: (peer, headers) =>
      addressOf({ peer, headerLines: headers === undefined ? NO_LINES : (name) => headers.lines(name) }),
    keyOfPeer: (peer) => ofPeer(peer).key,
    trustsPeer: peerTrust(options),
    notForwarded: new Set([
      ...ONE_HOP,
      ...OURS,
      requestIdHeader,
      ...config.backend.remove_request_headers.map((name) => name.toLowerCase()),
      ...Object.values(config.identity.headers).map((name) => name.toLowerCase()),
    ]),
    readsCertificates: config.server.tls.client_auth !== 'none',
    lasting: new Set([
      ...LASTING,
      requestIdHeader,
      ...config.authorization.request_headers.map((name) => name.toLowerCase()),
      ...headerNames([config.rate_limit, config.identity]),
    ]),
  };
}

/** Every header that rules read, wherever it stands in these sections. */
function headerNames(value: unknown): readonly string[] {
  if (typeof value !== 'object' || value === null) return [];
  return Object.entries(value).flatMap(([name, inner]: [string, unknown]) => {
    if (name === 'header_name' && typeof inner === 'string') return [inner.toLowerCase()];
    const own =
      name === 'header' && typeof inner === 'object' && inner !== null
        ? Object.keys(inner).map((key) => key.toLowerCase())
        : [];
    return [...own, ...headerNames(inner)];
  });
}

/** The headers of a message with their names in lower case, so that they are folded only once. */
export class HeaderList implements HeaderFields {
  readonly raw: readonly string[];
  /** The lower-case name of the header at `raw[2 * i]`. */
  readonly names: readonly string[];

  constructor(raw: readonly string[]) {
    const names: string[] = [];
    for (let at = 0; at < raw.length; at += 2) names.push((raw[at] ?? '').toLowerCase());
    this.raw = raw;
    this.names = names;
  }

  lines(name: string): readonly string[] {
    let at = this.names.indexOf(name);
    if (at === -1) return NONE;
    const found: string[] = [];
    for (; at !== -1; at = this.names.indexOf(name, at + 1)) found.push(this.raw[2 * at + 1] ?? '');
    return found;
  }

  has(name: string): boolean {
    return this.names.includes(name);
  }

  first(name: string): string | undefined {
    const at = this.names.indexOf(name);
    return at === -1 ? undefined : this.raw[2 * at + 1];
  }

  /** The members of a header that is a list, in lower case and without parameters. */
  tokens(name: string): readonly string[] {
    return this.has(name) ? this.lines(name).flatMap(tokensOf) : NONE;
  }

  /** What the header block takes on the wire of HTTP/1.1: `Name: value\r\n`. */
  bytes(): number {
    let bytes = 0;
    for (let at = 0; at < this.raw.length; at += 1) bytes += (this.raw[at] ?? '').length + 2;
    return bytes;
  }
}

const NONE: readonly string[] = [];

function tokensOf(line: string): readonly string[] {
  return line
    .toLowerCase()
    .split(',')
    .map((member) => member.split(';', 1)[0]?.trim() ?? '')
    .filter((member) => member !== '');
}
