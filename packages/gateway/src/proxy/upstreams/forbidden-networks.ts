// Which addresses a name from outside may never lead to: https://www.iana.org/assignments/iana-ipv4-special-registry
// and its twin for IPv6.
import { BlockList, isIP } from 'node:net';

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
