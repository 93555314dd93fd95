import type { Config } from '../config/config.ts';
import type { KeyReader } from './key-reader.ts';
import { isIP, isIPv4 } from 'node:net';

type KeyList = Config['rate_limit']['allow'];

/** Who is on a list: of the whole configuration, or of a rule. Undefined where the list is empty. */
export interface AccessList {
  readonly addresses: AddressList | undefined;
  /** Keys as each reader of the rule reads them, in its order. */
  readonly keys: readonly ReadonlySet<string>[] | undefined;
}

/** `isMeant` says by which readers the keys of the list are meant. */
export function accessList(
  { cidrs, keys }: KeyList,
  readers: readonly KeyReader[],
  isMeant: (reader: KeyReader) => boolean,
): AccessList | undefined {
  if (cidrs.length === 0 && keys.length === 0) return undefined;
  return {
    addresses: cidrs.length === 0 ? undefined : new AddressList(cidrs),
    keys:
      keys.length === 0
        ? undefined
        : readers.map((reader) => new Set(isMeant(reader) ? keys.map((key) => reader.written(key)) : [])),
  };
}

/** Whether a client is on the list by its address or by one of its keys; what was no key is on no list. */
export function isListed(
  { addresses, keys }: AccessList,
  address: string | undefined,
  read: readonly unknown[],
): boolean {
  if (addresses !== undefined && address !== undefined && addresses.has(address)) return true;
  return keys !== undefined && keys.some((set, at) => isIn(set, read[at]));
}

function isIn(set: ReadonlySet<string>, key: unknown): boolean {
  return typeof key === 'string' && set.has(key);
}

/** `::ffff:0:0/96`: IPv4 addresses as IPv6 writes them. */
const MAPPED_PREFIX = 0xffffn;
const MAPPED_BITS = 96;

/** The same prefix of addresses, by its length. */
type Networks<Value> = Map<number, Set<Value>>;

/** Whether an address lies in one of many networks: one look per length of prefix, however many there are. */
export class AddressList {
  private readonly ipv4: Networks<number> = new Map();
  private readonly ipv6: Networks<bigint> = new Map();

  /** Addresses and ranges as the configuration accepts them. */
  constructor(networks: readonly string[]) {
    for (const network of networks) this.add(network);
  }

  has(address: string): boolean {
    if (isIPv4(address)) {
      const value = ipv4Value(address);
      for (const [bits, values] of this.ipv4) if (values.has(ipv4Prefix(value, bits))) return true;
      return false;
    }
    if (this.ipv6.size === 0 || isIP(address) === 0) return false;
    const value = ipv6Value(address);
    for (const [bits, values] of this.ipv6) if (values.has(ipv6Prefix(value, bits))) return true;
    return false;
  }

  private add(network: string): void {
    const [address = '', given] = network.split('/');
    if (isIPv4(address)) {
      const bits = Number(given ?? 32);
      put(this.ipv4, bits, ipv4Prefix(ipv4Value(address), bits));
      return;
    }
    const [value, bits] = [ipv6Value(address), Number(given ?? 128)];
    // Clients are known by their IPv4 address where they have one.
    if (bits >= MAPPED_BITS && value >> 32n === MAPPED_PREFIX) {
      const ipv4 = Number(value & 0xffff_ffffn);
      put(this.ipv4, bits - MAPPED_BITS, ipv4Prefix(ipv4, bits - MAPPED_BITS));
    } else {
      put(this.ipv6, bits, ipv6Prefix(value, bits));
    }
  }
}

function put<Value>(networks: Networks<Value>, bits: number, value: Value): void {
  const values = networks.get(bits);
  if (values === undefined) networks.set(bits, new Set([value]));
  else values.add(value);
}

function ipv4Value(address: string): number {
  let value = 0;
  for (const part of address.split('.')) value = value * 256 + Number(part);
  return value;
}

function ipv4Prefix(value: number, bits: number): number {
  return Math.floor(value / 2 ** (32 - bits));
}

/** Accepts what `node:net` calls an IPv6 address. A zone says nothing about who it is. */
function ipv6Value(address: string): bigint {
  const [text = ''] = address.split('%');
  const [head = '', tail] = text.split('::');
  const left = groupsOf(head);
  const right = tail === undefined ? [] : groupsOf(tail);
  const zeros = Array.from({ length: 8 - left.length - right.length }, () => 0);
  let value = 0n;
  for (const group of [...left, ...zeros, ...right]) value = (value << 16n) | BigInt(group);
  return value;
}

function groupsOf(text: string): readonly number[] {
  if (text === '') return [];
  return text.split(':').flatMap((group) => {
    if (!group.includes('.')) return [Number.parseInt(group, 16)];
    const value = ipv4Value(group);
    return [Math.floor(value / 65_536), value % 65_536];
  });
}

function ipv6Prefix(value: bigint, bits: number): bigint {
  return value >> BigInt(128 - bits);
}
