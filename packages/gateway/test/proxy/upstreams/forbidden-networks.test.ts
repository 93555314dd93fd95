import { expect, test } from 'vitest';
import { canonicalAddress, isForbiddenAddress } from '../../../src/proxy/upstreams/tenant-backends.ts';

test.each([
  ['0.0.0.0', '0.255.255.255'],
  ['10.0.0.0', '10.255.255.255'],
  ['100.64.0.0', '100.127.255.255'],
  ['127.0.0.0', '127.255.255.255'],
  ['168.63.129.16', '168.63.129.16'],
  ['169.254.0.0', '169.254.255.255'],
  ['172.16.0.0', '172.31.255.255'],
  ['192.0.0.0', '192.0.0.255'],
  ['192.0.2.0', '192.0.2.255'],
  ['192.88.99.0', '192.88.99.255'],
  ['192.168.0.0', '192.168.255.255'],
  ['198.18.0.0', '198.19.255.255'],
  ['198.51.100.0', '198.51.100.255'],
  ['203.0.113.0', '203.0.113.255'],
  ['224.0.0.0', '255.255.255.255'],
])('%s to %s is forbidden, and its neighbours are not', (first, last) => {
  expect([first, last].map(isForbiddenAddress)).toEqual([true, true]);
  const neighbours = [numberOf(first) - 1, numberOf(last) + 1].filter(
    (value) => value >= 0 && value < 2 ** 32,
  );
  for (const neighbour of neighbours) expect(isForbiddenAddress(textOf(neighbour))).toBe(false);
});

test.each([
  ['1fff:ffff::', true],
  ['2000::', false],
  ['2001::', true],
  ['2001:1ff:ffff::', true],
  ['2001:200::', false],
  ['2001:db7:ffff::', false],
  ['2001:db8::', true],
  ['2001:db8:ffff::ffff', true],
  ['2001:db9::', false],
  ['2001:ffff::', false],
  ['2002::', true],
  ['2002:ffff::', true],
  ['2003::', false],
  ['3ffe:ffff::', false],
  ['3fff::', true],
  ['3fff:fff:ffff::', true],
  ['3fff:1000::', false],
  ['4000::', true],
  ['64:ff9b::8.8.8.8', false],
  ['64:ff9b::10.0.0.1', true],
  ['64:ff9b:0:0:0:1::', true],
  ['2600::200:5efe:808:808', true],
  ['2600::300:5efe:808:808', false],
  ['::ffff:8.8.8.8', true],
  ['2600::1%eth0', true],
  ['not an address', true],
  ['', true],
])('%s is forbidden: %s', (address, forbidden) => {
  expect(isForbiddenAddress(address)).toBe(forbidden);
});

test.each([
  ['127.0.0.1', '127.0.0.1'],
  ['::ffff:127.0.0.1', '127.0.0.1'],
  ['::FFFF:7f00:1', '127.0.0.1'],
  ['::1', '0:0:0:0:0:0:0:1'],
  ['2001:DB8::', '2001:db8:0:0:0:0:0:0'],
  ['1:2:3:4:5:6:7:8', '1:2:3:4:5:6:7:8'],
  ['localhost', undefined],
])('the one spelling of %s is %s', (address, canonical) => {
  expect(canonicalAddress(address)).toBe(canonical);
});

function numberOf(address: string): number {
  return address.split('.').reduce((sum, part) => sum * 256 + Number(part), 0);
}

function textOf(value: number): string {
  return [24, 16, 8, 0].map((shift) => Math.floor(value / 2 ** shift) % 256).join('.');
}
