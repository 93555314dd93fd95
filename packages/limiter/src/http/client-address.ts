import { LimiterError, show } from '../errors.ts';
import { requireOptionNames } from '../options.ts';
import { FORWARDING_HEADERS, HopsFromRight, parseNode, type ForwardingHeader } from './forwarding-headers.ts';
import { formatAddress, formatNetwork, isIpv4, withoutNat64, type IpAddress } from './ip-address.ts';
import { MAX_HOPS, toTrust, type Trust, type TrustedProxies } from './trusted-proxies.ts';

export interface ClientAddressOptions {
  /**
   * Who may speak for a client: `'none'`, a preset (`'loopback'`, `'linkLocal'`, `'uniqueLocal'` or `'private'`), an
   * address or a range (`'10.0.0.0/8'`, `'2001:db8::/32'`, `'203.0.113.7'`), a list of these, or `{ hops: 2 }`.
   * Default: `'none'`.
   */
  readonly trustedProxies?: TrustedProxies | undefined;
  /** The one header that names the client; the two are never mixed. Default: `'x-forwarded-for'`. */
  readonly source?: ForwardingHeader | undefined;
  /** IPv6 clients are counted per network with a prefix of this length, 32 to 64. Default: 64. */
  readonly ipv6Prefix?: number | undefined;
}

/** What an adapter knows of a request. */
export interface AddressFacts {
  /** The socket's peer as the platform spells it; undefined if unknown (Unix socket, edge runtime). */
  readonly peer: string | undefined;
  /** All lines of a header in order of arrival, by its lower-case name; empty when there is none. */
  readonly headerLines: (name: string) => readonly string[];
  /**
   * True if the request has none of the headers in which proxies name clients: then none is looked for. Default:
   * unknown.
   */
  readonly isDirect?: boolean | undefined;
}

/**
 * What looked wrong. `untrustedHeader`: a forwarding header was ignored, because its sender is not trusted. `junk`: an
 * entry that a trusted proxy vouches for is not an address. `tooFewHops`: fewer entries than `hops`. `tooManyEntries`:
 * more trusted hops than are read.
 */
export type AddressOddity = 'untrustedHeader' | 'junk' | 'tooFewHops' | 'tooManyEntries';

export interface ClientAddress {
  /**
   * The client's own address in its one canonical spelling: `203.0.113.7`, `2001:db8::1`. Undefined if it is unknown.
   */
  readonly address: string | undefined;
  /**
   * What to count by: an IPv4 address as it is, an IPv6 address as its network, `2001:db8:1:2::/64`. Undefined without
   * an address.
   */
  readonly key: string | undefined;
  /** Who said so: the socket, or the header that `source` names. */
  readonly from: 'peer' | 'header';
  readonly oddity: AddressOddity | undefined;
}

const OPTIONS = ['trustedProxies', 'source', 'ipv6Prefix'];
const MIN_IPV6_PREFIX = 32;
const MAX_IPV6_PREFIX = 64;
const MAX_STRANGERS = 4096;
/** Longer than any address that a socket spells. */
const MAX_STRANGER_LENGTH = 64;

/**
 * Says who sent a request: the socket's peer, unless that is a trusted proxy; then what the proxy says, as far as it
 * can be trusted.
 *
 * @example
 * const clientOf = clientAddress({ trustedProxies: ['10.0.0.0/8'] });
 * const { key } = clientOf({ peer: socket.remoteAddress, headerLines: (name) => request.headersDistinct[name] ?? [] });
 */
export function clientAddress(options: ClientAddressOptions = {}): (facts: AddressFacts) => ClientAddress {
  requireOptions(options);
  const { trustedProxies = 'none', source = 'x-forwarded-for', ipv6Prefix = MAX_IPV6_PREFIX } = options;
  const trust = toTrust(trustedProxies);
  const strangers = new RecentStrangers();

  return (facts) => {
    const stranger = strangers.get(facts.peer);
    if (stranger !== undefined) return carriesForwarding(facts) ? strange(stranger) : stranger;
    const peer = facts.peer === undefined ? undefined : parseNode(facts.peer);
    if (trust.trusts(peer, 0)) {
      return named(follow(peer, trust, new HopsFromRight(source, facts.headerLines(source))), ipv6Prefix);
    }
    const client = named({ client: peer, from: 'peer' }, ipv6Prefix);
    strangers.set(facts.peer, client);
    return carriesForwarding(facts) ? strange(client) : client;
  };
}

