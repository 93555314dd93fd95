import { describe, expect, test } from 'vitest';
import type { ClientAddressOptions } from '../../src/http/client-address.ts';
import { CLIENT, clientOf, PROXY, summary, xff } from './requests.ts';

const BEHIND: ClientAddressOptions = { trustedProxies: 'private' };
const hops = (count: number): ClientAddressOptions => ({ trustedProxies: { hops: count } });

describe('without a trusted proxy, the peer is the client', () => {
  test.each([
    ['nothing', undefined],
    ["'none'", 'none'],
    ['an empty list', []],
    ['no hops', { hops: 0 }],
    ['others', ['192.0.2.0/24', 'fc00::/7']],
  ] as const)('trusting %s', (_, trustedProxies) => {
    const options = { trustedProxies };

    expect(summary(clientOf(options, PROXY))).toEqual([PROXY, 'peer']);
    expect(summary(clientOf(options, PROXY, xff('1.2.3.4')))).toEqual([PROXY, 'peer', 'untrustedHeader']);
    expect(summary(clientOf(options, PROXY, { forwarded: 'for=1.2.3.4' }))).toEqual([
      PROXY,
      'peer',
      'untrustedHeader',
    ]);
  });

  test.each(['x-real-ip', 'true-client-ip', 'cf-connecting-ip', 'x-client-ip', 'x_forwarded_for'])(
    '%s is never looked at, whoever sends it',
    (name) => {
      expect(summary(clientOf({}, CLIENT, { [name]: '1.2.3.4' }))).toEqual([CLIENT, 'peer']);
      expect(summary(clientOf(BEHIND, PROXY, { [name]: '1.2.3.4' }))).toEqual([PROXY, 'peer']);
    },
  );
});

describe('behind trusted ranges, the first untrusted address from the right is the client', () => {
  test.each([
    ['one proxy', [CLIENT]],
    ['what the client made up stays unread', [`6.6.6.6, ${CLIENT}`]],
    ['even if it looks trusted', [`10.6.6.6, ${CLIENT}`]],
    ['or is junk', [`unknown, , ${CLIENT}`]],
    ['two proxies', [`6.6.6.6, ${CLIENT}, 192.168.0.1`]],
    ['no spaces', [`6.6.6.6,${CLIENT},192.168.0.1`]],
    ['many spaces and tabs', [` \t ${CLIENT}\t,  \t192.168.0.1 \t`]],
    ['two lines count as one', ['6.6.6.6', CLIENT]],
    ['three lines', ['6.6.6.6', `7.7.7.7, ${CLIENT}, 10.0.0.3`, '10.0.0.2']],
    ['an empty line on the left', ['', CLIENT]],
    ['a trusted hop in mapped spelling', [`${CLIENT}, ::ffff:a00:2`]],
    ['a trusted hop with a port', [`${CLIENT}:80, 10.0.0.2:443`]],
  ])('%s', (_, lines) => {
    expect(summary(clientOf(BEHIND, PROXY, xff(...lines)))).toEqual([CLIENT, 'header']);
  });

  test('if all are trusted, the leftmost; without a header, the peer', () => {
    expect(summary(clientOf(BEHIND, PROXY, xff('10.0.0.3, 10.0.0.2')))).toEqual(['10.0.0.3', 'header']);
    expect(summary(clientOf(BEHIND, PROXY))).toEqual([PROXY, 'peer']);
  });

  test('the configured header is neither mixed with the other one nor replaced by it', () => {
    const both = { forwarded: 'for=6.6.6.6', ...xff(CLIENT) };

    expect(summary(clientOf(BEHIND, PROXY, both))).toEqual([CLIENT, 'header']);
    expect(summary(clientOf({ ...BEHIND, source: 'forwarded' }, PROXY, both))).toEqual(['6.6.6.6', 'header']);
    expect(summary(clientOf(BEHIND, PROXY, { forwarded: 'for=6.6.6.6' }))).toEqual([PROXY, 'peer']);
    expect(summary(clientOf({ ...BEHIND, source: 'forwarded' }, PROXY, xff(CLIENT)))).toEqual([
      PROXY,
      'peer',
    ]);
  });

  test.each([
    ['private', '10.0.0.1'],
    ['private', '::ffff:10.0.0.1'],
    ['private', '172.31.255.255'],
    ['uniqueLocal', '192.168.0.0'],
    ['uniqueLocal', 'fdff::1'],
    ['loopback', '127.255.9.1'],
    ['loopback', '::1'],
    ['linkLocal', '169.254.1.1'],
    ['linkLocal', 'febf::1%eth0'],
    ['198.51.100.9', '198.51.100.9'],
    ['2001:db8::9', '2001:db8:0::9'],
  ])('%s trusts %s', (trusted, peer) => {
    expect(summary(clientOf({ trustedProxies: trusted }, peer, xff(CLIENT)))).toEqual([CLIENT, 'header']);
  });

  test.each([
    ['private', '11.0.0.0'],
    ['private', '172.32.0.0'],
    ['private', '192.169.0.0'],
    ['uniqueLocal', 'fe00::1'],
    ['loopback', '::2'],
    ['loopback', '128.0.0.1'],
    ['linkLocal', 'fec0::1'],
    ['linkLocal', '169.255.0.0'],
    ['198.51.100.9', '198.51.100.8'],
    ['2001:db8::9', '2001:db8::8'],
    ['private', undefined],
    // RFC 6052 §3.1: this prefix must not carry private addresses, so who uses one is nobody's proxy.
    ['private', '64:ff9b::10.0.0.1'],
    // A range of IPv6, however wide, holds no IPv4 address.
    ['::/1', '10.0.0.1'],
  ])('%s does not trust %s', (trusted, peer) => {
    const client = clientOf({ trustedProxies: trusted }, peer, xff(CLIENT));

    expect(client).toEqual({ ...clientOf({}, peer), oddity: 'untrustedHeader' });
  });
});

