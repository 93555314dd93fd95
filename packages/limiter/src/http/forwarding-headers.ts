import { commaBefore, forwardedFor, isSpace } from './forwarded.ts';
import { parseAddress, type IpAddress } from './ip-address.ts';

export type ForwardingHeader = 'x-forwarded-for' | 'forwarded';

export const FORWARDING_HEADERS: readonly ForwardingHeader[] = ['x-forwarded-for', 'forwarded'];

/** Where proxies name the client. The last three are compared, and never believed. */
export const NAMING_HEADERS: readonly string[] = [
  ...FORWARDING_HEADERS,
  'x-real-ip',
  'cf-connecting-ip',
  'true-client-ip',
];

/** The hops that a header lists, from the right over all of its lines. Looks at no more of it than it is asked for. */
export class HopsFromRight {
  private readonly notation: Notation;
  private readonly lines: readonly string[];
  private lineAt: number;
  /** Where the next entry ends; undefined at the end of a line. */
  private end: number | undefined;

  constructor(header: ForwardingHeader, lines: readonly string[]) {
    this.notation = NOTATIONS[header];
    this.lines = lines;
    this.lineAt = lines.length - 1;
  }

  /** The next entry to the left; undefined when there is none. */
  next(): string | undefined {
    const line = this.lines[this.lineAt];
    if (line === undefined) return undefined;
    const end = this.end ?? line.length;
    const comma = this.notation.commaBefore(line, end);
    if (comma < 0) this.lineAt -= 1;
    this.end = comma < 0 ? undefined : comma;
    return line.slice(comma + 1, end);
  }

  /** Undefined for junk: what does not name an address. */
  addressOf(entry: string): IpAddress | undefined {
    return this.notation.addressOf(entry);
  }
}

interface Notation {
  /** The index of the comma in front of the entry that ends at `end`, or -1 in front of the first one. */
  readonly commaBefore: (line: string, end: number) => number;
  readonly addressOf: (entry: string) => IpAddress | undefined;
}

const NOTATIONS: Readonly<Record<ForwardingHeader, Notation>> = {
  'x-forwarded-for': {
    // A negative start would count as 0, and find the comma that ends the entry.
    commaBefore: (line, end) => (end === 0 ? -1 : line.lastIndexOf(',', end - 1)),
    addressOf: (entry) => parseNode(trimSpace(entry)),
  },
  forwarded: {
    commaBefore,
    addressOf: (entry) => {
      const client = forwardedFor(entry);
      return client === undefined || isBareIpv6(client) ? undefined : parseNode(client);
    },
  },
};

/**
 * Whom a header names first: the client, if nobody made it up. For comparison only, since the left end is the client's
 * to write.
 */
export function leftmostAddress(header: string, lines: readonly string[]): IpAddress | undefined {
  const [line] = lines;
  if (line === undefined) return undefined;
  const comma = line.indexOf(',');
  const notation = NOTATIONS[header === 'forwarded' ? 'forwarded' : 'x-forwarded-for'];
  return notation.addressOf(comma < 0 ? line : line.slice(0, comma));
}

/** An address takes at most 45 characters; the rest is for brackets, the name of a network interface, and a port. */
const MAX_NODE_LENGTH = 100;

/**
 * An address as sockets and proxies write it: `1.2.3.4`, `1.2.3.4:5678`, `2001:db8::1`, `[2001:db8::1]:80`,
 * `fe80::1%eth0`. Port and zone are dropped: they do not say who someone is.
 */
export function parseNode(text: string): IpAddress | undefined {
  if (text.length > MAX_NODE_LENGTH) return undefined;
  if (text.startsWith('[')) {
    const closing = text.indexOf(']');
    if (closing < 0 || !PORT_OR_NOTHING.test(text.slice(closing + 1))) return undefined;
    return parseIpv6WithZone(text.slice(1, closing));
  }
  const colon = text.indexOf(':');
  if (colon < 0) return parseAddress(text);
  if (isBareIpv6(text)) return parseIpv6WithZone(text);
  return PORT_OR_NOTHING.test(text.slice(colon)) ? parseAddress(text.slice(0, colon)) : undefined;
}

/** `node-port` of RFC 7239 §6: a number, or an obfuscated one. */
const PORT_OR_NOTHING = /^(?::(?:\d{1,5}|_[\w.-]+))?$/;
/** Whatever an interface is called; colons and brackets would leave doubt about where it ends. */
const ZONE = /^[!-9;-Z\\^-~]+$/;

function parseIpv6WithZone(text: string): IpAddress | undefined {
  const percent = text.indexOf('%');
  if (percent < 0) return text.includes(':') ? parseAddress(text) : undefined;
  const address = text.slice(0, percent);
  return address.includes(':') && ZONE.test(text.slice(percent + 1)) ? parseAddress(address) : undefined;
}

/** Two colons, no brackets: allowed in X-Forwarded-For and for sockets, but not in `Forwarded` (RFC 7239 §6). */
function isBareIpv6(text: string): boolean {
  return !text.startsWith('[') && text.indexOf(':') !== text.lastIndexOf(':');
}

/** Spaces and tabs only: other white space is not part of HTTP, and what contains it is junk. */
function trimSpace(text: string): string {
  let from = 0;
  let end = text.length;
  while (from < end && isSpace(text.charCodeAt(from))) from += 1;
  while (end > from && isSpace(text.charCodeAt(end - 1))) end -= 1;
  return text.slice(from, end);
}
