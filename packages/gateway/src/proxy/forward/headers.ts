import { type ClientAddress, appendHeaders, type HeaderPair } from 'spillgate/http';
import type { SettleConfig } from '../../config/schema/cost.ts';
import { identityHeaders } from '../../identity/identity.ts';
import type { RequestHead } from '../exchange.ts';
import { HeaderList, type ReadRequest, type ReadingRules } from '../request/read-request.ts';
import type { BackendRoute } from '../routing/route.ts';

interface ForwardedRequest {
  readonly head: RequestHead;
  readonly request: ReadRequest;
  readonly route: Pick<BackendRoute, 'backend' | 'headers'>;
  readonly rules: ReadingRules;
  /** How this gateway is called in `Via`. */
  readonly pseudonym: string;
  /** What tracing sends instead of the client's `traceparent` and `tracestate`. */
  readonly trace: readonly (readonly [name: string, value: string])[] | undefined;
}

/** The headers that an upstream gets: names and values by turns. Everything of one hop goes first, then ours come. */
export function requestHeaders(forwarded: ForwardedRequest): string[] {
  const { head, request, route, rules, pseudonym, trace } = forwarded;
  const { headers, facts } = request;
  const { server } = rules.config;
  const { host, replaced, added, prefix } = route.headers;
  const named = namedByConnection(headers, rules.lasting);
  // With fewer hops than there should be, it did not come through the proxies that could be believed.
  const trusted =
    saysWhoAsked(headers) && facts.client.oddity !== 'tooFewHops' && rules.trustsPeer(head.peer);
  const sent: string[] = [];
  const hostHeader = host ?? (route.backend.preserve_host ? request.hostHeader : '');
  if (hostHeader !== '') sent.push('host', hostHeader);
  for (let at = 0; at < headers.names.length; at += 1) {
    const name = headers.names[at] ?? '';
    if (rules.notForwarded.has(name) || replaced.has(name) || named?.has(name) === true) continue;
    if (trace !== undefined && (name === 'traceparent' || name === 'tracestate')) continue;
    if (name.startsWith('x-forwarded-') && !(trusted && !REPLACED.has(name))) continue;
    if (prefix !== undefined && name === 'x-forwarded-prefix') continue;
    sent.push(headers.raw[2 * at] ?? '', headers.raw[2 * at + 1] ?? '');
  }
  sent.push(...added);
  addForwarding(sent, { head, request, rules, trusted });
  if (prefix !== undefined) sent.push('x-forwarded-prefix', prefix);
  sent.push('via', joined(headers.lines('via'), `${head.protocol.slice(5)} ${pseudonym}`));
  sent.push(server.request_id_header, facts.id);
  if (facts.identity !== undefined || facts.certificate !== undefined) {
    sent.push(...identityHeaders(rules.config.identity.headers, facts).flat());
  }
  if (trace !== undefined) for (const [name, value] of trace) sent.push(name, value);
  return sent;
}

const REPLACED: ReadonlySet<string> = new Set(['x-forwarded-for', 'x-forwarded-proto', 'x-forwarded-host']);

/**
 * What `Connection` names belongs to one hop; but not what says who asks for what, or nobody would know whom it is
 * about.
 */
function namedByConnection(
  headers: HeaderList,
  lasting: ReadonlySet<string>,
): ReadonlySet<string> | undefined {
  const tokens = headers.tokens('connection');
  if (tokens.length === 0 || (tokens.length === 1 && (tokens[0] === 'keep-alive' || tokens[0] === 'close'))) {
    return undefined;
  }
  return new Set(tokens.filter((name) => !lasting.has(name) && !name.startsWith('x-forwarded-')));
}

function saysWhoAsked(headers: HeaderList): boolean {
  return headers.names.some((name) => name.startsWith('x-forwarded-') || name === 'forwarded');
}

interface ForwardedHop extends FollowedRequest {
  readonly trusted: boolean;
}

/** What a trusted proxy said is continued as far as it was believed; what anyone else said is replaced. */
function addForwarding(sent: string[], forwarding: ForwardedHop): void {
  const { head, request, rules, trusted } = forwarding;
  const { backend, server } = rules.config;
  const { headers, facts, hostHeader } = request;
  const ofForwarded = server.client_address.source === 'forwarded';
  const peer = withoutMapping(head.peer ?? 'unknown');
  const client = facts.client.from === 'header' ? (facts.client.address ?? 'unknown') : undefined;
  if (backend.forwarded_headers.includes('x-forwarded')) {
    const earlier = client === undefined ? [] : ofForwarded ? [client] : headers.lines('x-forwarded-for');
    sent.push('x-forwarded-for', joined(earlier, peer));
    sent.push(
      'x-forwarded-proto',
      (trusted ? headers.first('x-forwarded-proto') : undefined) ?? facts.scheme,
    );
    const host = (trusted ? headers.first('x-forwarded-host') : undefined) ?? hostHeader;
    if (host !== '') sent.push('x-forwarded-host', host);
  }
  if (backend.forwarded_headers.includes('forwarded')) {
    const host = hostHeader === '' ? '' : `;host="${hostHeader}"`;
    const own = `for=${forwardedNode(peer)}${host};proto=${facts.scheme}`;
    const earlier =
      client === undefined ? [] : ofForwarded ? forwardedHops(forwarding) : [`for=${forwardedNode(client)}`];
    sent.push('forwarded', joined(earlier, own));
  }
}

