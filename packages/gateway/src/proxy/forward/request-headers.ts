import type { ClientAddress } from 'spillgate/http';
import type { ReadRequest } from '../request/read-request.ts';
import type { ReadingRules } from '../request/reading-rules.ts';
import type { RequestHead } from '../exchange.ts';
import { HeaderList } from '../request/header-list.ts';

export interface ForwardedRequest {
  readonly head: RequestHead;
  readonly request: ReadRequest;
  readonly rules: ReadingRules;
  /** How this gateway is called in `Via`. */
  readonly pseudonym: string;
  /** What tracing sends instead of the client's `traceparent` and `tracestate`. */
  readonly trace: readonly (readonly [name: string, value: string])[] | undefined;
}

/** The headers that an upstream gets: names and values by turns. Everything of one hop goes first, then ours come. */
export function requestHeaders({ head, request, rules, pseudonym, trace }: ForwardedRequest): string[] {
  const { headers, facts } = request;
  const { backend, server } = rules.config;
  const named = namedByConnection(headers, rules.lasting);
  // With fewer hops than there should be, it did not come through the proxies that could be believed.
  const trusted =
    saysWhoAsked(headers) && facts.client.oddity !== 'tooFewHops' && rules.trustsPeer(head.peer);
  const sent: string[] = [];
  if (backend.preserve_host && request.hostHeader !== '') sent.push('host', request.hostHeader);
  for (let at = 0; at < headers.names.length; at += 1) {
    const name = headers.names[at] ?? '';
    if (rules.notForwarded.has(name) || named?.has(name) === true) continue;
    if (trace !== undefined && (name === 'traceparent' || name === 'tracestate')) continue;
    if (name.startsWith('x-forwarded-') && !(trusted && !REPLACED.has(name))) continue;
    sent.push(headers.raw[2 * at] ?? '', headers.raw[2 * at + 1] ?? '');
  }
  addForwarding(sent, { head, request, rules, trusted });
  sent.push('via', joined(headers.lines('via'), `${head.protocol.slice(5)} ${pseudonym}`));
  sent.push(server.request_id_header, facts.id);
  if (trace !== undefined) for (const [name, value] of trace) sent.push(name, value);
  return sent;
}

const REPLACED: ReadonlySet<string> = new Set(['x-forwarded-for', 'x-forwarded-proto', 'x-forwarded-host']);

/** What `Connection` names belongs to one hop; but not what says who asks for what, or nobody would know whom it is about. */
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
 * What a `Forwarded` that was followed says about the hops before ours. It was read from the right, up to the client; what stands left of that a
 * client may have made up. A quote in there that stays open would swallow our own element for a reader from the left, so that the rest is cut off.
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