describe('behind a number of hops, the client is that many entries from the right', () => {
  test.each([
    ['one hop', 1, [`6.6.6.6, ${CLIENT}`]],
    ['two hops', 2, [`6.6.6.6, ${CLIENT}, 198.51.100.9`]],
    ['two hops over two lines', 2, [`6.6.6.6, ${CLIENT}`, '198.51.100.9']],
    ['exactly enough entries', 2, [`${CLIENT}, 198.51.100.9`]],
    ['junk on the left', 1, [`unknown, ${CLIENT}`]],
    ['32 hops', 32, [`${CLIENT}, ${Array.from({ length: 31 }, () => '198.51.100.9').join()}`]],
  ])('%s', (_, count, lines) => {
    const found = [PROXY, '198.51.100.1', undefined].map((peer) =>
      clientOf(hops(count), peer, xff(...lines)),
    );

    expect(found.map(summary)).toEqual(found.map(() => [CLIENT, 'header']));
  });

  test('with fewer entries the header is not believed: the peer, if it is known', () => {
    const short = xff(`${CLIENT}, 198.51.100.9`);

    expect(summary(clientOf(hops(3), PROXY, short))).toEqual([PROXY, 'peer', 'tooFewHops']);
    expect(summary(clientOf(hops(1), PROXY))).toEqual([PROXY, 'peer', 'tooFewHops']);
    expect(summary(clientOf(hops(3), undefined, short))).toEqual([undefined, 'peer', 'tooFewHops']);
  });

  test('junk ends the way at the last good hop', () => {
    const lines = xff(`${CLIENT}, unknown, 198.51.100.9`);

    expect(summary(clientOf(hops(3), PROXY, lines))).toEqual(['198.51.100.9', 'header', 'junk']);
    expect(summary(clientOf(hops(1), PROXY, xff('unknown')))).toEqual([PROXY, 'peer', 'junk']);
  });
});

