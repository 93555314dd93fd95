import { isIP } from 'node:net';
import * as fc from 'fast-check';
import ipaddr from 'ipaddr.js';
import { describe, expect, test } from 'vitest';
import { formatAddress, formatNetwork, parseAddress, withoutNat64 } from '../../src/http/ip-address.ts';
import { anyAddress, ipv4, ipv6, ipv6Groups } from './generated-addresses.ts';
import { runs } from '../../../../test/runs.ts';

const RUNS = { numRuns: runs(3000) };

describe('every spelling of an address becomes its one canonical text', () => {
  test.each([
    ['0.0.0.0', '0.0.0.0'],
    ['255.255.255.255', '255.255.255.255'],
    ['1.20.200.9', '1.20.200.9'],
    ['::', '::'],
    ['::1', '::1'],
    ['1::', '1::'],
    ['0:0:0:0:0:0:0:0', '::'],
    ['2001:DB8::A', '2001:db8::a'],
    ['2001:0db8:0000:0000:0000:0000:0000:0001', '2001:db8::1'],
    // RFC 5952 §4.2.2: a single zero is not shortened. §4.2.3: the longest run is, and the first of two.
    ['2001:db8:0:1:1:1:1:1', '2001:db8:0:1:1:1:1:1'],
    ['2001:db8::1:1:1:1:1', '2001:db8:0:1:1:1:1:1'],
    ['2001:0:0:1:0:0:0:1', '2001:0:0:1::1'],
    ['2001:db8:0:0:1:0:0:1', '2001:db8::1:0:0:1'],
    ['1:2:3:4:5:6:0:0', '1:2:3:4:5:6::'],
    ['1:2:3:4:5:6:7::', '1:2:3:4:5:6:7:0'],
    ['::2:3:4:5:6:7:8', '0:2:3:4:5:6:7:8'],
    ['1:2:3:4:5:6:1.2.3.4', '1:2:3:4:5:6:102:304'],
    ['::1.2.3.4', '::102:304'],
    ['::ffff:1.2.3.4', '1.2.3.4'],
    ['::FFFF:102:304', '1.2.3.4'],
    ['0:0:0:0:0:ffff:0102:0304', '1.2.3.4'],
    ['::ffff:0:1.2.3.4', '::ffff:0:102:304'],
    ['::ffff:0:0', '0.0.0.0'],
    ['::fffe:1.2.3.4', '::fffe:102:304'],
  ])('%s is %s', (text, canonical) => {
    expect(canonicalOf(text)).toBe(canonical);
  });

  test('as ipaddr.js reads it', () => {
    fc.assert(
      fc.property(anyAddress, ({ text }) => {
        expect(canonicalOf(text)).toBe(oracleText(text));
      }),
      RUNS,
    );
    expect.hasAssertions();
  });

  test('and the canonical text is its own canonical text', () => {
    fc.assert(
      fc.property(anyAddress, ({ text }) => {
        const canonical = canonicalOf(text) ?? '';

        expect(canonicalOf(canonical)).toBe(canonical);
      }),
      RUNS,
    );
    expect.hasAssertions();
  });
});

