/** The 16-bit groups of an address: two are IPv4, eight are IPv6. */
export type IpAddress = readonly number[];

/** All addresses whose groups, masked, are these. */
export type AddressRange = readonly { readonly bits: number; readonly mask: number }[];

const GROUP_BITS = 16;
const IPV6_GROUPS = 8;
/** `::ffff:0:0/96` (RFC 4291 §2.5.5.2): how a socket for both families spells an IPv4 peer. */
const IPV4_MAPPED: readonly number[] = [0, 0, 0, 0, 0, 0xffff];
/** `64:ff9b::/96` (RFC 6052 §2.1): how a translator spells an IPv4 client to an IPv6 server. */
const NAT64: readonly number[] = [0x64, 0xff9b, 0, 0, 0, 0];

const ZEROS: readonly number[] = [0, 0, 0, 0, 0, 0, 0, 0];

const DOT = 0x2e;
const ZERO = 0x30;
const COLON = 0x3a;

/**
 * Strict: four decimal numbers without leading zeros, or RFC 4291 text. None of the forms that `inet_aton` takes
 * (`127.1`, `0x7f.1`, `2130706433`), no port, no zone, no spaces. An IPv4-mapped address is the IPv4 address.
 */
export function parseAddress(text: string): IpAddress | undefined {
  if (!text.includes(':')) return parseIpv4(text, 0);
  // Only a shortcut: this is how Node.js spells nearly every IPv4 peer.
  const peer = text.startsWith('::ffff:') ? parseIpv4(text, 7) : undefined;
  if (peer !== undefined) return peer;
  const groups = parseIpv6(text);
  return groups !== undefined && isBelow(IPV4_MAPPED, groups) ? groups.slice(-2) : groups;
}

export function isIpv4(address: IpAddress): boolean {
  return address.length === 2;
}

export function bitsOf(address: IpAddress): number {
  return address.length * GROUP_BITS;
}

/** IPv4 for a client behind the well-known NAT64 prefix, else the address itself. */
export function withoutNat64(address: IpAddress): IpAddress {
  return isBelow(NAT64, address) ? address.slice(-2) : address;
}

/** Dotted decimal, or the one spelling of RFC 5952. */
export function formatAddress(address: IpAddress): string {
  return isIpv4(address) ? formatIpv4(address) : formatIpv6(address);
}

/** The network that an address belongs to, such as `2001:db8:1:2::/64`. */
export function formatNetwork(address: IpAddress, prefixBits: number): string {
  return `${formatAddress(networkOf(address, prefixBits))}/${prefixBits}`;
}

/** Whether an address is the first of its network. */
export function isNetwork(address: IpAddress, prefixBits: number): boolean {
  return networkOf(address, prefixBits).every((group, at) => group === address[at]);
}

export function rangeOf(address: IpAddress, prefixBits: number): AddressRange {
  return address.map((group, at) => {
    const mask = maskOf(at, prefixBits);
    return { bits: group & mask, mask };
  });
}

/**
 * An IPv4 address is in no IPv6 range, not even in `::/1`: trusting a piece of IPv6 does not mean trusting all of IPv4.
 */
export function isInRange(address: IpAddress, range: AddressRange): boolean {
  if (address.length !== range.length) return false;
  return range.every(({ bits, mask }, at) => ((address[at] ?? 0) & mask) === bits);
}

function networkOf(address: IpAddress, prefixBits: number): IpAddress {
  return address.map((group, at) => group & maskOf(at, prefixBits));
}

function parseIpv4(text: string, from: number): readonly [number, number] | undefined {
  let bits = 0;
  let at = from;
  for (let octets = 1; octets <= 4; octets += 1) {
    const start = at;
    let octet = 0;
    while (isDecimalDigit(text.charCodeAt(at)) && at - start < 3) {
      octet = octet * 10 + text.charCodeAt(at) - ZERO;
      at += 1;
    }
    const isPadded = at - start > 1 && text.charCodeAt(start) === ZERO;
    if (at === start || isPadded || octet > 255) return undefined;
    bits = bits * 256 + octet;
    if (octets < 4 && text.charCodeAt(at) !== DOT) return undefined;
    if (octets < 4) at += 1;
  }
  return at === text.length ? [bits >>> GROUP_BITS, bits & 0xffff] : undefined;
}