const JUNK = [
  'unknown',
  '_hidden',
  '',
  '-',
  '*',
  'localhost',
  '__proto__',
  '0x7f.1',
  '017700000001',
  '2130706433',
  '127.1',
  '010.0.0.2',
  '10.0.0.256',
  '"10.0.0.2"',
  'for=10.0.0.2',
  '10.0.0.2;',
  '10.0.0.0/8',
  '10.0.0.2 10.0.0.3',
  '10.0.0.2\u00a0',
  '\u200b10.0.0.2',
  '10.0.0.2\r',
  '10.0.0.２',
  '\u0000',
  '\ud800',
];

describe('junk ends the walk at the last good trusted hop, and is never skipped', () => {
  test.each(JUNK)('%j', (junk) => {
    const atTheEnd = clientOf(BEHIND, PROXY, xff(`${CLIENT}, ${junk}`));
    const afterOne = clientOf(BEHIND, PROXY, xff(`${CLIENT}, ${junk}, 10.0.0.2`));
    const alone = clientOf(BEHIND, PROXY, xff(junk));

    expect(atTheEnd).toEqual({ address: PROXY, key: PROXY, from: 'peer', oddity: 'junk' });
    expect(afterOne).toEqual({ address: '10.0.0.2', key: '10.0.0.2', from: 'header', oddity: 'junk' });
    expect(alone).toEqual(atTheEnd);
  });

  test.each([
    ['an empty line after a good one', [CLIENT, ''], [PROXY, 'peer', 'junk']],
    ['an empty line before a trusted hop', ['', '10.0.0.2'], ['10.0.0.2', 'header', 'junk']],
    ['a comma at the end', [`${CLIENT},`], [PROXY, 'peer', 'junk']],
    ['a comma at the start', [',10.0.0.2'], ['10.0.0.2', 'header', 'junk']],
    ['one comma', [','], [PROXY, 'peer', 'junk']],
  ])('%s', (_, lines, expected) => {
    expect(summary(clientOf(BEHIND, PROXY, xff(...lines)))).toEqual(expected);
  });
});

describe('at most 32 entries are read', () => {
  const chain = (count: number): readonly string[] => Array.from({ length: count }, () => '10.0.0.2');

  test.each([
    ['5,000 made-up entries left of the client', [...chain(5000), CLIENT], [CLIENT, 'header']],
    ['31 trusted hops, then the client', [CLIENT, ...chain(31)], [CLIENT, 'header']],
    ['32 trusted hops, then the client', [CLIENT, ...chain(32)], ['10.0.0.2', 'header', 'tooManyEntries']],
    ['32 trusted hops and nothing else', chain(32), ['10.0.0.2', 'header']],
    ['5,000 trusted hops', chain(5000), ['10.0.0.2', 'header', 'tooManyEntries']],
  ])('%s', (_, entries, expected) => {
    const source = 'forwarded';
    const elements = entries.map((entry) => `for=${entry}`);

    expect(summary(clientOf(BEHIND, PROXY, xff(entries.join(', '))))).toEqual(expected);
    expect(summary(clientOf(BEHIND, PROXY, xff(...entries)))).toEqual(expected);
    expect(summary(clientOf({ ...BEHIND, source }, PROXY, { forwarded: elements.join() }))).toEqual(expected);
  });
});

describe('without an address there is no key, and never an empty one', () => {
  test.each([undefined, '', ' ', 'unknown', '@', 'unix:app.sock', '\u0000', '127.1'])('peer %j', (peer) => {
    const nobody = { address: undefined, key: undefined, from: 'peer' };

    expect(clientOf({}, peer)).toEqual({ ...nobody, oddity: undefined });
    expect(clientOf(BEHIND, peer, xff(CLIENT))).toEqual({ ...nobody, oddity: 'untrustedHeader' });
  });
});