function joined(lines: readonly string[], last: string): string {
  return lines.length === 0 ? last : `${lines.join(', ')}, ${last}`;
}

/** A socket that listens on both families spells IPv4 peers `::ffff:1.2.3.4`. */
function withoutMapping(peer: string): string {
  return peer.startsWith('::ffff:') && peer.includes('.') ? peer.slice(7) : peer;
}

interface FollowedRequest {
  readonly head: RequestHead;
  readonly request: ReadRequest;
  readonly rules: ReadingRules;
}

/** More commas are not looked at: a hop has one, and of hops 32 are followed. */
const MAX_CUTS = 64;
/** Closed quotes, and escapes only in between: so a list is split alike from the left and from the right. */
const CLOSED = /^(?:[^"\\]|"(?:[^"\\]|\\.)*")*$/;
/** RFC 7239 §6.2: for what cannot be said. */
const UNKNOWN = 'for=unknown';

/**
 * What a `Forwarded` that was followed says about the hops before ours. It was read from the right, up to the client;
 * what stands left of that a client may have made up. A quote in there that stays open would swallow our own element
 * for a reader from the left, so that the rest is cut off.
 */
function forwardedHops({ head, request, rules }: FollowedRequest): readonly string[] {
  const lines = request.headers.lines('forwarded');
  if (lines.every((line) => CLOSED.test(line))) return lines;
  const { client } = request.facts;
  const all = lines.join(', ');
  let comma = all.length;
  for (let cut = 0; cut < MAX_CUTS && comma > 0; cut += 1) {
    comma = all.lastIndexOf(',', comma - 1);
    const rest = all.slice(comma + 1).trim();
    if (comma > 0 && CLOSED.test(rest) && saysTheSame(rules.clientOf(head.peer, chainOf(rest)), client)) {
      return [UNKNOWN, rest];
    }
  }
  return [UNKNOWN, `for=${forwardedNode(client.address ?? 'unknown')}`];
}

function chainOf(rest: string): HeaderList {
  return new HeaderList(['forwarded', `${UNKNOWN}, ${rest}`]);
}

function saysTheSame(one: ClientAddress, other: ClientAddress): boolean {
  return one.from === other.from && one.address === other.address;
}

/** RFC 7239 §6: IPv6 in brackets and quotes. */
function forwardedNode(address: string): string {
  return address.includes(':') ? `"[${address}]"` : address;
}

/** Read in little memory; others need windows of megabytes. */
const READABLE: ReadonlySet<string> = new Set(['gzip', 'deflate', 'identity']);

/**
 * The headers of a request whose response has to be read on its way: of the encodings that the client accepts, the
 * backend is offered those that can be, and none where something may have to be put into the response.
 */
export function withReadableEncodings(headers: string[], settle: SettleConfig): string[] {
  if (settle.type !== 'llmTokens') return headers;
  const kept: string[] = [];
  const accepted: string[] = [];
  for (let at = 0; at < headers.length; at += 2) {
    const [name = '', value = ''] = headers.slice(at, at + 2);
    if (name.toLowerCase() === 'accept-encoding') accepted.push(...value.split(','));
    else kept.push(name, value);
  }
  const readable = accepted.map((each) => each.trim()).filter((each) => READABLE.has(nameOf(each)));
  const offered = settle.cut_off || readable.length === 0 ? 'identity' : readable.join(', ');
  return [...kept, 'accept-encoding', offered];
}

/** `gzip` of `gzip;q=0.8`. */
function nameOf(encoding: string): string {
  return (encoding.split(';')[0] ?? '').trim().toLowerCase();
}

/** RFC 9110 §7.6.1. `Trailer` goes on where trailers do. */
const ONE_HOP_RESPONSE: ReadonlySet<string> = new Set([
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
interface UpstreamHead {
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
    if (ONE_HOP_RESPONSE.has(lower) || lower === requestIdHeader) continue;
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

const FRAMING: ReadonlySet<string> = new Set([
  ...ONE_HOP_RESPONSE,
  'content-length',
  'host',
  'trailer',
  'set-cookie',
]);

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
