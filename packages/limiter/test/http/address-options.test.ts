import { describe, expect, test } from 'vitest';
import { LimiterError } from '../../src/errors.ts';
import { clientAddress, type ClientAddressOptions } from '../../src/http/client-address.ts';
import { CLIENT, clientOf, summary, xff } from './requests.ts';

const NAMES = 'trustedProxies, source, ipv6Prefix';
const ENTRY = 'a preset (loopback, linkLocal, private, uniqueLocal), an address, or a range such as';
const HOPS = 'an integer from 0 to 32';
const PREFIX = 'an integer from 32 to 64';

describe('a mistake in the options throws and names value, bound and fix', () => {
  test.each([
    [null, 'are null;', `an object with ${NAMES}`, 'or nothing'],
    ['private', 'are "private";', `an object with ${NAMES}`, 'or nothing'],
    [{ trustProxy: true }, 'do not include "trustProxy"', `accepted are ${NAMES}`, 'correct the spelling'],
    [{ trustedProxies: true }, 'trustedProxies is true;', ENTRY, '{ hops: n }'],
    [{ trustedProxies: 1 }, 'trustedProxies is 1;', ENTRY, '{ hops: n }'],
    [{ trustedProxies: null }, 'trustedProxies is null;', ENTRY, '{ hops: n }'],
    [{ trustedProxies: () => true }, 'trustedProxies is a function;', ENTRY, '{ hops: n }'],
    [{ trustedProxies: '' }, 'trustedProxies is "",', ENTRY, 'Correct it'],
    [{ trustedProxies: 'None' }, 'trustedProxies is "None",', ENTRY, 'Correct it'],
    [{ trustedProxies: 'linklocal' }, 'trustedProxies is "linklocal",', ENTRY, 'Correct it'],
    [{ trustedProxies: '__proto__' }, 'trustedProxies is "__proto__",', ENTRY, 'Correct it'],
    [{ trustedProxies: 'toString' }, 'trustedProxies is "toString",', ENTRY, 'Correct it'],
    [{ trustedProxies: 'proxy.internal' }, 'trustedProxies is "proxy.internal",', ENTRY, 'Correct it'],
    [{ trustedProxies: 'loopback, private' }, '"loopback, private",', ENTRY, 'Correct it'],
    [{ trustedProxies: '10.0.0.1:80' }, '"10.0.0.1:80",', ENTRY, 'Correct it'],
    [{ trustedProxies: '127.1' }, '"127.1",', ENTRY, 'Correct it'],
    [{ trustedProxies: 'fe80::1%eth0' }, '"fe80::1%eth0",', ENTRY, 'Correct it'],
    [{ trustedProxies: '/8' }, '"/8",', ENTRY, 'Correct it'],
    [{ trustedProxies: ['private', 'none'] }, 'trustedProxies[1] is "none",', ENTRY, 'leave it out'],
    [{ trustedProxies: ['private', 7] }, 'trustedProxies[1] is 7;', ENTRY, 'expected'],
    [{ trustedProxies: [['private']] }, 'trustedProxies[0] is an array of 1;', ENTRY, 'expected'],
    [{ trustedProxies: '10.0.0.0/0' }, '"10.0.0.0/0"', 'from 1 to 32', 'use { hops: n }'],
    [{ trustedProxies: '0.0.0.0/0' }, '"0.0.0.0/0"', 'from 1 to 32', 'use { hops: n }'],
    [{ trustedProxies: '::/0' }, '"::/0"', 'from 1 to 128', 'use { hops: n }'],
    [{ trustedProxies: '10.0.0.0/33' }, '"10.0.0.0/33"', 'from 1 to 32', 'use { hops: n }'],
    [{ trustedProxies: '::/129' }, '"::/129"', 'from 1 to 128', 'use { hops: n }'],
    [{ trustedProxies: '::ffff:0:0/96' }, '"::ffff:0:0/96"', 'from 97 to 128', 'use { hops: n }'],
    [{ trustedProxies: '10.0.0.0/' }, '"10.0.0.0/"', 'from 1 to 32', 'use { hops: n }'],
    [{ trustedProxies: '10.0.0.0/08' }, '"10.0.0.0/08"', 'from 1 to 32', 'use { hops: n }'],
    [{ trustedProxies: '10.0.0.0/8 ' }, '"10.0.0.0/8 "', 'from 1 to 32', 'use { hops: n }'],
    [{ trustedProxies: '10.0.0.0/8/8' }, '"10.0.0.0/8/8"', 'from 1 to 32', 'use { hops: n }'],
    [{ trustedProxies: '10.0.0.0/255.0.0.0' }, '"10.0.0.0/255.0.0.0"', 'from 1 to 32', 'use { hops: n }'],
    [{ trustedProxies: '10.0.0.1/8' }, '"10.0.0.1/8"', "'10.0.0.0/8' for the range", "leave out '/'"],
    [{ trustedProxies: '2001:db8::1/32' }, '"2001:db8::1/32"', "'2001:db8::/32'", "leave out '/'"],
    [{ trustedProxies: '::ffff:10.0.0.1/104' }, '"::ffff:10.0.0.1/104"', "'10.0.0.0/8'", "leave out '/'"],
    [{ trustedProxies: many(1001) }, '1001 ranges', 'at most 1000', 'join neighbouring ranges'],
    [{ trustedProxies: {} }, 'trustedProxies.hops is undefined;', HOPS, 'the number of your proxies'],
    [{ trustedProxies: { hops: -1 } }, 'hops is -1;', HOPS, 'the number of your proxies'],
    [{ trustedProxies: { hops: 33 } }, 'hops is 33;', HOPS, 'the number of your proxies'],
    [{ trustedProxies: { hops: 1.5 } }, 'hops is 1.5;', HOPS, 'the number of your proxies'],
    [{ trustedProxies: { hops: Number.NaN } }, 'hops is NaN;', HOPS, 'the number of your proxies'],
    [{ trustedProxies: { hops: '1' } }, 'hops is "1";', HOPS, 'the number of your proxies'],
    [{ trustedProxies: { hop: 1 } }, 'do not include "hop"', 'accepted are hops', 'correct the spelling'],
    [
      { source: 'X-Forwarded-For' },
      'source is "X-Forwarded-For";',
      '"x-forwarded-for", "forwarded"',
      'choose one of',
    ],
    [{ source: 'x-real-ip' }, 'source is "x-real-ip";', '"x-forwarded-for", "forwarded"', 'choose one of'],
    [{ source: null }, 'source is null;', '"x-forwarded-for", "forwarded"', 'choose one of'],
    [{ ipv6Prefix: 31 }, 'ipv6Prefix is 31;', PREFIX, 'every bit behind the 64th'],
    [{ ipv6Prefix: 65 }, 'ipv6Prefix is 65;', PREFIX, 'every bit behind the 64th'],
    [{ ipv6Prefix: 128 }, 'ipv6Prefix is 128;', PREFIX, 'every bit behind the 64th'],
    [{ ipv6Prefix: 48.5 }, 'ipv6Prefix is 48.5;', PREFIX, 'every bit behind the 64th'],
    [{ ipv6Prefix: '64' }, 'ipv6Prefix is "64";', PREFIX, 'every bit behind the 64th'],
    [{ ipv6Prefix: null }, 'ipv6Prefix is null;', PREFIX, 'every bit behind the 64th'],
  ])('%j', (options, value, bound, fix) => {
    const error = thrownBy(options);

    expect(error).toBeInstanceOf(LimiterError);
    expect(error).toMatchObject({ code: 'INVALID_OPTION' });
    expect([value, bound, fix].filter((mention) => !error.message.includes(mention))).toEqual([]);
    expect(error.message.length).toBeLessThanOrEqual(400);
  });
});