function parseIpv6(text: string): readonly number[] | undefined {
  const groups: number[] = [];
  /** How many groups stand before `::`; -1 without one. */
  let gapAt = text.startsWith('::') ? 0 : -1;
  let at = gapAt === 0 ? 2 : 0;
  while (at < text.length) {
    const end = groupEnd(text, at);
    if (text.charCodeAt(end) === DOT) {
      const tail = parseIpv4(text, at);
      if (tail === undefined) return undefined;
      groups.push(tail[0], tail[1]);
      break;
    }
    if (end === at) return undefined;
    groups.push(hexValue(text, at, end));
    if (end === text.length) break;
    if (text.charCodeAt(end) !== COLON || end + 1 === text.length) return undefined;
    at = end + 1;
    if (text.charCodeAt(at) === COLON) {
      if (gapAt >= 0) return undefined;
      gapAt = groups.length;
      at += 1;
    }
  }
  return fillGap(groups, gapAt);
}

/** `::` stands for at least one group. */
function fillGap(groups: readonly number[], gapAt: number): readonly number[] | undefined {
  const missing = IPV6_GROUPS - groups.length;
  if (gapAt < 0) return missing === 0 ? groups : undefined;
  if (missing < 1) return undefined;
  return [...groups.slice(0, gapAt), ...ZEROS.slice(0, missing), ...groups.slice(gapAt)];
}

/** Where up to four hex digits end. */
function groupEnd(text: string, from: number): number {
  let at = from;
  while (at - from < 4 && hexDigit(text.charCodeAt(at)) >= 0) at += 1;
  return at;
}

function hexValue(text: string, from: number, end: number): number {
  let value = 0;
  for (let at = from; at < end; at += 1) value = value * 16 + hexDigit(text.charCodeAt(at));
  return value;
}

/** Past the end a code is NaN, which is not a digit. */
function isDecimalDigit(code: number): boolean {
  return code >= ZERO && code <= 0x39;
}

/** 0 to 15, or -1. */
function hexDigit(code: number): number {
  if (isDecimalDigit(code)) return code - ZERO;
  // The bit between upper and lower case.
  const lower = code | 0x20;
  return lower >= 0x61 && lower <= 0x66 ? lower - 0x61 + 10 : -1;
}

/** Whether an IPv6 address begins with these groups. */
function isBelow(prefix: readonly number[], address: IpAddress): boolean {
  return address.length === IPV6_GROUPS && prefix.every((group, at) => address[at] === group);
}

function maskOf(groupAt: number, prefixBits: number): number {
  const ones = Math.min(Math.max(prefixBits - groupAt * GROUP_BITS, 0), GROUP_BITS);
  return (0xffff << (GROUP_BITS - ones)) & 0xffff;
}

function formatIpv4(address: IpAddress): string {
  const [high = 0, low = 0] = address;
  return `${high >> 8}.${high & 0xff}.${low >> 8}.${low & 0xff}`;
}

function formatIpv6(address: IpAddress): string {
  const { from, length } = longestZeros(address);
  if (length < 2) return formatGroups(address, 0, IPV6_GROUPS);
  return `${formatGroups(address, 0, from)}::${formatGroups(address, from + length, IPV6_GROUPS)}`;
}

function formatGroups(address: IpAddress, from: number, end: number): string {
  let text = '';
  for (let at = from; at < end; at += 1) {
    text += (at === from ? '' : ':') + (address[at] ?? 0).toString(16);
  }
  return text;
}

/** The first of the longest runs of zeros. */
function longestZeros(address: IpAddress): { readonly from: number; readonly length: number } {
  let longest = 0;
  let longestFrom = 0;
  let from = 0;
  for (let at = 0; at < IPV6_GROUPS; at += 1) {
    if (address[at] !== 0) from = at + 1;
    if (at + 1 - from <= longest) continue;
    longest = at + 1 - from;
    longestFrom = from;
  }
  return { from: longestFrom, length: longest };
}
