import { isIP, BlockList } from 'node:net';
import { networkInterfaces } from 'node:os';
import type { Config } from '../../config/config.ts';
import type { ClientTls, ResolveAll } from '../../http-client/index.ts';
import type { Log } from '../../telemetry/log.ts';
import { PooledUpstream, type PoolSettings, type Upstream } from './pooled-upstream.ts';

export interface TenantBackendsOptions extends UrlPolicyOptions {
  readonly urlPolicy: Config['backend']['url_policy'];
  readonly pool: PoolSettings;
  readonly dialTimeoutMs: number;
  readonly tls: ClientTls;
  readonly log: Log;
  /** Default: 1,000. */
  readonly maxBackends?: number;
  /** Left out: the system's resolver. */
  readonly resolve?: ResolveAll | undefined;
}

type TenantBackend = { readonly refused: undefined; readonly upstream: Upstream } | Refused;

const MAX_BACKENDS = 1000;

/** The backends that the external service names: each with connections of its own, and at most so many at a time. */
export class TenantBackends {
  private readonly options: TenantBackendsOptions;
  private readonly policy: UrlPolicy;
  private readonly max: number;
  /** The one that was not used for the longest time comes first. */
  private readonly byOrigin = new Map<string, PooledUpstream>();
  private readonly allowed = new Map<string, AllowedUrl>();
  /** Put out of the map and not yet done with their last requests. */
  private readonly leaving = new Set<PooledUpstream>();

  constructor(options: TenantBackendsOptions) {
    this.options = options;
    this.policy = new UrlPolicy(options.urlPolicy, options);
    this.max = options.maxBackends ?? MAX_BACKENDS;
  }

  get size(): number {
    return this.byOrigin.size;
  }

  /** The server that a URL names, or why it is not used. The address is checked when it is dialled. */
  for(url: string): TenantBackend {
    const allowed = this.check(url);
    if (allowed.refused !== undefined) return allowed;
    const upstream = this.byOrigin.get(allowed.origin) ?? this.open(allowed);
    this.byOrigin.delete(allowed.origin);
    this.byOrigin.set(allowed.origin, upstream);
    this.evict();
    return { refused: undefined, upstream };
  }

  /** Parsing costs more than all the rest; the same few URLs come again and again. */
  private check(url: string): AllowedUrl | Refused {
    const known = this.allowed.get(url);
    if (known !== undefined) return known;
    const checked = this.policy.check(url);
    if (checked.refused !== undefined) return checked;
    if (this.allowed.size >= this.max) this.allowed.clear();
    this.allowed.set(url, checked);
    return checked;
  }

  async close(options: { readonly force?: boolean } = {}): Promise<void> {
    const all = [...this.byOrigin.values(), ...this.leaving];
    this.byOrigin.clear();
    await Promise.all(all.map(async (upstream) => upstream.close(options)));
  }

  private open({ origin, host, port }: AllowedUrl): PooledUpstream {
    const { pool, dialTimeoutMs, resolve } = this.options;
    // `server_name` is for the configured servers; this one has to show a certificate for the host that the URL names.
    const { servername: _configured, ...tls } = this.options.tls;
    return new PooledUpstream(origin, {
      settings: pool,
      tls,
      dialTimeoutMs,
      resolve,
      refusesAddress: (address) => this.policy.refusesAddress({ host, port }, address),
    });
  }

  private evict(): void {
    if (this.byOrigin.size <= this.max) return;
    const oldest = this.byOrigin.entries().next().value;
    if (oldest === undefined) return;
    const [origin, upstream] = oldest;
    this.byOrigin.delete(origin);
    this.leaving.add(upstream);
    this.options.log.debug({ upstream: origin }, 'connections to a backend are closed to make room');
    void upstream.close().finally(() => this.leaving.delete(upstream));
  }
}

/** Where the gateway itself listens. A host of `0.0.0.0` or `::` stands for every address of this machine. */
interface OwnListener {
  readonly host: string;
  readonly port: number;
}

type RefusalReason =
  | 'tooLong'
  | 'malformed'
  | 'scheme'
  | 'userinfo'
  | 'path'
  | 'host'
  | 'port'
  | 'address'
  | 'self';

/** A URL that is not followed. */
interface Refused {
  readonly refused: RefusalReason;
  /** For logs. */
  readonly detail: string;
}

/** A URL that may be followed by its name; the address is checked when it is dialled. */
interface AllowedUrl {
  readonly refused: undefined;
  /** In its one spelling: `https://tenant.example:8443`. */
  readonly origin: string;
  /** Without brackets. */
  readonly host: string;
  readonly port: number;
}

export interface UrlPolicyOptions {
  readonly ownListeners?: readonly OwnListener[];
  /** Addresses of this machine. Left out: those that its interfaces have now. */
  readonly ownAddresses?: readonly string[];
}