/** Says whether a socket's peer is a proxy that may name the client, by the same options as `clientAddress()`. */
export function peerTrust({
  trustedProxies = 'none',
}: ClientAddressOptions): (peer: string | undefined) => boolean {
  const trust = toTrust(trustedProxies);
  return (peer) => trust.trusts(peer === undefined ? undefined : parseNode(peer), 0);
}

/**
 * Who was seen last among those that are not trusted, so that a connection's address is read once and not with every
 * request.
 */
class RecentStrangers {
  private readonly clients = new Map<string, ClientAddress>();

  get(peer: string | undefined): ClientAddress | undefined {
    return peer === undefined ? undefined : this.clients.get(peer);
  }

  set(peer: string | undefined, client: ClientAddress): void {
    if (peer === undefined || peer.length > MAX_STRANGER_LENGTH) return;
    if (this.clients.size >= MAX_STRANGERS) this.clients.clear();
    this.clients.set(peer, client);
  }
}

interface Finding {
  readonly client: IpAddress | undefined;
  readonly from: 'peer' | 'header';
  readonly oddity?: AddressOddity;
}

/**
 * From hop to hop, as long as the last one may say who stands before it. Junk ends the way: what it hides is not
 * skipped.
 */
function follow(peer: IpAddress | undefined, trust: Trust, hops: HopsFromRight): Finding {
  let found: Finding = { client: peer, from: 'peer' };
  for (let hop = 0; trust.trusts(found.client, hop); hop += 1) {
    const entry = hops.next();
    if (entry === undefined) {
      return trust.needsEveryHop ? { client: peer, from: 'peer', oddity: 'tooFewHops' } : found;
    }
    if (hop === MAX_HOPS) return { ...found, oddity: 'tooManyEntries' };
    const client = hops.addressOf(entry);
    if (client === undefined) return { ...found, oddity: 'junk' };
    found = { client, from: 'header' };
  }
  return found;
}

function carriesForwarding(facts: AddressFacts): boolean {
  return facts.isDirect !== true && FORWARDING_HEADERS.some((name) => facts.headerLines(name).length > 0);
}

/** A client that is not trusted and sent a header that only a proxy has to send: the header is ignored. */
function strange(client: ClientAddress): ClientAddress {
  return { ...client, oddity: 'untrustedHeader' };
}

function named({ client, from, oddity }: Finding, ipv6Prefix: number): ClientAddress {
  if (client === undefined) return { address: undefined, key: undefined, from, oddity };
  const own = withoutNat64(client);
  const address = formatAddress(own);
  return { address, key: isIpv4(own) ? address : formatNetwork(own, ipv6Prefix), from, oddity };
}

function requireOptions(options: ClientAddressOptions): void {
  requireOptionNames('The options of clientAddress()', options, OPTIONS);
  const { source, ipv6Prefix } = options;
  if (source !== undefined && !FORWARDING_HEADERS.includes(source)) {
    throw new LimiterError(
      'INVALID_OPTION',
      `source is ${show(source)}; choose one of ${FORWARDING_HEADERS.map(show).join(', ')}: the header that your proxy writes.`,
    );
  }
  if (
    ipv6Prefix !== undefined &&
    !(Number.isInteger(ipv6Prefix) && ipv6Prefix >= MIN_IPV6_PREFIX && ipv6Prefix <= MAX_IPV6_PREFIX)
  ) {
    throw new LimiterError(
      'INVALID_OPTION',
      `ipv6Prefix is ${show(ipv6Prefix)}; expected an integer from ${MIN_IPV6_PREFIX} to ${MAX_IPV6_PREFIX}: a client can choose every bit behind the 64th.`,
    );
  }
}
