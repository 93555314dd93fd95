import { LimiterError, show } from '../errors.ts';
import { requireOptionNames } from '../options.ts';
import {
  bitsOf,
  formatNetwork,
  isInRange,
  isIpv4,
  isNetwork,
  parseAddress,
  rangeOf,
  type AddressRange,
  type IpAddress,
} from './ip-address.ts';

export type TrustedProxies = string | readonly string[] | { readonly hops: number };

export interface Trust {
  /**
   * Whether a hop may say who stands before it. Hop 0 is the socket's peer (which may be unknown), hop 1 the rightmost
   * entry.
   */
  readonly trusts: (address: IpAddress | undefined, hop: number) => boolean;
  /** A header that ends before the trusted hops do did not come through all of them, and is not believed. */
  readonly needsEveryHop: boolean;
}

/** More hops than this are never looked at. */
export const MAX_HOPS = 32;
/** Every hop is compared with every range. */
const MAX_TRUSTED_RANGES = 1000;

const PRIVATE: readonly string[] = ['10.0.0.0/8', '172.16.0.0/12', '192.168.0.0/16', 'fc00::/7'];

/** A `Map`, so that `__proto__` is not a preset. */
const PRESETS: ReadonlyMap<string, readonly string[]> = new Map([
  ['loopback', ['127.0.0.0/8', '::1/128']],
  ['linkLocal', ['169.254.0.0/16', 'fe80::/10']],
  ['private', PRIVATE],
  ['uniqueLocal', PRIVATE],
]);

const ENTRY = `a preset (${[...PRESETS.keys()].join(', ')}), an address, or a range such as '10.0.0.0/8'`;
const ACCEPTED = `'none', ${ENTRY}, a list of these, or { hops: n }`;

export function toTrust(trustedProxies: TrustedProxies): Trust {
  if (trustedProxies === 'none') return inRanges([]);
  if (typeof trustedProxies === 'string') return inRanges(rangesOf('trustedProxies', trustedProxies));
  if (isList(trustedProxies)) return inRanges(rangesOfList(trustedProxies));
  const hops = hopsOf(trustedProxies);
  return { trusts: (_, hop) => hop < hops, needsEveryHop: true };
}

/** The preset that contains an address, for messages. */
export function presetOf(address: IpAddress): string | undefined {
  for (const [name, texts] of PRESETS) {
    if (texts.some((text) => isInRange(address, parseRange(name, text)))) return name;
  }
  return undefined;
}

function inRanges(ranges: readonly AddressRange[]): Trust {
  return {
    trusts: (address) => address !== undefined && ranges.some((range) => isInRange(address, range)),
    needsEveryHop: false,
  };
}

function isList(
  trustedProxies: readonly string[] | { readonly hops: number },
): trustedProxies is readonly string[] {
  return Array.isArray(trustedProxies);
}

function rangesOfList(list: readonly string[]): readonly AddressRange[] {
  const ranges = list.flatMap((entry, at) => rangesOf(`trustedProxies[${at}]`, entry));
  if (ranges.length <= MAX_TRUSTED_RANGES) return ranges;
  throw invalid(
    `trustedProxies has ${ranges.length} ranges; at most ${MAX_TRUSTED_RANGES} are compared per hop: join neighbouring ranges, or use { hops: n }.`,
  );
}

function rangesOf(name: string, entry: string): readonly AddressRange[] {
  if (typeof entry !== 'string') throw invalid(`${name} is ${show(entry)}; expected ${ENTRY}.`);
  const texts = PRESETS.get(entry) ?? [entry];
  return texts.map((text) => parseRange(name, text));
}

function parseRange(name: string, text: string): AddressRange {
  const slash = text.indexOf('/');
  const address = parseAddress(slash < 0 ? text : text.slice(0, slash));
  if (address === undefined) {
    throw invalid(`${name} is ${show(text)}, which is none of these: ${ENTRY}. Correct it, or leave it out.`);
  }
  const bits = bitsOf(address);
  if (slash < 0) return rangeOf(address, bits);
  // Spelled `::ffff:10.0.0.0/104`, an IPv4 range counts 96 bits more.
  const uncounted = isIpv4(address) && text.includes(':') ? 96 : 0;
  const spelled = text.slice(slash + 1);
  const prefixBits = /^[1-9]\d{0,2}$/.test(spelled) ? Number(spelled) - uncounted : 0;
  if (prefixBits < 1 || prefixBits > bits) {
    throw invalid(
      `${name} is ${show(text)}; the number after '/' has to be from ${uncounted + 1} to ${uncounted + bits}: if every address may be a proxy, use { hops: n }.`,
    );
  }
  if (!isNetwork(address, prefixBits)) {
    throw invalid(
      `${name} is ${show(text)}, one address inside of a range: write '${formatNetwork(address, prefixBits)}' for the range, or leave out '/' for the address.`,
    );
  }
  return rangeOf(address, prefixBits);
}

function hopsOf(trustedProxies: unknown): number {
  if (typeof trustedProxies !== 'object' || trustedProxies === null) {
    throw invalid(`trustedProxies is ${show(trustedProxies)}; expected ${ACCEPTED}.`);
  }
  requireOptionNames('The options of trustedProxies', trustedProxies, ['hops']);
  const hops: unknown = Reflect.get(trustedProxies, 'hops');
  if (typeof hops === 'number' && Number.isInteger(hops) && hops >= 0 && hops <= MAX_HOPS) return hops;
  throw invalid(
    `trustedProxies.hops is ${show(hops)}; expected an integer from 0 to ${MAX_HOPS}: the number of your proxies that a request passes.`,
  );
}

function invalid(message: string): LimiterError {
  return new LimiterError('INVALID_OPTION', message);
}
