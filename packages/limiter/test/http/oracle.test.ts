// An independent implementation, `proxy-addr` (which Express uses), finds the same client. Where it is laxer by design,
// it says so here.
import type { IncomingMessage } from 'node:http';
import { isIP } from 'node:net';
import * as fc from 'fast-check';
import ipaddr from 'ipaddr.js';
import proxyaddr from 'proxy-addr';
import { describe, expect, test } from 'vitest';
import {
  clientAddress,
  type ClientAddress,
  type ClientAddressOptions,
} from '../../src/http/client-address.ts';
import { formatNetwork, parseAddress } from '../../src/http/ip-address.ts';
import { toTrust } from '../../src/http/trusted-proxies.ts';
import { anyAddress, ipv4, ipv6 } from './generated-addresses.ts';
import { request, summary } from './requests.ts';
import { runs } from '../../../../test/runs.ts';

/**
 * Inside of `proxy-addr`, ipaddr.js 1 misses some addresses with a dotted tail (`1::1.2.3.4`) and takes `::1.2.3.4` for
 * IPv4. Of the dotted ones only `::ffff:1.2.3.4` is left here; ipaddr.js 2 reads all of them in ip-address.test.ts.
 */
const address = anyAddress
  .map(({ text }) => text)
  .filter((text) => !/:.*\./.test(text) || /^::ffff:[\d.]+$/i.test(text));

const PRESETS = [
  ['loopback', 'loopback'],
  ['linkLocal', 'linklocal'],
  ['uniqueLocal', 'uniquelocal'],
  ['private', 'uniquelocal'],
] as const;

interface TrustedEntry {
  readonly ours: string;
  readonly theirs: string;
}

/** Ranges start at their first address: `proxy-addr` also takes `10.1.2.3/8`, which looks like a slip to us. */
const range: fc.Arbitrary<TrustedEntry> = fc
  .oneof(
    fc.tuple(ipv4, fc.integer({ min: 1, max: 32 })).map(([{ groups }, bits]) => formatNetwork(groups, bits)),
    fc.tuple(ipv6, fc.integer({ min: 1, max: 128 })).map(([{ groups }, bits]) => formatNetwork(groups, bits)),
    // The same IPv4 range in its IPv6 spelling. /96 is refused: it holds every IPv4 address.
    fc
      .tuple(ipv4, fc.integer({ min: 1, max: 32 }))
      .map(([{ groups }, bits]) => formatNetwork([0, 0, 0, 0, 0, 0xffff, ...groups], bits + 96)),
    address,
  )
  .filter((text) => !isIpv4MappedButWider(text))
  .map((text) => ({ ours: text, theirs: text }));

const trusted: fc.Arbitrary<readonly TrustedEntry[]> = fc.array(
  fc.oneof(
    range,
    fc.constantFrom(...PRESETS).map(([ours, theirs]) => ({ ours, theirs })),
  ),
  { minLength: 1, maxLength: 6 },
);

describe('ranges', () => {
  test('hold the addresses that proxy-addr says they hold', () => {
    const seen = { inside: 0, outside: 0 };
    fc.assert(
      fc.property(trusted, address, fc.nat(), (entries, text, pick) => {
        // An address at random is nearly never in a range at random: half of the time take one out of a range.
        const chosen = pick % 2 === 0 ? text : (insideOf(entries, pick) ?? text);
        const theirs = proxyaddr.compile(entries.map((entry) => entry.theirs))(chosen, 1);
        const ours = toTrust(entries.map((entry) => entry.ours)).trusts(parseAddress(chosen), 1);
        seen[theirs ? 'inside' : 'outside'] += 1;

        expect(ours).toBe(theirs);
      }),
      { numRuns: runs(3000) },
    );
    expect(Math.min(seen.inside, seen.outside)).toBeGreaterThan(runs(500));
  });
});

/**
 * `proxy-addr` skips empty entries and believes inet_aton's forms, so neither is among its junk here; both stand in
 * tables.
 */
const junk = fc.constantFrom(
  'unknown',
  '_hidden',
  '"',
  'for=10.0.0.1',
  'a.b.c.d',
  '10.0.0.256',
  '::g',
  '-',
  '1.2.3.4.5',
);

const chain = fc.array(
  fc.oneof(
    {
      weight: 6,
      arbitrary: fc.constantFrom('10.0.0.2', '172.20.0.3', 'fd00::5', '::ffff:10.1.1.1', '192.168.1.1'),
    },
    { weight: 4, arbitrary: address },
    { weight: 2, arbitrary: junk },
  ),
  { maxLength: 8 },
);