describe('what is not exactly an address is none', () => {
  test.each([
    ['', 'nothing'],
    ['127.1', 'inet_aton with two parts'],
    ['127.0.1', 'inet_aton with three parts'],
    ['2130706433', 'inet_aton with one part'],
    ['0x7f.1', 'inet_aton in hex'],
    ['0x7f.0.0.1', 'hex'],
    ['017700000001', 'octal'],
    ['0177.0.0.1', 'octal'],
    ['01.2.3.4', 'a leading zero'],
    ['1.2.3.04', 'a leading zero'],
    ['00.0.0.0', 'two zeros'],
    ['1.2.3.256', '256'],
    ['1.2.3.999', '999'],
    ['1.2.3.1000', 'four digits'],
    ['1.2.3', 'three parts'],
    ['1.2.3.4.5', 'five parts'],
    ['1.2.3.4.', 'a dot at the end'],
    ['.1.2.3.4', 'a dot at the start'],
    ['1..3.4', 'an empty part'],
    ['1.2.3.-4', 'a sign'],
    ['1.2.3.+4', 'a sign'],
    ['1.2.3.4 ', 'a space'],
    [' 1.2.3.4', 'a space'],
    ['1.2.3.4\n', 'a line break'],
    ['1.2.3.4\u0000', 'NUL'],
    ['1,2,3,4', 'commas'],
    ['１.2.3.4', 'a fullwidth digit'],
    ['1。2。3。4', 'ideographic full stops'],
    ['①.2.3.4', 'a circled digit'],
    ['١.٢.٣.٤', 'Arabic digits'],
    ['1.2.3.4/32', 'a range'],
    ['1.2.3.4%eth0', 'a zone on IPv4'],
    ['1.2.3.4:80', 'a port'],
    [':', 'a colon'],
    [':::', 'three colons'],
    ['::1::', 'two gaps'],
    ['1::2::3', 'two gaps'],
    ['1:::2', 'three colons'],
    [':1:2:3:4:5:6:7', 'one colon at the start'],
    ['1:2:3:4:5:6:7:', 'one colon at the end'],
    ['1:2:3:4:5:6:7', 'seven groups'],
    ['1:2:3:4:5:6:7:8:9', 'nine groups'],
    ['1:2:3:4:5:6:7:8::', 'a gap for nothing'],
    ['1::2:3:4:5:6:7:8', 'a gap for nothing'],
    ['::1:2:3:4:5:6:7:8', 'a gap for nothing'],
    ['00001::', 'five digits'],
    ['g::', 'g'],
    ['::１', 'a fullwidth digit'],
    ['::ﬀ', 'a ligature of two f'],
    ['::1.2.3', 'a short IPv4 tail'],
    ['::1.2.3.04', 'a leading zero in the tail'],
    ['::1.2.3.4:5', 'an IPv4 tail that is not last'],
    ['1.2.3.4::', 'an IPv4 head'],
    ['1:2:3:4:5:6:7:1.2.3.4', 'an IPv4 tail too many'],
    ['::ffff:0x7f.1', 'inet_aton in the tail'],
    ['::a.2.3.4', 'a hex octet'],
    ['[::1]', 'brackets'],
    ['fe80::1%eth0', 'a zone'],
    ['localhost', 'a name'],
    ['unknown', 'a word'],
  ])('%j: %s', (text) => {
    expect(parseAddress(text)).toBeUndefined();
  });

  test('as Node.js judges texts one slip away from an address', () => {
    const slip = fc.record({
      at: fc.nat(45),
      remove: fc.nat(2),
      insert: fc.string({ unit: fc.constantFrom(...'0123456789abcfgFG.:.:x- '.split('')), maxLength: 3 }),
    });
    let [good, bad] = [0, 0];
    fc.assert(
      fc.property(anyAddress, slip, ({ text }, { at, remove, insert }) => {
        const slipped = text.slice(0, at) + insert + text.slice(at + remove);
        const isAddress = isIP(slipped) !== 0;
        if (isAddress) good += 1;
        else bad += 1;

        expect(parseAddress(slipped) !== undefined).toBe(isAddress);
      }),
      { numRuns: runs(10_000) },
    );
    expect(Math.min(good, bad)).toBeGreaterThan(runs(1000));
  });

  test('as Node.js judges random texts of digits, dots and colons', () => {
    fc.assert(
      fc.property(fc.string({ unit: fc.constantFrom(...'0012.:.:f'.split('')), maxLength: 20 }), (text) => {
        expect(parseAddress(text) !== undefined).toBe(isIP(text) !== 0);
      }),
      { numRuns: runs(10_000) },
    );
    expect.hasAssertions();
  });
});

describe('networks', () => {
  test('are those of ipaddr.js at every length', () => {
    fc.assert(
      fc.property(ipv6Groups, fc.integer({ min: 0, max: 128 }), (groups, bits) => {
        const network = ipaddr.IPv6.networkAddressFromCIDR(`${groups.map(hex).join(':')}/${bits}`);

        expect(formatNetwork(groups, bits)).toBe(`${network.toRFC5952String()}/${bits}`);
      }),
      RUNS,
    );
    fc.assert(
      fc.property(ipv4, fc.integer({ min: 0, max: 32 }), ({ groups, text }, bits) => {
        const network = ipaddr.IPv4.networkAddressFromCIDR(`${text}/${bits}`);

        expect(formatNetwork(groups, bits)).toBe(`${network.toString()}/${bits}`);
      }),
      RUNS,
    );
    expect.hasAssertions();
  });

  test('only the well-known NAT64 prefix hides an IPv4 address, as ipaddr.js matches it', () => {
    let translated = 0;
    fc.assert(
      fc.property(ipv6, ({ text }) => {
        // Its range 'rfc6052' would also hold 64:ff9b:1::/48, whose IPv4 addresses stand wherever a network puts them.
        const isNat64 = ipaddr.parse(text).match(ipaddr.parseCIDR('64:ff9b::/96'));
        if (isNat64) translated += 1;
        const address = parseAddress(text) ?? [];

        expect(withoutNat64(address)).toEqual(isNat64 ? address.slice(6) : address);
      }),
      RUNS,
    );
    expect(translated).toBeGreaterThan(runs(50));
  });
});

function canonicalOf(text: string): string | undefined {
  const address = parseAddress(text);
  return address && formatAddress(address);
}

/**
 * ipaddr.js keeps IPv4-mapped addresses apart; `process` makes IPv4 of them, as we do. It also takes `::1.2.3.4` (and
 * only this spelling of ::102:304) for IPv4, which RFC 4291 §2.5.5.1 does not: it is asked for the spelling without a
 * gap.
 */
function oracleText(text: string): string {
  const address = ipaddr.process(text.replace(/^::(?=\d+\.)/, '0:0:0:0:0:0:'));
  return address instanceof ipaddr.IPv6 ? address.toRFC5952String() : address.toString();
}

function hex(group: number): string {
  return group.toString(16);
}