const MAX_URL_LENGTH = 2048;
const MAX_HOST_LENGTH = 253;
const DEFAULT_PORTS: ReadonlyMap<string, number> = new Map([
  ['http:', 80],
  ['https:', 443],
]);

/** Which backends the external service may name: by name in `check`, by address in `refusesAddress`. */
export class UrlPolicy {
  private readonly settings: Config['backend']['url_policy'];
  private readonly hosts: ReadonlySet<string>;
  private readonly ownListeners: readonly OwnListener[];
  private readonly ownAddresses: ReadonlySet<string>;

  constructor(settings: Config['backend']['url_policy'], options: UrlPolicyOptions = {}) {
    const { ownListeners = [], ownAddresses = addressesOfThisMachine() } = options;
    this.settings = settings;
    this.hosts = new Set(settings.allowed_hosts.map(plainHost));
    this.ownListeners = ownListeners;
    this.ownAddresses = new Set(ownAddresses.map((address) => canonicalAddress(address) ?? address));
  }

  check(text: string): AllowedUrl | Refused {
    if (text.length > MAX_URL_LENGTH) return refuse('tooLong', `${text.length} characters`);
    // Beyond printable ASCII, and backslashes, parsers disagree about what a URL says.
    if (!/^https?:\/\/[!-~]+$/i.test(text) && /^[!-~]*$/.test(text)) return refuse('scheme', text);
    if (!/^[!-~]+$/.test(text) || text.includes('\\') || !URL.canParse(text)) {
      return refuse('malformed', JSON.stringify(text));
    }
    return this.checkParts(new URL(text), text);
  }

  /** Whether a connection to this address, for a URL that names this host, must not be opened. */
  refusesAddress({ host, port }: { readonly host: string; readonly port: number }, address: string): boolean {
    if (this.isSelf(address, port)) return true;
    if (!this.settings.deny_private_networks || this.hosts.has(plainHost(host))) return false;
    return isForbiddenAddress(address);
  }

