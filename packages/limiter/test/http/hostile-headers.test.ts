import * as fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { clientAddress, type ClientAddressOptions } from '../../src/http/client-address.ts';
import { watchProxies } from '../../src/http/proxy-warning.ts';
import { looksOf } from './counted-looks.ts';
import { request } from './requests.ts';
import { runs } from '../../../../test/runs.ts';

const SETTINGS: readonly ClientAddressOptions[] = [
  {},
  { trustedProxies: ['private', 'loopback', '::/1', '8000::/1'] },
  { trustedProxies: { hops: 1 } },
  { trustedProxies: { hops: 32 }, ipv6Prefix: 32 },
  { trustedProxies: 'private', source: 'forwarded' },
  { trustedProxies: { hops: 3 }, source: 'forwarded', ipv6Prefix: 48 },
];

describe('whatever is sent, the answer is an address, its network, or nothing', () => {
  const unit = fc.oneof(
    fc.string({ unit: 'binary', maxLength: 3 }),
    fc.constantFrom(...'"\\,;=:.[]%/_ \t0f'.split('')),
    fc.constantFrom('10.0.0.1', '::1', 'for=', '::ffff:', '64:ff9b::', '203.0.113.7', 'unknown', '__proto__'),
  );
  const text = fc.array(unit, { maxLength: 30 }).map((parts) => parts.join(''));

  test.each(SETTINGS)('%j', (options) => {
    const clients = clientAddress(options);
    const watch = watchProxies(() => undefined);
    fc.assert(
      fc.property(fc.option(text, { nil: undefined }), fc.array(text, { maxLength: 4 }), (peer, lines) => {
        const facts = request(peer, { 'x-forwarded-for': lines, forwarded: lines });
        const client = clients(facts);
        watch(client, facts);

        expect(client.address ?? '::').toMatch(/^(?:\d{1,3}(?:\.\d{1,3}){3}|[\da-f:]{2,39})$/);
        expect(client.key ?? '::/64').toMatch(/^(?:\d{1,3}(?:\.\d{1,3}){3}|[\da-f:]{2,39}\/\d\d)$/);
        expect(client.key === undefined).toBe(client.address === undefined);
      }),
      { numRuns: runs(1000) },
    );
    expect.hasAssertions();
  });

  test.each(SETTINGS)('a header of 64 KiB, with %j', (options) => {
    const clients = clientAddress(options);
    fc.assert(
      fc.property(fc.string({ unit: 'binary', minLength: 1, maxLength: 20 }), (piece) => {
        const long = piece.repeat(Math.ceil(65_536 / piece.length));
        const facts = request(long, { 'x-forwarded-for': long, forwarded: long });

        expect(() => clients(facts)).not.toThrow();
      }),
      { numRuns: 100 },
    );
    expect.hasAssertions();
  });
});

describe('the work is bounded', () => {
  /** Headers that grow with a size; most of them make every hop trusted, so that the walk goes as far as it may. */
  const GROWING: readonly (readonly [what: string, header: (size: number) => string])[] = [
    ['addresses', (size) => repeated('10.0.0.2, ', size)],
    ['elements', (size) => repeated('for=10.0.0.2, ', size)],
    ['commas', (size) => repeated(',', size)],
    ['spaces', (size) => repeated(' ', size)],
    ['spaces after an address', (size) => `10.0.0.2${repeated(' ', size)}`],
    ['quotes', (size) => repeated('"', size)],
    ['backslashes', (size) => repeated('\\', size)],
    ['escaped quotes', (size) => repeated('\\"', size)],
    ['runs of backslashes between quotes', (size) => repeated(`${'\\'.repeat(255)}"`, size)],
    ['a string of escapes', (size) => `for=10.0.0.2;x="${repeated('\\"', size)}"`],
    ['a string that is never closed', (size) => `for="${repeated('a', size)}`],
    ['a string that is never opened', (size) => `${repeated('a', size)}"`],
    ['pairs', (size) => `for=10.0.0.2;${repeated('a=1;', size)}`],
    ['empty pairs', (size) => `for=10.0.0.2${repeated(';', size)}`],
    ['a long token', (size) => `for=10.0.0.2;a=${repeated('1', size)}`],
    ['digits', (size) => repeated('1', size)],
    ['dots', (size) => repeated('1.', size)],
    ['colons', (size) => repeated('1:', size)],
    ['brackets', (size) => repeated('[', size)],
    ['a long zone', (size) => `::1%${repeated('a', size)}`],
    ['a long port', (size) => `10.0.0.2:${repeated('1', size)}`],
  ];

  test.each(GROWING)('%s: a few looks per character, however long', (_, header) => {
    const sizes = [1024, 16_384, 65_536];

    const looks = sizes.flatMap((size) =>
      SETTINGS.map((options) => looksPerCharacter(options, header(size))),
    );

    expect(Math.max(...looks)).toBeLessThan(5);
    expect(Math.max(...looks)).toBeGreaterThan(0);
  });

  test.each(['10.0.0.2, ', 'for=10.0.0.2, '])('%j: no more looks at 5,000 entries than at 40', (entry) => {
    const [forty, many] = [40, 5000].map((count) =>
      SETTINGS.map((options) => looksAt(options, `${entry.repeat(count)}${entry.slice(0, -2)}`)),
    );

    expect(many).toEqual(forty);
  });

  function looksPerCharacter(options: ClientAddressOptions, header: string): number {
    return looksAt(options, header) / header.length;
  }

  function looksAt(options: ClientAddressOptions, header: string): number {
    const facts = request('10.0.0.1', { 'x-forwarded-for': header, forwarded: header });
    const clients = clientAddress(options);
    return looksOf(() => void clients(facts));
  }
});

function repeated(piece: string, size: number): string {
  return piece.repeat(Math.ceil(size / piece.length));
}
