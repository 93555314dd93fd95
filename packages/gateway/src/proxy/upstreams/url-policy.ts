import { isIP } from 'node:net';
import { networkInterfaces } from 'node:os';
import type { Config } from '../../config/config.ts';
import { canonicalAddress, isForbiddenAddress } from './forbidden-networks.ts';

/** Where the gateway itself listens. A host of `0.0.0.0` or `::` stands for every address of this machine. */
export interface OwnListener {
  readonly host: string;
  readonly port: number;
}

export type RefusalReason =
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
export interface Refused {
  readonly refused: RefusalReason;
  /** For logs. */
  readonly detail: string;
}

/** A URL that may be followed by its name; the address is checked when it is dialled. */
export interface AllowedUrl {
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