describe('the edges are accepted', () => {
  test.each<[ClientAddressOptions]>([
    [{}],
    [{ trustedProxies: undefined, source: undefined, ipv6Prefix: undefined }],
    [{ trustedProxies: { hops: 32 } }],
    [{ trustedProxies: many(1000) }],
    [{ trustedProxies: Object.freeze(['10.0.0.0/32', '::/128', '0.0.0.0/1', '::/1', '::ffff:0:0/97']) }],
    [{ ipv6Prefix: 32 }],
    [{ ipv6Prefix: 64 }],
  ])('%j', (options) => {
    expect(() => clientAddress(options)).not.toThrow();
  });

  test('an IPv4 range in its IPv6 spelling is the IPv4 range', () => {
    const trustedProxies = '::ffff:10.0.0.0/104';

    expect(summary(clientOf({ trustedProxies }, '10.255.0.1', xff(CLIENT)))).toEqual([CLIENT, 'header']);
    expect(summary(clientOf({ trustedProxies }, '11.0.0.1'))).toEqual(['11.0.0.1', 'peer']);
  });

  test('a list that is changed later changes nothing', () => {
    const trustedProxies = ['10.0.0.0/8'];
    const clients = clientAddress({ trustedProxies });
    trustedProxies.push('203.0.113.0/24');

    const client = clients({ peer: '203.0.113.1', headerLines: () => ['1.2.3.4'] });

    expect(summary(client)).toEqual(['203.0.113.1', 'peer', 'untrustedHeader']);
  });
});

function many(count: number): readonly string[] {
  return Array.from({ length: count }, (_, at) => `10.${at >> 8}.${at & 255}.0/24`);
}

function thrownBy(options: unknown): Error {
  try {
    clientAddress(options as ClientAddressOptions);
  } catch (error) {
    return error as Error;
  }
  throw new Error('nothing was thrown');
}
