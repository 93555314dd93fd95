import { describe, expect, test } from 'vitest';
import { clientAddress } from '../../src/http/client-address.ts';
import { clientOf, PROXY, request, xff } from './requests.ts';

const BEHIND = { trustedProxies: 'private' };

describe('ports, brackets and zones are dropped; IPv4 has one key in every spelling', () => {
  test.each([
    ['1.2.3.4', '1.2.3.4'],
    ['1.2.3.4:5678', '1.2.3.4'],
    ['1.2.3.4:0', '1.2.3.4'],
    ['1.2.3.4:99999', '1.2.3.4'],
    ['[2001:db8::1]', '2001:db8::/64'],
    ['[2001:db8::1]:80', '2001:db8::/64'],
    ['2001:db8::1', '2001:db8::/64'],
    ['[2001:DB8::1%eth0]:80', '2001:db8::/64'],
    ['2001:db8::1%25eth0', '2001:db8::/64'],
    ['2001:db8::1%br-lan.10', '2001:db8::/64'],
    ['2001:db8::1%~!^', '2001:db8::/64'],
    ['::ffff:1.2.3.4', '1.2.3.4'],
    ['::ffff:102:304', '1.2.3.4'],
    ['0:0:0:0:0:ffff:0102:0304', '1.2.3.4'],
    ['[::ffff:1.2.3.4]:80', '1.2.3.4'],
    ['[::ffff:1.2.3.4%eth0]', '1.2.3.4'],
  ])('%s is counted as %s', (text, key) => {
    expect(clientOf(BEHIND, PROXY, xff(text)).key).toBe(key);
    expect(clientOf({}, text).key).toBe(key);
  });

  test.each([
    '1.2.3.4:',
    '1.2.3.4:123456',
    '1.2.3.4:80:80',
    '1.2.3.4:8a',
    '1.2.3.4: 80',
    '1.2.3.4:-1',
    '1.2.3.4:８０',
    '1.2.3.4:_',
    '1.2.3.4:_é',
    '1.2.3.4:\n80',
    '1.2.3.4:80\n',
    '1.2.3.4%eth0',
    '1.2.3.4%eth0:80',
    '[1.2.3.4]',
    '[1.2.3.4]:80',
    '[1.2.3.4%a]',
    '[::1',
    '::1]',
    '[::1]]',
    '[[::1]]',
    '[::1]80',
    '[::1]:',
    '[::1]:x',
    '[]',
    '[]:80',
    '[%eth0]',
    '[::1%eth0',
    '::1%',
    '[::1%]',
    '::1%eth0:80',
    '::1%eth 0',
    '::1%eth\t0',
    '::1%[',
    '::1%]',
    '::1%\u007f',
    '::1%\u00e9',
    '%eth0',
    ':80',
    '1:80',
    '1.2.3:80',
  ])('%j is junk', (text) => {
    expect(clientOf(BEHIND, PROXY, xff(text))).toMatchObject({ key: PROXY, oddity: 'junk' });
    expect(clientOf({}, text)).toMatchObject({ address: undefined, key: undefined });
  });

  test('an address with everything around it has at most 100 characters', () => {
    const [longest, tooLong] = [96, 97].map((length) => `::1%${'x'.repeat(length)}`);

    expect(clientOf({}, longest).address).toBe('::1');
    expect(clientOf({}, tooLong).address).toBeUndefined();
  });
});

describe('IPv6 is counted per network', () => {
  test('10,000 addresses of one /64 are one key', () => {
    const clients = clientAddress();
    const keys = Array.from({ length: 10_000 }, (_, at) => {
      const digits = at.toString(16);
      return clients(request(`2001:db8:1:2:${digits}::${digits}`)).key;
    });

    expect(new Set(keys)).toEqual(new Set(['2001:db8:1:2::/64']));
  });

  test.each([
    [32, '2001:db8::/32'],
    [33, '2001:db8:8000::/33'],
    [48, '2001:db8:ffff::/48'],
    [56, '2001:db8:ffff:1200::/56'],
    [63, '2001:db8:ffff:1234::/63'],
    [64, '2001:db8:ffff:1235::/64'],
    [undefined, '2001:db8:ffff:1235::/64'],
  ])('with a prefix of %s', (ipv6Prefix, key) => {
    const address = '2001:db8:ffff:1235:ffff:ffff:ffff:ffff';

    expect(clientOf({ ipv6Prefix }, address)).toEqual({ address, key, from: 'peer', oddity: undefined });
    expect(clientOf({ ipv6Prefix }, '203.0.113.7').key).toBe('203.0.113.7');
  });

  test.each([
    ['2001:db8:1:2::1.2.3.4', '2001:db8:1:2::102:304', '2001:db8:1:2::/64'],
    ['2001:db8:1:2::102:304', '2001:db8:1:2::102:304', '2001:db8:1:2::/64'],
    ['::1.2.3.4', '::102:304', '::/64'],
    ['64:ff9b::808:808', '8.8.8.8', '8.8.8.8'],
    ['64:ff9b::8.8.8.8', '8.8.8.8', '8.8.8.8'],
    ['64:ff9b:1::808:808', '64:ff9b:1::808:808', '64:ff9b:1::/64'],
    ['64:ff9b:0:0:0:1:808:808', '64:ff9b::1:808:808', '64:ff9b::/64'],
    ['2002:808:808::1', '2002:808:808::1', '2002:808:808::/64'],
    ['2001:0:4136:e378:8000:63bf:3fff:fdd2', '2001:0:4136:e378:8000:63bf:3fff:fdd2', '2001:0:4136:e378::/64'],
    ['fe80::1%eth0', 'fe80::1', 'fe80::/64'],
  ])('%s is %s, counted as %s', (peer, address, key) => {
    expect(clientOf({}, peer)).toMatchObject({ address, key });
    expect(clientOf(BEHIND, PROXY, xff(peer))).toMatchObject({ address, key });
  });
});
