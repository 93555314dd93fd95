// A peer's address is read once and then remembered. Nobody may notice, but for the time it takes.
import * as fc from 'fast-check';
import { expect, test } from 'vitest';
import { clientAddress, type ClientAddressOptions } from '../../src/http/client-address.ts';
import { ipv4, ipv6 } from './generated-addresses.ts';
import { runs } from '../../../../test/runs.ts';

const OPTIONS: readonly ClientAddressOptions[] = [
  {},
  { ipv6Prefix: 48 },
  { trustedProxies: 'private' },
  { trustedProxies: { hops: 1 }, source: 'forwarded' },
];

const peers = fc.oneof(
  fc.oneof(ipv4, ipv6).map(({ text }) => text),
  fc.constantFrom(undefined, '', 'junk', '10.0.0.1', '[2001:db8::1]:80', 'x'.repeat(200)),
);
const headers = fc.constantFrom<Readonly<Record<string, readonly string[]>>>(
  {},
  {},
  { 'x-forwarded-for': ['192.0.2.1'] },
  { forwarded: ['for=192.0.2.2'] },
);

test('whoever was seen before is named as if for the first time, with and without a header of a proxy', () => {
  fc.assert(
    fc.property(
      fc.constantFrom(...OPTIONS),
      fc.array(peers, { minLength: 1, maxLength: 3 }),
      fc.array(fc.tuple(fc.nat(), headers), { maxLength: 8 }),
      (options, few, requests) => {
        const remembers = clientAddress(options);
        for (const [at, lines] of requests) {
          const facts = { peer: few[at % few.length], headerLines: (name: string) => lines[name] ?? [] };

          expect(remembers(facts)).toEqual(clientAddress(options)(facts));
        }
      },
    ),
    { numRuns: runs(3000) },
  );
});

test('more peers than are remembered are told apart all the same', () => {
  const clientOf = clientAddress();
  const headerLines = (): readonly string[] => [];

  for (let round = 0; round < 2; round += 1) {
    for (let at = 0; at < 10_000; at += 1) {
      const peer = `10.0.${at >> 8}.${at & 0xff}`;
      expect(clientOf({ peer, headerLines }).key).toBe(peer);
    }
  }
});