describe('the client', () => {
  test('behind trusted ranges is the one that proxy-addr finds; where it finds junk, the hop before', () => {
    const seen = { peer: 0, header: 0, junk: 0 };
    fc.assert(
      fc.property(trusted, chain, fc.oneof(fc.constant('10.0.0.1'), address), (entries, hops, peer) => {
        const trust = [...entries, { ours: 'private', theirs: 'uniquelocal' }];
        const chainTheirs = proxyaddr.all(
          incoming(peer, hops),
          trust.map((entry) => entry.theirs),
        );
        const good = chainTheirs.filter((text) => isIP(text) !== 0);

        const client = clientWith({ trustedProxies: trust.map((entry) => entry.ours) }, peer, hops);

        expect(client.address).toBe(canonical(good.at(-1) ?? ''));
        expect(client.oddity === 'junk').toBe(good.length < chainTheirs.length);
        expect(client.from).toBe(good.length === 1 ? 'peer' : 'header');
        seen[client.oddity === 'junk' ? 'junk' : client.from] += 1;
      }),
      { numRuns: runs(3000) },
    );
    expect(Math.min(seen.peer, seen.header, seen.junk)).toBeGreaterThan(runs(300));
  });

  test('behind a number of hops is the one that proxy-addr counts to, if there are as many', () => {
    let short = 0;
    fc.assert(
      fc.property(
        fc.integer({ min: 0, max: 6 }),
        fc.array(address, { maxLength: 8 }),
        address,
        (count, hops, peer) => {
          const theirs = proxyaddr(incoming(peer, hops), (_, hop) => hop < count);

          const client = clientWith({ trustedProxies: { hops: count } }, peer, hops);

          // Where the header is too short, `proxy-addr` believes its left end, which anybody may have written.
          const isShort = hops.length < count;
          if (isShort) short += 1;
          expect(client.address).toBe(canonical(isShort ? peer : theirs));
          expect(client.oddity === 'tooFewHops').toBe(isShort);
        },
      ),
      { numRuns: runs(3000) },
    );
    expect(short).toBeGreaterThan(runs(300));
  });

  test('is the same in every notation: ports, brackets, zones, spaces, lines, Forwarded', () => {
    fc.assert(
      fc.property(chain, fc.array(fc.nat(), { minLength: 8, maxLength: 8 }), (hops, choices) => {
        const plain = clientWith({ trustedProxies: 'private' }, '10.0.0.1', hops);
        const dressed = hops.map((hop, at) => dress(hop, choices[at] ?? 0));
        const elements = hops.map((hop, at) => forwardedElement(hop, choices[at] ?? 0));
        const inLines = clientAddress({ trustedProxies: 'private' });
        const forwarded = clientAddress({ trustedProxies: 'private', source: 'forwarded' });

        expect(clientWith({ trustedProxies: 'private' }, '[::ffff:10.0.0.1]:9', dressed)).toEqual(plain);
        expect(inLines(request('10.0.0.1', { 'x-forwarded-for': dressed }))).toEqual(plain);
        expect(forwarded(request('10.0.0.1', { forwarded: elements }))).toEqual(plain);
        if (hops.length === 0) return;
        expect(forwarded(request('10.0.0.1', { forwarded: elements.join(' ,\t') }))).toEqual(plain);
      }),
      { numRuns: runs(3000) },
    );
    expect.hasAssertions();
  });

  test('does not depend on anything left of the first untrusted address', () => {
    fc.assert(
      fc.property(fc.string({ unit: 'binary', maxLength: 40 }), fc.nat(3), (text, count) => {
        const tail = ['203.0.113.7', ...Array.from({ length: count }, () => '10.0.0.2')];
        const line = `${text},${tail.join(', ')}`;

        const client = clientAddress({ trustedProxies: 'private' })(
          request('10.0.0.1', { 'x-forwarded-for': line }),
        );

        expect(summary(client)).toEqual(['203.0.113.7', 'header']);
      }),
      { numRuns: runs(3000) },
    );
    expect.hasAssertions();
  });
});

function clientWith(options: ClientAddressOptions, peer: string, hops: readonly string[]): ClientAddress {
  return clientAddress(options)(
    request(peer, hops.length === 0 ? {} : { 'x-forwarded-for': hops.join(', ') }),
  );
}

function incoming(peer: string, hops: readonly string[]): IncomingMessage {
  return {
    headers: { 'x-forwarded-for': hops.join(', ') },
    socket: { remoteAddress: peer },
  } as unknown as IncomingMessage;
}

function canonical(text: string): string {
  const parsed = ipaddr.process(text);
  if (!(parsed instanceof ipaddr.IPv6)) return parsed.toString();
  const isNat64 = parsed.match(ipaddr.IPv6.parseCIDR('64:ff9b::/96'));
  return isNat64 ? new ipaddr.IPv4(parsed.toByteArray().slice(12)).toString() : parsed.toRFC5952String();
}

function isIpv4MappedButWider(text: string): boolean {
  const [base = '', bits] = text.split('/');
  if (bits === undefined) return false;
  const parsed = ipaddr.parse(base);
  return parsed instanceof ipaddr.IPv6 && parsed.isIPv4MappedAddress() && Number(bits) <= 96;
}

function insideOf(entries: readonly TrustedEntry[], pick: number): string | undefined {
  return entries[pick % entries.length]?.ours.split('/').find((text) => isIP(text) !== 0);
}

/** The same hop, with what proxies like to add. */
function dress(hop: string, choice: number): string {
  const kind = isIP(hop);
  const port = choice % 2 === 0 ? `:${choice % 65_536}` : '';
  const zone = choice % 3 === 0 ? '%eth0' : '';
  const space = choice % 5 === 0 ? ' \t' : '';
  if (kind === 4) return `${space}${hop}${port}${space}`;
  if (kind === 6) return `${space}${port === '' ? `${hop}${zone}` : `[${hop}${zone}]${port}`}${space}`;
  return hop;
}

function forwardedElement(hop: string, choice: number): string {
  const kind = isIP(hop);
  const port = choice % 2 === 0 ? `:${choice % 65_536}` : '';
  const node = kind === 6 ? `[${hop}]${port}` : kind === 4 ? `${hop}${port}` : hop;
  const isToken = /^[\w.-]+$/.test(node);
  const quoted = `"${node.replaceAll(/["\\]/g, String.raw`\$&`).replaceAll('1', choice % 3 === 0 ? String.raw`\1` : '1')}"`;
  const pairs = [`for=${isToken && choice % 5 !== 0 ? node : quoted}`, 'by="a,b\\",c\\\\"', 'proto=http'];
  return (choice % 7 === 0 ? pairs.toReversed() : pairs.slice(0, 1 + (choice % 3))).join(
    choice % 11 === 0 ? ' ; ' : ';',
  );
}
