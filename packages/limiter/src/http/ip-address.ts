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

const DOT = 0x2e;
const ZERO = 0x30;
const COLON = 0x3a;

/**
 * Strict: four decimal numbers without leading zeros, or RFC 4291 text. None of the forms that `inet_aton` takes (`127.1`,
 * `0x7f.1`, `2130706433`), no port, no zone, no spaces. An IPv4-mapped address is the IPv4 address.
 */
export function parseAddress(text: string): IpAddress | undefined {
  if (!text.includes(':')) return parseIpv4(text, 0);
  const groups = parseIpv6(text);
  return groups !== undefined && startsWith(groups, IPV4_MAPPED) ? groups.slice(-2) : groups;
}

export function isIpv4(address: IpAddress): boolean {
  return address.length === 2;
}

export function bitsOf(address: IpAddress): number {
  return address.length * GROUP_BITS;
}

/** IPv4 for a client behind the well-known NAT64 prefix, else the address itself. */
export function withoutNat64(address: IpAddress): IpAddress {
  return startsWith(address, NAT64) ? address.slice(-2) : address;
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

/** An IPv4 address is in no IPv6 range, not even in `::/1`: whoever trusts a piece of IPv6 does not mean all of IPv4. */
export function isInRange(address: IpAddress, range: AddressRange): boolean {
  if (address.length !== range.length) return false;
  return range.every(({ bits, mask }, at) => ((address[at] ?? 0) & mask) === bits);
}

function networkOf(address: IpAddress, prefixBits: number): IpAddress {
  return address.map((group, at) => group & maskOf(at, prefixBits));
}

function parseIpv4(text: string, from: number): [number, number] | undefined {
  let bits = 0;
  let octets = 0;
  let at = from;
  while (octets < 4) {
    const end = decimalEnd(text, at);
    const octet = octetOf(text, at, end);
    if (octet === undefined) return undefined;
    bits = bits * 256 + octet;
    octets += 1;
    at = end + 1;
    if (octets < 4 && text.charCodeAt(end) !== DOT) return undefined;
  }
  return at === text.length + 1 ? [bits >>> GROUP_BITS, bits & 0xffff] : undefined;
}

function octetOf(text: string, from: number, end: number): number | undefined {
  const digits = end - from;
  if (digits < 1 || digits > 3 || (digits > 1 && text.charCodeAt(from) === ZERO)) return undefined;
  const octet = Number(text.slice(from, end));
  return octet <= 255 ? octet : undefined;
}

function parseIpv6(text: string): readonly number[] | undefined {
  const groups: number[] = [];
  /** How many groups stand before `::`. */
  let gapAt = text.startsWith('::') ? 0 : undefined;
  let at = gapAt === undefined ? 0 : 2;
  while (at < text.length) {
    const end = hexEnd(text, at);
    if (text.charCodeAt(end) === DOT) {
      const tail = parseIpv4(text, at);
      if (tail === undefined) return undefined;
      groups.push(...tail);
      break;
    }
    if (end === at || end - at > 4) return undefined;
    groups.push(Number.parseInt(text.slice(at, end), 16));
    if (end === text.length) break;
    if (text.charCodeAt(end) !== COLON) return undefined;
    at = end + 1;
    if (text.charCodeAt(at) === COLON) {
      if (gapAt !== undefined) return undefined;
      gapAt = groups.length;
      at += 1;
    } else if (at === text.length) return undefined;
  }
  return fillGap(groups, gapAt);
}

/** `::` stands for at least one group. */
function fillGap(groups: readonly number[], gapAt: number | undefined): readonly number[] | undefined {
  const missing = IPV6_GROUPS - groups.length;
  if (gapAt === undefined) return missing === 0 ? groups : undefined;
  if (missing < 1) return undefined;
  return [...groups.slice(0, gapAt), ...zeros(missing), ...groups.slice(gapAt)];
}

function zeros(count: number): number[] {
  return Array.from({ length: count }, () => 0);
}

function decimalEnd(text: string, from: number): number {
  let at = from;
  while (isDecimalDigit(text.charCodeAt(at))) at += 1;
  return at;
}

function hexEnd(text: string, from: number): number {
  let at = from;
  while (isHexDigit(text.charCodeAt(at))) at += 1;
  return at;
}

/** Past the end a code is NaN, which is no digit. */
function isDecimalDigit(code: number): boolean {
  return code >= ZERO && code <= 0x39;
}

function isHexDigit(code: number): boolean {
  return isDecimalDigit(code) || (code >= 0x61 && code <= 0x66) || (code >= 0x41 && code <= 0x46);
}

function startsWith(address: IpAddress, prefix: readonly number[]): boolean {
  return address.length > prefix.length && prefix.every((group, at) => address[at] === group);
}

function maskOf(groupAt: number, prefixBits: number): number {
  const ones = Math.min(Math.max(prefixBits - groupAt * GROUP_BITS, 0), GROUP_BITS);
  return 0x1_00_00 - 2 ** (GROUP_BITS - ones);
}

function formatIpv4(address: IpAddress): string {
  return address.map((group) => `${group >> 8}.${group & 0xff}`).join('.');
}

function formatIpv6(address: IpAddress): string {
  const { from, length } = longestZeros(address);
  if (length < 2) return formatGroups(address);
  return `${formatGroups(address.slice(0, from))}::${formatGroups(address.slice(from + length))}`;
}

function formatGroups(groups: readonly number[]): string {
  return groups.map((group) => group.toString(16)).join(':');
}

/** The first of the longest runs of zeros. */
function longestZeros(address: IpAddress): { readonly from: number; readonly length: number } {
  let longest = { from: 0, length: 0 };
  let from = 0;
  for (const [at, group] of address.entries()) {
    if (group !== 0) from = at + 1;
    else if (at + 1 - from > longest.length) longest = { from, length: at + 1 - from };
  }
  return longest;
}