  private checkParts(url: URL, text: string): AllowedUrl | Refused {
    const { allowed_schemes: schemes, allowed_ports: ports } = this.settings;
    const scheme = schemes.find((candidate) => `${candidate}:` === url.protocol);
    if (scheme === undefined) return refuse('scheme', url.protocol);
    // The URL parser forgets an empty user name; nobody writes one by accident.
    if (/^[^:]+:\/\/[^/?#]*@/.test(text)) return refuse('userinfo', url.host);
    if (url.pathname !== '/' || /[?#]/.test(text)) return refuse('path', url.pathname);

    const host = plainHost(url.hostname);
    if (host === '' || host.length > MAX_HOST_LENGTH || host.endsWith('.')) return refuse('host', host);
    if (this.hosts.size > 0 && !this.hosts.has(host)) return refuse('host', host);
    const port = url.port === '' ? (DEFAULT_PORTS.get(url.protocol) ?? 0) : Number(url.port);
    if (port === 0 || (ports.length > 0 && !ports.includes(port))) return refuse('port', String(port));
    if (this.isSelf(host, port)) return refuse('self', `${host}:${port}`);
    if (isIP(host) !== 0 && this.refusesAddress({ host, port }, host)) return refuse('address', host);

    const shown = isIP(host) === 6 ? `[${host}]` : host;
    return { refused: undefined, origin: new URL(`${scheme}://${shown}:${port}`).origin, host, port };
  }

  private isSelf(address: string, port: number): boolean {
    return this.ownListeners.some((own) => {
      if (own.port !== port) return false;
      if (isUnspecified(own.host)) return this.isOfThisMachine(address);
      const canonical = canonicalAddress(address);
      // 0.0.0.0 is not a host; dialling it reaches this machine.
      return (
        canonical !== undefined && (isUnspecified(canonical) || canonical === canonicalAddress(own.host))
      );
    });
  }

  private isOfThisMachine(address: string): boolean {
    const canonical = canonicalAddress(address);
    if (canonical === undefined) return false;
    return (
      isUnspecified(canonical) ||
      canonical.startsWith('127.') ||
      canonical === '0:0:0:0:0:0:0:1' ||
      this.ownAddresses.has(canonical)
    );
  }
}

/** In lower case, without one trailing dot, without brackets. Names are compared as text, never unpacked. */
function plainHost(host: string): string {
  return host
    .toLowerCase()
    .replace(/^\[|\]$/g, '')
    .replace(/\.$/, '');
}

function addressesOfThisMachine(): readonly string[] {
  return Object.values(networkInterfaces()).flatMap((addresses = []) =>
    addresses.map(({ address }) => address),
  );
}

function isUnspecified(address: string): boolean {
  const canonical = canonicalAddress(address);
  return address === '' || canonical === '0.0.0.0' || canonical === '0:0:0:0:0:0:0:0';
}

function refuse(refused: RefusalReason, detail: string): Refused {
  return { refused, detail };
}

// Which addresses a name from outside may never lead to: https://www.iana.org/assignments/iana-ipv4-special-registry
// and its twin for IPv6.
const FORBIDDEN_IPV4: readonly (readonly [network: string, bits: number])[] = [
  ['0.0.0.0', 8], // this host
  ['10.0.0.0', 8], // private
  ['100.64.0.0', 10], // behind a carrier's NAT; Alibaba's metadata
  ['127.0.0.0', 8], // loopback
  ['168.63.129.16', 32], // Azure's metadata, in public space
  ['169.254.0.0', 16], // link-local; metadata of most clouds
  ['172.16.0.0', 12], // private
  ['192.0.0.0', 24], // protocol assignments; Oracle's metadata
  ['192.0.2.0', 24], // documentation
  ['192.88.99.0', 24], // 6to4 relays
  ['192.168.0.0', 16], // private
  ['198.18.0.0', 15], // benchmarks
  ['198.51.100.0', 24], // documentation
  ['203.0.113.0', 24], // documentation
  ['224.0.0.0', 4], // multicast
  ['240.0.0.0', 4], // reserved, broadcast
];

/** Within 2000::/3; everything outside of it is forbidden anyway. */
const FORBIDDEN_IPV6: readonly (readonly [network: string, bits: number])[] = [
  ['2001::', 23], // protocol assignments: Teredo, ORCHID, benchmarks
  ['2001:db8::', 32], // documentation
  ['2002::', 16], // 6to4: an IPv4 address in disguise
  ['3fff::', 20], // documentation
];

const GLOBAL_UNICAST = listOf([['2000::', 3]], 'ipv6');
const NAT64 = listOf([['64:ff9b::', 96]], 'ipv6');
const IPV4 = listOf(FORBIDDEN_IPV4, 'ipv4');
const IPV6 = listOf(FORBIDDEN_IPV6, 'ipv6');

/**
 * Whether an address is private, local, reserved, or one of these in disguise. What is not an address is forbidden,
 * too.
 */
export function isForbiddenAddress(address: string): boolean {
  const family = isIP(address);
  if (family === 4) return IPV4.check(address, 'ipv4');
  // A zone names an interface of this machine.
  if (family !== 6 || address.includes('%')) return true;
  // Where DNS64 is at work this is how servers with only IPv4 look.
  if (NAT64.check(address, 'ipv6')) return IPV4.check(lastAsIpv4(address), 'ipv4');
  return !GLOBAL_UNICAST.check(address, 'ipv6') || IPV6.check(address, 'ipv6') || isIsatap(address);
}

/** The one spelling of an address; IPv4 in IPv6 is IPv4. Undefined for what is not an address. */
export function canonicalAddress(address: string): string | undefined {
  const family = isIP(address);
  if (family === 4) return address;
  if (family !== 6) return undefined;
  const groups = groupsOf(address);
  const mapped = groups.slice(0, 5).every((group) => group === 0) && groups[5] === 0xff_ff;
  return mapped ? lastAsIpv4(address) : groups.map((group) => group.toString(16)).join(':');
}

/** RFC 5214: an interface identifier that ends in an IPv4 address, which the network may unpack. */
function isIsatap(address: string): boolean {
  const [, , , , fifth = 0, sixth] = groupsOf(address);
  return (fifth & ~0x02_00) === 0 && sixth === 0x5e_fe;
}

function lastAsIpv4(address: string): string {
  const [high = 0, low = 0] = groupsOf(address).slice(6);
  return [high >> 8, high & 0xff, low >> 8, low & 0xff].join('.');
}

/** The eight groups of a valid IPv6 address. The URL parser writes all spellings, dotted quads included, in one way. */
function groupsOf(address: string): readonly number[] {
  const bare = address.replace(/%.*$/, '');
  const [head = '', tail] = new URL(`http://[${bare}]/`).hostname.slice(1, -1).split('::');
  const left = parseGroups(head);
  if (tail === undefined) return left;
  const right = parseGroups(tail);
  return [...left, ...Array.from({ length: 8 - left.length - right.length }, () => 0), ...right];
}

function parseGroups(text: string): readonly number[] {
  return text === '' ? [] : text.split(':').map((group) => Number.parseInt(group, 16));
}

function listOf(networks: readonly (readonly [string, number])[], family: 'ipv4' | 'ipv6'): BlockList {
  const list = new BlockList();
  for (const [network, bits] of networks) list.addSubnet(network, bits, family);
  return list;
}
